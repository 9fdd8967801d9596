"""kill -9 at every failpoint under a live writer; a restart makes it as if nothing had happened."""

import re
import signal
from pathlib import Path

import pytest

from ops.backfill.failpoints import FAILPOINTS
from resources.embedded.postgres import RunningPostgres
from resources.settings import Settings
from tests.support.driver import NOTE, Job, restarted, start
from tests.support.judge import require_equal, require_no_orphans
from tests.support.pipeline import new_pipeline
from tests.support.writer import LiveWriter

ROWS = 2000
OPS = Path(__file__).parents[2] / "ops"
LIVE = ("stream", "table", "view", "settle")
RESTARTED = (*LIVE, "rest", "collect")
# What must be done, beyond going live, to come to a failpoint, and again after the restart.
ALSO = {"merge": ("merge",), "fold": ("fold",), "collect": ("merge",)}
# Steps that are taken again and again: they are also killed when all is live and in step.
AGAIN = tuple(n for n in FAILPOINTS if n.startswith(("tick.", "view.")))


def test_every_failpoint_is_listed_and_every_listed_one_stands_somewhere() -> None:
    text = "\n".join(path.read_text() for path in sorted(OPS.rglob("*.py")))
    standing = set(re.findall(r'failpoint\(\s*"([a-z_.]+)"', text))
    # The commit's own two are named after what is committed: name="tick" and so on.
    sides = re.findall(r'failpoint\(f"{name}\.([a-z_]+)"\)', text)
    names = set(re.findall(r'[( ]name="([a-z]+)"', text))
    names |= set(re.findall(r'name="([a-z]+)" if .* else "([a-z]+)"', text)[0])
    assert sides == ["before_commit", "after_commit"]
    standing |= {f"{name}.{side}" for name in names for side in sides}
    assert standing == set(FAILPOINTS)
    assert len(FAILPOINTS) == len(set(FAILPOINTS))


@pytest.mark.parametrize(
    ("name", "once_settled"),
    [*((n, False) for n in FAILPOINTS), *((n, True) for n in AGAIN)],
    ids=lambda v: v if isinstance(v, str) else "again" if v else "first",
)
def test_killed_there_and_restarted(
    name: str,
    once_settled: bool,
    postgres: RunningPostgres,
    session_settings: Settings,
    spark_remote: str,
    tmp_path: Path,
) -> None:
    # Both replica identities take their turn: with before images, and with look-ups.
    full = FAILPOINTS.index(name) % 3 == 0
    group = name.partition(".")[0]
    many = 3 if group in ("merge", "collect") else 16
    also = ALSO.get(group, ())
    last = ("collect",) if group == "collect" else ()
    with (
        new_pipeline(
            postgres, session_settings, spark_remote, tmp_path, rows=ROWS, full_identity=full
        ) as pipeline,
        LiveWriter(pipeline.dsn, rows=ROWS) as writer,
    ):
        job = Job(
            pipeline.settings,
            "first",
            (*LIVE, *also, *last),
            failpoint=name,
            once_settled=once_settled,
            max_log_files=many,
        )
        killed = start(job)
        assert killed.wait() == -signal.SIGKILL, killed.output
        assert (tmp_path / NOTE).read_text() == name
        again = start(restarted(Job(pipeline.settings, "second", (*RESTARTED, *also)), "second"))
        again.await_file(again.file("settled"))
        writer.stop()
        epoch = again.finish()
        assert require_equal(pipeline, epoch) > 0
        require_no_orphans(pipeline)
