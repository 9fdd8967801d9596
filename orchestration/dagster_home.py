"""The Dagster instance of `tidegate up`: its dagster.yaml and workspace, written at each start.

The storage is a database of the embedded Postgres; its address holds a password and is therefore
given by the environment, never written into the file.
"""

from dataclasses import dataclass
from pathlib import Path

import yaml

from orchestration.keys import STREAM_TAG
from resources.settings import Settings

STORAGE_VARIABLE = "DAGSTER_POSTGRES_URL"
STORAGE_DATABASE = "dagster"
HEADER = "# Written by `tidegate up` at each start; changes made here are lost.\n"


@dataclass(frozen=True, slots=True)
class DagsterHome:
    folder: Path
    workspace: Path


def write_dagster_home(settings: Settings, *, code_socket: Path) -> DagsterHome:
    """Write what the webserver, the daemon and the runs read; return where."""
    folder = settings.dagster_home
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "dagster.yaml").write_text(HEADER + yaml.safe_dump(instance_config(settings)))
    workspace = folder / "workspace.yaml"
    server = {"socket": str(code_socket), "location_name": "tidegate"}
    workspace.write_text(HEADER + yaml.safe_dump({"load_from": [{"grpc_server": server}]}))
    return DagsterHome(folder, workspace)


def instance_config(settings: Settings) -> dict[str, object]:
    return {
        "storage": {"postgres": {"postgres_url": {"env": STORAGE_VARIABLE}}},
        "compute_logs": {
            "module": "dagster._core.storage.local_compute_log_manager",
            "class": "LocalComputeLogManager",
            "config": {"base_dir": str(settings.logs / "runs")},
        },
        "local_artifact_storage": {
            "module": "dagster._core.storage.root",
            "class": "LocalArtifactStorage",
            "config": {"base_dir": str(settings.dagster_home)},
        },
        "telemetry": {"enabled": False},
        "nux": {"enabled": False},
        "run_launcher": {"module": "dagster", "class": "DefaultRunLauncher"},
        "run_coordinator": {
            "module": "dagster",
            "class": "QueuedRunCoordinator",
            "config": {"dequeue_interval_seconds": 1},
        },
        "concurrency": {
            # A second launch of the same backfill stays in the queue until the first has ended.
            "pools": {"default_limit": 1, "granularity": "run"},
            "runs": {
                "max_concurrent_runs": 10,
                "tag_concurrency_limits": [
                    {
                        "key": STREAM_TAG,
                        "value": {"applyLimitPerUniqueValue": True},
                        "limit": 1,
                    }
                ],
            },
        },
        "run_monitoring": {
            "enabled": True,
            "start_timeout_seconds": 180,
            "cancel_timeout_seconds": 60,
            "max_resume_run_attempts": 0,
            "poll_interval_seconds": 15,
        },
        # A backfill whose process died goes on in a new run; one that failed by itself does not.
        "run_retries": {
            "enabled": True,
            "max_retries": 3,
            "retry_on_asset_or_op_failure": False,
        },
        "retention": {
            "sensor": {
                "purge_after_days": {"skipped": 1, "success": 7, "failure": 14, "started": 1}
            },
            "schedule": {"purge_after_days": 14},
        },
        "sensors": {"use_threads": True, "num_workers": 2},
        "code_servers": {"local_startup_timeout": 180, "reload_timeout": 180},
    }
