"""Spark sessions, in-process or over Spark Connect, with the same settings in both.

    spark_conf(settings)     what dagster-pyspark's resource is given
    prepare_process          what PySpark reads from the environment; call before the first session
    open_session             both of the above, for code outside Dagster
    new_session              the same Spark with settings of its own (a fold stamps its commits)
    close_session            call it before the server of a Connect session is stopped

In-process and Connect sessions do not mix in one process: PySpark decides once.
"""

import subprocess
import sys
from pathlib import Path
from typing import Any, cast

from pyspark import SparkContext
from pyspark.sql import SparkSession

from resources.embedded.jars import ensure_jars
from resources.embedded.java import Java, find_java
from resources.object_store import object_store
from resources.settings import Settings, export

SESSION_CONF = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.shuffle.partitions": "4",
    # Else a sum of two decimal(38,18) silently loses its last digit.
    "spark.sql.decimalOperations.allowPrecisionLoss": "false",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Days before 1582 mean what they say; a rebase would change a source's values.
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # Else the names of more than 32 files are looked at by a job of its own, before each read.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "1000",
    # The default of 50 makes small Delta queries four times slower.
    "spark.databricks.delta.snapshotPartitions": "2",
}
STATIC_CONF = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}
JVM_SECONDS = 20
LOG4J = """\
rootLogger.level = warn
rootLogger.appenderRef.file.ref = file
appender.file.type = RollingFile
appender.file.name = file
appender.file.fileName = {file}
appender.file.filePattern = {file}.%i
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d %p %c{{1}}: %m%n%ex
appender.file.policies.type = Policies
appender.file.policies.size.type = SizeBasedTriggeringPolicy
appender.file.policies.size.size = 20MB
appender.file.strategy.type = DefaultRolloverStrategy
appender.file.strategy.max = 3
"""


def spark_conf(settings: Settings) -> dict[str, str]:
    """Return the settings of a session; in-process it may fetch jars the first time."""
    if settings.spark_remote is not None:
        ours = {"spark.remote": settings.spark_remote, **SESSION_CONF}
        return {**ours, **settings.spark_conf}
    return {
        "spark.master": settings.spark_master,
        "spark.driver.memory": settings.spark_driver_memory,
        **server_conf(settings, find_java(settings), log_name="spark"),
    }


def server_conf(settings: Settings, java: Java, *, log_name: str) -> dict[str, str]:
    """Return what a Spark that we start ourselves needs, in-process or as a Connect server."""
    folder = settings.home / "spark"
    for made in (folder, settings.logs):
        made.mkdir(parents=True, exist_ok=True)
    log4j = folder / f"{log_name}.log4j2.properties"
    log4j.write_text(LOG4J.format(file=settings.logs / f"{log_name}.log"))
    store = object_store(settings)
    jars = [str(jar) for jar in ensure_jars(settings, java)]
    if settings.spark_master.startswith("local"):
        # On the class path they are used where they lie; as `spark.jars` every session copies them.
        where = {"spark.driver.extraClassPath": ":".join(jars)}
    else:
        where = {"spark.jars": ",".join(jars)}
    return {
        **STATIC_CONF,
        **SESSION_CONF,
        **(store.spark_conf() if store else {}),
        **where,
        "spark.driver.extraJavaOptions": " ".join(java_options(folder, log4j)),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.local.dir": str(folder / "scratch"),
        # Python workers run functions of ours: they import them from the project.
        "spark.executorEnv.PYTHONPATH": str(settings.root),
        **settings.spark_conf,
    }


def java_options(folder: Path, log4j: Path) -> list[str]:
    return [
        f"-Dlog4j2.configurationFile=file:{log4j}",
        f"-Dderby.system.home={folder}",
        f"-Djava.io.tmpdir={_made(folder / 'scratch')}",
    ]


def prepare_process(settings: Settings) -> None:
    """Set what PySpark reads from the environment of this process."""
    if settings.spark_remote is not None:
        if settings.spark_token is not None:
            export({"SPARK_CONNECT_AUTHENTICATE_TOKEN": settings.spark_token.reveal()})
        return
    store = object_store(settings)
    export(
        {
            **(store.variables() if store else {}),
            "JAVA_HOME": str(find_java(settings).home),
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
        }
    )


def open_session(settings: Settings, app_name: str) -> SparkSession:
    """Return a session: in-process the one there is, over Connect one of the caller's own."""
    prepare_process(settings)
    builder = SparkSession.builder
    for key, value in spark_conf(settings).items():
        builder = builder.config(key, value)
    if settings.spark_remote is None:
        builder = builder.appName(app_name)
    # Over Connect a session is cheap, and who closes it must not close somebody else's.
    session = builder.getOrCreate() if settings.spark_remote is None else builder.create()
    _give_up_in_time(session)
    return session


def new_session(spark: SparkSession) -> SparkSession:
    """Return a session on the same Spark whose settings and views are its own from here on."""
    if not is_connect(spark):
        return spark.newSession()
    session = cast(Any, spark).cloneSession()
    # PySpark 4.2 forgets to set it on a clone, and then cannot stop the clone.
    session.release_session_on_close = True
    _give_up_in_time(session)
    return cast(SparkSession, session)


def release_session(spark: SparkSession) -> None:
    """Let go of a session made by `new_session`; the Spark it is on goes on."""
    if is_connect(spark):
        spark.stop()


def close_session(spark: SparkSession) -> None:
    """Let go of the session while its server is still there; in-process, end Spark's JVM too."""
    connect = is_connect(spark)
    spark.stop()
    if not connect:
        _end_jvm()


def _end_jvm() -> None:
    """Wait for the JVM to be gone: PySpark leaves it to end some seconds after the process."""
    gateway = SparkContext._gateway
    process = getattr(gateway, "proc", None)
    if gateway is None or process is None:
        return
    gateway.shutdown()
    SparkContext._gateway = None
    SparkContext._jvm = None
    # It ends when its standard input does.
    process.stdin.close()
    try:
        process.wait(timeout=JVM_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def is_connect(spark: SparkSession) -> bool:
    return ".connect." in type(spark).__module__


def _give_up_in_time(spark: SparkSession) -> None:
    """Notice within 30 s that a server is gone: PySpark would try for ten minutes, also at exit."""
    if is_connect(spark):
        from pyspark.sql.connect.client.retries import DefaultPolicy

        cast(Any, spark).client.set_retry_policies([DefaultPolicy(max_retries=8, max_backoff=5000)])


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder
