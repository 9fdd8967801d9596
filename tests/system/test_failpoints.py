"""kill -9 at every failpoint under a live writer; a restart makes it as if nothing had happened."""

import re
import signal
from pathlib import Path

import pytest

from ops.backfill.failpoints import FAILPOINTS
from tests.support.driver import NOTE, Job
from tests.support.judge import require_equal, require_no_orphans
from tests.support.writer import LiveWriter
from tests.system.conftest import Launch, MakePipeline

ROWS = 2000
OPS = Path(__file__).parents[2] / "ops"
LIVE = ("stream", "table", "view", "settle")
# What must be done, beyond going live, to come to a failpoint; it is done after the restart, too.
ALSO = {"merge": ("merge",), "fold": ("fold",), "collect": ("merge",)}
# Steps that are taken again and again: they are also killed when all is live and in step, and in a
# fold that finds a base.
AGAIN = (
    "view.before_log_write",
    "view.after_log_write",
    "tick.before_commit",
    "tick.after_commit",
    "fold.after_delta",
)


def test_every_failpoint_is_listed_and_every_listed_one_stands_somewhere() -> None:
    text = "\n".join(path.read_text() for path in sorted(OPS.rglob("*.py")))
    standing = set(re.findall(r'failpoint\(\s*"([a-z_.]+)"', text))
    # The two of a commit are named after what is committed: name="tick" and so on.
    sides = re.findall(r'failpoint\(f"{name}\.([a-z_]+)"\)', text)
    assert sides == ["before_commit", "after_commit"]
    names = set(re.findall(r'[( ]name="([a-z]+)"', text))
    either = re.findall(r'name="([a-z]+)" if .* else "([a-z]+)"', text)
    names |= {name for pair in either for name in pair}
    standing |= {f"{name}.{side}" for name in names for side in sides}
    assert standing == set(FAILPOINTS)
    assert len(FAILPOINTS) == len(set(FAILPOINTS))


@pytest.mark.parametrize(
    ("name", "once_settled"),
    [*((n, False) for n in FAILPOINTS), *((n, True) for n in AGAIN)],
    ids=lambda v: v if isinstance(v, str) else "again" if v else "first",
)
def test_killed_there_and_restarted(
    name: str, once_settled: bool, make_pipeline: MakePipeline, launch: Launch
) -> None:
    group = name.partition(".")[0]
    also = ALSO.get(group, ())
    last = ("collect",) if group == "collect" else ()
    if group == "fold" and once_settled:
        last = ("fold_again",)
    # Both replica identities take their turn: with before images, and with look-ups.
    full = FAILPOINTS.index(name) % 3 > 0
    pipeline = make_pipeline(
        rows=ROWS, full_identity=full, interval_ms=2000 if group == "fold" else 500
    )
    with LiveWriter(pipeline.dsn, rows=ROWS) as writer:
        killed = launch(
            Job(
                pipeline.settings,
                "first",
                (*LIVE, *also, *last),
                failpoint=name,
                once_settled=once_settled,
                max_log_files=3 if "merge" in also else 16,
            )
        )
        assert killed.wait() == -signal.SIGKILL, killed.output
        assert (pipeline.home / NOTE).read_text() == name
        many = 3 if group == "merge" else 16
        steps = (*LIVE, *(also if group != "collect" else ()), "rest", "collect")
        again = launch(Job(pipeline.settings, "second", steps, max_log_files=many))
        again.await_file(again.file("settled"))
        writer.stop()
    epoch = again.finish()
    assert writer.transactions > 0 and require_equal(pipeline, epoch) > 0
    require_no_orphans(pipeline)
