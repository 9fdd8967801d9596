"""Settings are read once, refused by name, and never show a secret."""

import ast
import inspect
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from resources import settings as module
from resources.errors import BadSetting, ConfigError, MissingSecret
from resources.settings import VARIABLES, SecretStr, load_settings

DSN = "postgresql://me:hunter2@db/control"
FULL = {
    "TIDEGATE_HOME": "/h",
    "TIDEGATE_CONTROL_DSN": DSN,
    "TIDEGATE_SPARK_REMOTE": "sc://localhost:15002/;token=hunter2;user_id=me",
    "TIDEGATE_SPARK_CONF": '{"spark.hadoop.fs.s3a.secret.key": "hunter2"}',
    "TIDEGATE_BARRIER_INTERVAL_MS": "250",
    "TIDEGATE_LINGER_SECONDS": "inf",
    "TIDEGATE_FAILPOINT": "before_commit",
    "TIDEGATE_SECRET_SHOP_PASSWORD": "hunter2",
    "JAVA_HOME": "",
}


def test_defaults_stand_in_the_project() -> None:
    settings = load_settings({})
    assert settings.home == settings.root / ".tidegate"
    assert settings.lake == str(settings.home / "lake")
    assert settings.pipelines == settings.root / "sql" / "pipelines"
    assert settings.control_dsn is None and settings.spark_remote is None
    assert settings.barrier_interval_ms == 1000


def test_given_values_are_taken() -> None:
    settings = load_settings(FULL)
    assert settings.home == Path("/h") and settings.lake == "/h/lake"
    assert settings.control_dsn == SecretStr(DSN)
    assert settings.spark_remote == "sc://localhost:15002/;user_id=me"
    assert settings.spark_token == SecretStr("hunter2")
    assert settings.linger_seconds == float("inf")
    assert settings.java_home is None, "an empty JAVA_HOME is none"


def test_no_secret_is_ever_shown() -> None:
    settings = load_settings(FULL)
    secret = settings.secret("shop_password")
    assert secret.reveal() == "hunter2"
    assert "hunter2" not in f"{settings} {settings!r} {secret} {secret!r} {[secret]}"


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("TIDEGATE_BARRIER_INTERVAL_MS", "99"),
        ("TIDEGATE_BARRIER_INTERVAL_MS", "1.5"),
        ("TIDEGATE_LEASE_SECONDS", "nan"),
        ("TIDEGATE_LEASE_SECONDS", "soon"),
        ("TIDEGATE_SPARK_REMOTE", "localhost:15002"),
        ("TIDEGATE_SPARK_CONF", "spark.a=b"),
        ("TIDEGATE_SPARK_CONF", '{"spark.a": 1}'),
        ("TIDEGATE_SPARK_DRIVER_MEMORY", "lots"),
        ("TIDEGATE_CONTROL_DSN", "hunter2"),
        ("TIDEGATE_HOMME", "/typo"),
    ],
)
def test_a_bad_value_is_refused_by_the_variables_name(variable: str, value: str) -> None:
    with pytest.raises(BadSetting) as refused:
        load_settings({variable: value})
    assert str(refused.value).startswith(variable + " ")
    assert isinstance(refused.value, ConfigError)
    assert "hunter2" not in str(refused.value)


def test_a_secret_comes_from_the_environment_or_a_file(tmp_path: Path) -> None:
    (tmp_path / "pw").write_text("from file\n")
    settings = load_settings(
        {"TIDEGATE_SECRET_A": "plain", "TIDEGATE_SECRET_B_FILE": str(tmp_path / "pw")}
    )
    assert settings.secret("a").reveal() == "plain"
    assert settings.secret("B").reveal() == "from file"


def test_a_missing_secret_names_the_variable_to_set(tmp_path: Path) -> None:
    settings = load_settings({"TIDEGATE_SECRET_GONE_FILE": str(tmp_path / "none")})
    with pytest.raises(MissingSecret, match="TIDEGATE_SECRET_SHOP"):
        settings.secret("shop")
    with pytest.raises(BadSetting, match="TIDEGATE_SECRET_GONE_FILE"):
        settings.secret("gone")


def test_what_the_user_set_wins_over_what_a_server_provides() -> None:
    settings = load_settings({"TIDEGATE_SECRET_EMBEDDED_PORT": "1"})
    provided = {"embedded_port": SecretStr("2"), "embedded_host": SecretStr("h")}
    both = settings.with_secrets(provided)
    assert both.secret("embedded_port").reveal() == "1"
    assert both.secret("embedded_host").reveal() == "h"


def test_a_child_gets_the_same_settings() -> None:
    settings = load_settings(FULL)
    again = load_settings(settings.child_environ())
    for name in [*VARIABLES, "spark_token", "secrets"]:
        assert getattr(again, name) == getattr(settings, name), name


def test_a_relative_home_means_the_same_place_from_everywhere(tmp_path: Path) -> None:
    script = "from resources.settings import load_settings; print(load_settings().home)"
    root = Path(module.__file__).parents[1]
    environ = {**os.environ, "TIDEGATE_HOME": "some/home", "PYTHONPATH": str(root)}
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, env=environ, capture_output=True, text=True
    )
    assert done.stdout.strip() == str(root / "some/home"), done.stderr


def test_every_field_is_documented() -> None:
    body = next(
        node
        for node in ast.parse(inspect.getsource(module)).body
        if isinstance(node, ast.ClassDef) and node.name == "Settings"
    ).body
    for field, after in pairwise(body):
        if isinstance(field, ast.AnnAssign):
            assert isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
