"""The object store that holds the lake: one value from which Spark, pyarrow and delta-rs are fed.

    who         endpoint, region, style          keys
    pyarrow     `file_system()`                  in memory
    delta-rs    `delta_options()`                in memory
    Spark       `spark_conf()`, seen by all      `variables()` of the process that starts the JVM

A Spark setting is shown by every session, in the UI and in event logs, so that keys never are one:
S3A reads them from the environment of the JVM we start. A Spark that somebody else starts has keys
of its own, or the machine's role.

What holds on S3, and on what: an object appears whole or not at all, and is listed at once. Names
are new in each attempt, so that nothing of ours is ever written twice. Spark's tasks write through
the magic committer: uploads that are completed when the job commits, so nothing is renamed or
copied and a task that nobody waits for leaves nothing. Delta commits by delta-rs are conditional
puts. Delta commits by Spark are not (Delta 4.4 has no such LogStore; `S3SingleDriverLogStore` looks
first and locks within its JVM): one driver at a time may fold a table. `doctor` says so.
"""

from dataclasses import dataclass

from pyarrow import fs

from resources.setting_values import SecretStr
from resources.settings import Settings

KEYS_FROM_ENVIRONMENT = (
    "software.amazon.awssdk.auth.credentials.EnvironmentVariableCredentialsProvider"
)
COMMITTER = {
    "spark.sql.sources.commitProtocolClass": (
        "org.apache.spark.internal.io.cloud.PathOutputCommitProtocol"
    ),
    "spark.sql.parquet.output.committer.class": (
        "org.apache.spark.internal.io.cloud.BindingParquetOutputCommitter"
    ),
    "spark.hadoop.mapreduce.outputcommitter.factory.scheme.s3a": (
        "org.apache.hadoop.fs.s3a.commit.S3ACommitterFactory"
    ),
    "spark.hadoop.fs.s3a.committer.name": "magic",
}


@dataclass(frozen=True, slots=True)
class S3:
    """Travels to Spark's Python workers as it is; it never shows its keys."""

    endpoint: str | None
    region: str | None
    access_key: SecretStr | None
    secret_key: SecretStr | None
    session_token: SecretStr | None
    path_style: bool
    allow_http: bool

    def file_system(self) -> fs.S3FileSystem:
        scheme, _, host = (self.endpoint or "").rpartition("://")
        return fs.S3FileSystem(
            access_key=_text(self.access_key),
            secret_key=_text(self.secret_key),
            session_token=_text(self.session_token),
            region=self.region,
            endpoint_override=host or None,
            scheme=scheme or "https",
            force_virtual_addressing=not self.path_style,
            # A small file is one request, not an upload of parts.
            allow_delayed_open=True,
        )

    def delta_options(self) -> dict[str, str]:
        given = {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_REGION": self.region,
            "AWS_ALLOW_HTTP": "true" if self.allow_http else None,
            "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "false" if self.path_style else "true",
            **self.variables(),
        }
        return {name: value for name, value in given.items() if value is not None}

    def spark_conf(self) -> dict[str, str]:
        given = {
            "spark.hadoop.fs.s3a.endpoint": self.endpoint,
            "spark.hadoop.fs.s3a.endpoint.region": self.region,
            "spark.hadoop.fs.s3a.path.style.access": str(self.path_style).lower(),
            "spark.hadoop.fs.s3a.aws.credentials.provider": (
                KEYS_FROM_ENVIRONMENT if self.access_key else None
            ),
            **COMMITTER,
        }
        return {name: value for name, value in given.items() if value is not None}

    def variables(self) -> dict[str, str]:
        given = {
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": self.secret_key,
            "AWS_SESSION_TOKEN": self.session_token,
        }
        return {name: value.reveal() for name, value in given.items() if value is not None}


def object_store(settings: Settings) -> S3 | None:
    """Return the store of the lake; None where the lake is a folder."""
    if not settings.lake.startswith("s3://"):
        return None
    return S3(
        endpoint=settings.s3_endpoint,
        region=settings.s3_region,
        access_key=settings.s3_access_key,
        secret_key=settings.s3_secret_key,
        session_token=settings.s3_session_token,
        path_style=settings.s3_path_style,
        allow_http=settings.s3_allow_http,
    )


def _text(secret: SecretStr | None) -> str | None:
    return None if secret is None else secret.reveal()
