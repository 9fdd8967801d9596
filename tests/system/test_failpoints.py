"""kill -9 at every failpoint under a live writer; a restart makes it as if nothing had happened.

The deaths come in lives: a pipeline is killed at one step, started again, killed at the next, and
so on; after the last death it is started once more and judged. With `--every-death-alone` each
failpoint has a pipeline and a judgement of its own.
"""

import signal
from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from ops.backfill.failpoints import FAILPOINTS
from tests.support.driver import NOTE, Child, Job
from tests.support.judge import require_equal, require_no_orphans
from tests.support.pipeline import VIEWS, TestPipeline, change_silently, lose_slot
from tests.support.writer import LiveWriter
from tests.system.conftest import Launch, MakePipeline

ROWS = 2000
LIVE = ("stream", "table", "view", "settle")


@dataclass(frozen=True)
class Life:
    """`deaths` in the order they come in; `then` is what must be done beyond going live.

    A death marked `*` comes only when all is live and in step, and in a fold that finds a base.
    """

    name: str
    deaths: tuple[str, ...]
    then: tuple[str, ...] = ()
    full_identity: bool = True
    interval_ms: int = 500
    max_log_files: int = 16
    retention_s: float = 3600
    spoils: Callable[[TestPipeline], None] | None = None
    """Done to a pipeline that is all live, before each death: there is something to repair."""
    views: tuple[str, ...] = ("revenue",)

    @property
    def steps(self) -> tuple[str, ...]:
        return LIVE if self.views else tuple(step for step in LIVE if step != "view")


def both(*effects: str) -> tuple[str, ...]:
    """Return the two sides of each effect; a mark at its end goes to both."""
    return tuple(
        f"{group}.{side}_{step}"
        for group, _, step in (effect.partition(".") for effect in effects)
        for side in ("before", "after")
    )


def differ(pipeline: TestPipeline) -> None:
    """Change rows that the writer leaves alone, one more each time, unseen by the stream."""
    change_silently(
        pipeline,
        "INSERT INTO orders (id, region, quantity) "
        "SELECT greatest(max(id), 1000000000) + 1, 'r1', 1 FROM orders",
        "UPDATE orders SET amount = 7, note = 'unseen' WHERE id > 1000000000",
    )


LIVES = (
    # Each comes once in a pipeline's life, in this order, whichever thread is the first.
    Life(
        "prepare",
        both("apply.commit", *(f"prepare.{s}" for s in ("publication", "slot", "record"))),
    ),
    Life(
        "start",
        both("lease.acquire", "stream.bind", "tick.inject", "attempt.register"),
        full_identity=False,
    ),
    Life("table", both(*(f"backfill.{s}" for s in ("plan_splits", "page_write", "watermark")))),
    Life(
        "table, with look-ups",
        both("backfill.commit", "tick.log_write", "tick.commit", "tick.confirm", "lease.renew"),
        full_identity=False,
    ),
    Life(
        "view",
        both("snapshot.pin", "view.log_write", "stage.delete", "snapshot.commit")
        + both(
            "follow.pin", "follow.commit", "follow.announce", "lease.take_over", "rejoin.commit"
        ),
        full_identity=False,
    ),
    Life("in step", both("view.log_write*", "tick.commit*", "lease.release")),
    Life("in step, with look-ups", both("view.log_write*", "tick.commit*"), full_identity=False),
    Life("flush", both("flush.message"), ("flush",)),
    Life("read", both("pin.take", "pin.renew", "pin.release"), ("read",)),
    Life("spoilt", both("attempt.fail*"), ("spoil",)),
    Life("merge", both("merge.write", "merge.commit"), ("merge",), False, max_log_files=3),
    Life(
        "fold",
        both("fold.pin", "fold.create", "fold.delta", "fold.record", "fold.unpin"),
        ("fold",),
        interval_ms=2000,
        # A view's tables are folded in "fold again".
        views=(),
    ),
    Life("fold again", both("fold.delta*"), ("fold", "fold_again"), False, 2000),
    Life("repair", both("repair.stage", "repair.log_write"), ("repair",), False, spoils=differ),
    Life(
        "slot lost",
        both("gap.open", "gap.slot", "gap.record", "gap.close"),
        ("renew", "repair"),
        spoils=lose_slot,
    ),
    Life(
        "collect",
        # The first leaves an orphan, without which there is nothing to retire.
        (
            "tick.after_log_write",
            *both("collect.retire", "collect.delete", "collect.forget", "collect.strike"),
        ),
        ("merge", "collect"),
        max_log_files=3,
    ),
    Life(
        "vacuum",
        both("vacuum.delete", "vacuum.strike"),
        ("fold", "fold_again", "vacuum"),
        interval_ms=2000,
        retention_s=0,
    ),
    # Much like their neighbours in the lives above: a file is written that nobody names yet.
    Life(
        "repair, early",
        both("repair.graph", "repair.begin", "repair.mark", "repair.page_write", "repair.write"),
        ("repair",),
        False,
        spoils=differ,
    ),
    Life("slot lost, half dropped", both("gap.drop"), ("renew", "repair"), spoils=lose_slot),
)
# Done after the last death too, and not only on the way to it.
AFTERWARDS = ("merge", "fold", "renew", "repair")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "life" not in metafunc.fixturenames:
        return
    lives = LIVES
    if metafunc.config.getoption("--every-death-alone"):
        lives = tuple(
            replace(life, name=f"{life.name}: {death}", deaths=(death,))
            for life in LIVES
            for death in life.deaths
        )
    metafunc.parametrize("life", lives, ids=[life.name for life in lives])


def test_every_failpoint_is_died_at() -> None:
    assert {d.rstrip("*") for life in LIVES for d in life.deaths} == set(FAILPOINTS)


def test_killed_there_and_restarted(
    life: Life, make_pipeline: MakePipeline, launch: Launch
) -> None:
    pipeline = make_pipeline(
        rows=ROWS,
        full_identity=life.full_identity,
        interval_ms=life.interval_ms,
        lease_seconds=5.0,
        retention_s=life.retention_s,
        views={name: VIEWS[name] for name in life.views},
    )
    with LiveWriter(pipeline.dsn, rows=ROWS) as writer:
        if life.spoils is not None:
            _live(pipeline, launch)
        for number, death in enumerate(life.deaths):
            if life.spoils is not None:
                life.spoils(pipeline)
            _die(pipeline, launch, life, death, number)
        steps = (*life.steps, *(s for s in life.then if s in AFTERWARDS), "rest", "collect")
        last = launch(
            Job(
                pipeline.settings,
                "last",
                steps,
                views=life.views,
                max_log_files=life.max_log_files,
            )
        )
        last.await_file(last.file("settled"))
        writer.stop()
    epoch = last.finish()
    assert writer.transactions > 0 and require_equal(pipeline, epoch, views=life.views) > 0
    require_no_orphans(pipeline)


def _live(pipeline: TestPipeline, launch: Launch) -> None:
    first: Child = launch(Job(pipeline.settings, "first", LIVE))
    assert first.wait() == 0, first.output
    pipeline.expire_leases()


def _die(pipeline: TestPipeline, launch: Launch, life: Life, death: str, number: int) -> None:
    name = death.rstrip("*")
    child: Child = launch(
        Job(
            pipeline.settings,
            f"life {number}",
            (*life.steps, *life.then),
            views=life.views,
            failpoint=name,
            once_settled=death.endswith("*"),
            max_log_files=life.max_log_files,
        )
    )
    assert child.wait() == -signal.SIGKILL, f"{name}\n{child.output}"
    note = pipeline.home / NOTE
    assert note.read_text() == name
    note.unlink()
    pipeline.expire_leases()
