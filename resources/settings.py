"""Every setting, read from the environment once; no other module reads it.

    TIDEGATE_HOME          all that a deployment keeps on this machine
    TIDEGATE_CONTROL_DSN   the control store, when it is not the embedded Postgres
    TIDEGATE_LAKE          where table files live: a folder, or s3://… with TIDEGATE_S3_*
    TIDEGATE_SECRET_<N>    the value of `SECRET n` in a definition; …_FILE names a file holding it

Each field of `Settings` names its variable and default. A wrong value is refused by name.
"""

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TypeVar

from resources import setting_values as values
from resources.errors import BadSetting, MissingSecret
from resources.setting_values import SecretStr as SecretStr

T = TypeVar("T")

SECRET_PREFIX = "TIDEGATE_SECRET_"
# Left in the environment by PySpark once a Connect session was opened; a child must not inherit it.
SPARK_LEFTOVERS = ("SPARK_REMOTE", "SPARK_LOCAL_REMOTE", "SPARK_CONNECT_MODE_ENABLED")


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings of one process. Built by `load_settings`; changed only by `with_*` copies."""

    root: Path
    """The project folder: where `sql/` stands and what Python workers import from."""

    home: Path
    """TIDEGATE_HOME, default `.tidegate/` in the project: embedded Postgres, lake, Dagster home."""

    cache: Path
    """TIDEGATE_CACHE, default `.cache/` in the project: what can be fetched again (jars)."""

    lake: str
    """TIDEGATE_LAKE, default `lake/` in the home: a folder, file:///folder or s3://bucket/prefix."""

    pipelines: Path
    """TIDEGATE_PIPELINES, default `sql/pipelines/`: the folder of .sql definitions."""

    s3_endpoint: str | None = None
    """TIDEGATE_S3_ENDPOINT: of an object store that is not Amazon's, `https://host:port`."""

    s3_region: str | None = None
    """TIDEGATE_S3_REGION: of the lake's bucket; AWS_REGION and us-east-1 stand in for it."""

    s3_access_key: SecretStr | None = None
    """TIDEGATE_S3_ACCESS_KEY: without one, whatever the machine has (AWS_*, its role) is used."""

    s3_secret_key: SecretStr | None = None
    """TIDEGATE_S3_SECRET_KEY: of the access key."""

    s3_session_token: SecretStr | None = None
    """TIDEGATE_S3_SESSION_TOKEN: where the keys are temporary ones."""

    s3_path_style: bool = False
    """TIDEGATE_S3_PATH_STYLE: `true` for a store that has no host name per bucket."""

    s3_allow_http: bool = False
    """TIDEGATE_S3_ALLOW_HTTP: `true` to talk to an http:// endpoint, unencrypted."""

    control_dsn: SecretStr | None = None
    """TIDEGATE_CONTROL_DSN: conninfo of the control store; empty means the embedded Postgres."""

    spark_remote: str | None = field(default=None, repr=False)
    """TIDEGATE_SPARK_REMOTE: `sc://host:port` of a Spark Connect server; empty means in-process.

    A `token=` in it is taken out and kept in `spark_token`, so that this text may be shown."""

    spark_token: SecretStr | None = None
    """The token found in TIDEGATE_SPARK_REMOTE."""

    spark_master: str = "local[*]"
    """TIDEGATE_SPARK_MASTER: where Spark runs when it is in-process."""

    spark_driver_memory: str = "2g"
    """TIDEGATE_SPARK_DRIVER_MEMORY: heap of the Spark we start, as Spark writes sizes."""

    spark_conf: Mapping[str, str] = field(default_factory=dict, repr=False)
    """TIDEGATE_SPARK_CONF: a JSON object of further Spark settings; they win over ours."""

    java_home: Path | None = None
    """JAVA_HOME: tried first when Spark needs a Java; anything but 17 or 21 is passed over."""

    search_path: str = field(default="", repr=False)
    """PATH: where `java` is looked for next."""

    ivy_settings: Path | None = None
    """TIDEGATE_IVY_SETTINGS: an Ivy settings file naming your own artifact repository."""

    barrier_interval_ms: int = 1000
    """TIDEGATE_BARRIER_INTERVAL_MS: time between barriers, at least 100."""

    checkpoint_frequency: int = 1
    """TIDEGATE_CHECKPOINT_FREQUENCY: every how many barriers one is a checkpoint."""

    lease_seconds: float = 30.0
    """TIDEGATE_LEASE_SECONDS: a graph whose owner is silent for this long may be taken over."""

    linger_seconds: float = 10.0
    """TIDEGATE_LINGER_SECONDS: how long an idle stream run stays; `inf` means for ever."""

    fold_interval_seconds: float = 60.0
    """TIDEGATE_FOLD_INTERVAL_SECONDS: how often logs are folded into bases while changes flow."""

    retention_seconds: float = 3600.0
    """TIDEGATE_RETENTION_SECONDS: how long the epochs of past folds stay readable."""

    idle_commit_seconds: float = 30.0
    """TIDEGATE_IDLE_COMMIT_SECONDS: how often an idle source's position is committed."""

    failpoint: str | None = None
    """TIDEGATE_FAILPOINT: the name of a failpoint at which this process is to die; for tests."""

    secrets: Mapping[str, SecretStr] = field(default_factory=dict, repr=False)
    """TIDEGATE_SECRET_<NAME>, by lower-case name, and those of the embedded server."""

    secret_files: Mapping[str, Path] = field(default_factory=dict, repr=False)
    """TIDEGATE_SECRET_<NAME>_FILE, by lower-case name; read when asked for."""

    @property
    def logs(self) -> Path:
        return self.home / "logs"

    @property
    def dagster_home(self) -> Path:
        return self.home / "dagster"

    def secret(self, name: str) -> SecretStr:
        """Return the secret a definition calls `name`; refuse with the variable to set."""
        key = name.lower()
        if key in self.secrets:
            return self.secrets[key]
        variable = SECRET_PREFIX + key.upper()
        if key in self.secret_files:
            try:
                return SecretStr(self.secret_files[key].read_text().rstrip("\r\n"))
            except OSError as error:
                why = f"names a file that cannot be read: {error.strerror}"
                raise BadSetting(variable + "_FILE", why) from error
        raise MissingSecret(name, variable)

    def with_secrets(self, provided: Mapping[str, SecretStr]) -> "Settings":
        """Return a copy that also knows `provided`; what the user set himself wins."""
        return replace(self, secrets={**provided, **self.secrets})

    def with_remote(self, url: SecretStr) -> "Settings":
        """Return a copy that uses the Spark Connect server at `url`, which may carry a token."""
        remote, token = values.split_token(url.reveal())
        return replace(self, spark_remote=remote, spark_token=token)

    def child_environ(self) -> dict[str, str]:
        """Return the environment for a child process that is to have these same settings."""
        environ = {k: v for k, v in os.environ.items() if k not in SPARK_LEFTOVERS}
        for item in fields(self):
            variable = VARIABLES.get(item.name)
            value = getattr(self, item.name)
            if variable is None:
                continue
            environ.pop(variable, None)
            if value is not None and value != item.default:
                environ[variable] = _written(value)
        if self.spark_remote and self.spark_token:
            separator = ";" if "/;" in self.spark_remote else "/;"
            token = self.spark_token.reveal()
            environ["TIDEGATE_SPARK_REMOTE"] = f"{self.spark_remote}{separator}token={token}"
        environ.update({SECRET_PREFIX + k.upper(): v.reveal() for k, v in self.secrets.items()})
        return environ


VARIABLES: Mapping[str, str] = {
    name: "TIDEGATE_" + name.upper()
    for name in (
        "home",
        "cache",
        "lake",
        "pipelines",
        "s3_endpoint",
        "s3_region",
        "s3_access_key",
        "s3_secret_key",
        "s3_session_token",
        "s3_path_style",
        "s3_allow_http",
        "control_dsn",
        "spark_remote",
        "spark_master",
        "spark_driver_memory",
        "spark_conf",
        "ivy_settings",
        "barrier_interval_ms",
        "checkpoint_frequency",
        "lease_seconds",
        "linger_seconds",
        "fold_interval_seconds",
        "retention_seconds",
        "idle_commit_seconds",
        "failpoint",
    )
}


def load_settings(environ: Mapping[str, str] | None = None) -> Settings:
    """Return the settings of this process, or refuse with the name of the variable at fault."""
    env = os.environ if environ is None else environ
    _refuse_unknown(env)
    root = project_root()
    home = _read(env, "home", lambda v: _folder(v, root), root / ".tidegate")
    no_remote: tuple[str | None, SecretStr | None] = (None, None)
    remote, token = _read(env, "spark_remote", values.remote, no_remote)
    secrets, files = _secrets(env)
    java_home = env.get("JAVA_HOME", "").strip()
    settings = Settings(
        root=root,
        home=home,
        cache=_read(env, "cache", lambda v: _folder(v, root), _default_cache(root, home)),
        lake=_read(env, "lake", lambda v: _lake(v, root), str(home / "lake")),
        pipelines=_read(env, "pipelines", lambda v: _folder(v, root), root / "sql" / "pipelines"),
        s3_endpoint=_read(env, "s3_endpoint", values.endpoint, None),
        s3_region=_read(env, "s3_region", str, None),
        s3_access_key=_read(env, "s3_access_key", SecretStr, None),
        s3_secret_key=_read(env, "s3_secret_key", SecretStr, None),
        s3_session_token=_read(env, "s3_session_token", SecretStr, None),
        s3_path_style=_read(env, "s3_path_style", values.switch, False),
        s3_allow_http=_read(env, "s3_allow_http", values.switch, False),
        control_dsn=_read(env, "control_dsn", values.dsn, None),
        spark_remote=remote,
        spark_token=token,
        spark_master=_read(env, "spark_master", str, "local[*]"),
        spark_driver_memory=_read(env, "spark_driver_memory", values.memory, "2g"),
        spark_conf=_read(env, "spark_conf", values.conf, {}),
        java_home=Path(java_home) if java_home else None,
        search_path=env.get("PATH", os.defpath),
        ivy_settings=_read(env, "ivy_settings", lambda v: _folder(v, root), None),
        barrier_interval_ms=_read(env, "barrier_interval_ms", values.whole(100), 1000),
        checkpoint_frequency=_read(env, "checkpoint_frequency", values.whole(1), 1),
        lease_seconds=_read(env, "lease_seconds", values.seconds(1), 30.0),
        linger_seconds=_read(env, "linger_seconds", values.seconds(0), 10.0),
        fold_interval_seconds=_read(env, "fold_interval_seconds", values.seconds(0), 60.0),
        retention_seconds=_read(env, "retention_seconds", values.seconds(0), 3600.0),
        idle_commit_seconds=_read(env, "idle_commit_seconds", values.seconds(0), 30.0),
        failpoint=_read(env, "failpoint", str, None),
        secrets=secrets,
        secret_files=files,
    )
    _require_whole_s3(settings)
    return settings


def export(variables: Mapping[str, str]) -> None:
    """Set variables that a library of this process reads by itself (PySpark does)."""
    os.environ.update(variables)


def project_root() -> Path:
    """Return the folder that holds the rooms, or the current one when we are installed apart."""
    here = Path(__file__).resolve().parents[1]
    return here if (here / "pyproject.toml").exists() else Path.cwd()


def _read(env: Mapping[str, str], name: str, parse: Callable[[str], T], default: T) -> T:
    value = env.get(VARIABLES[name], "").strip()
    if not value:
        return default
    try:
        return parse(value)
    except ValueError as error:
        # `from None`: the parser's own error may quote a secret.
        raise BadSetting(VARIABLES[name], str(error)) from None


def _refuse_unknown(env: Mapping[str, str]) -> None:
    ours = {name for name in env if name.startswith("TIDEGATE_")}
    for name in sorted(ours - set(VARIABLES.values())):
        if not name.startswith(SECRET_PREFIX):
            known = ", ".join(sorted(VARIABLES.values()))
            raise BadSetting(name, f"is not a setting of tidegate; there are: {known}")


def _folder(value: str, root: Path) -> Path:
    # Relative to the project, so that a run started elsewhere (by Dagster) means the same place.
    return root / Path(value).expanduser()


def _lake(value: str, root: Path) -> str:
    scheme, found, rest = value.partition("://")
    if not found:
        return str(_folder(value, root))
    if scheme == "file" and rest.startswith("/"):
        return rest.rstrip("/")
    if scheme not in ("s3", "s3a") or not rest.strip("/"):
        raise ValueError("must be a folder, file:///folder or s3://bucket/prefix")
    return f"s3://{rest.rstrip('/')}"


def _require_whole_s3(settings: Settings) -> None:
    if (settings.s3_access_key is None) != (settings.s3_secret_key is None):
        missing = "s3_secret_key" if settings.s3_secret_key is None else "s3_access_key"
        raise BadSetting(VARIABLES[missing], "is missing: a key needs its secret")
    plain = settings.s3_endpoint is not None and settings.s3_endpoint.startswith("http://")
    if plain and not settings.s3_allow_http:
        raise BadSetting(
            VARIABLES["s3_endpoint"], "is not encrypted; set TIDEGATE_S3_ALLOW_HTTP=true if it may"
        )


def _default_cache(root: Path, home: Path) -> Path:
    return root / ".cache" if os.access(root, os.W_OK) else home / "cache"


def _secrets(env: Mapping[str, str]) -> tuple[dict[str, SecretStr], dict[str, Path]]:
    values, files = {}, {}
    for variable, value in env.items():
        name = variable.removeprefix(SECRET_PREFIX).lower()
        if not variable.startswith(SECRET_PREFIX) or not name:
            continue
        if name.endswith("_file"):
            files[name.removesuffix("_file")] = Path(value)
        else:
            values[name] = SecretStr(value)
    return values, files


def _written(value: object) -> str:
    if isinstance(value, SecretStr):
        return value.reveal()
    if isinstance(value, Mapping):
        return json.dumps(dict(value))
    return str(value)
