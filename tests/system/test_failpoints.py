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
from orchestration import lifecycle, running
from orchestration.deployment import open_deployment
from tests.support.driver import NOTE, Child, Job
from tests.support.judge import require_equal, require_no_orphans
from tests.support.pipeline import PIPELINE, VIEWS, TestPipeline, change_silently, lose_slot
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
    parallelism: int = 2
    """0 is the backfill with one reader."""

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


def redefine(pipeline: TestPipeline) -> None:
    """Ask for a new version of the table; one that is being built is given up."""
    text = pipeline.file.read_text()
    size = int(text.partition("snapshot.batch_size = '")[2].partition("'")[0])
    pipeline.rewrite((f"batch_size = '{size}'", f"batch_size = '{size - 1}'"))


def widen(pipeline: TestPipeline) -> None:
    """Have a second source and two more tables set up, and ask for all that to be dropped."""
    whole = pipeline.file.read_text()
    with pipeline.source() as source:
        for name in ("extra", "more"):
            source.execute(f"CREATE TABLE IF NOT EXISTS {name} (id int PRIMARY KEY)".encode())
    slot = whole.partition("slot.name = '")[2].partition("'")[0]
    second = whole.partition(";\n")[0].replace("SOURCE shop", "SOURCE two")
    wider = whole + ";\n".join(
        (
            second.replace(slot, f"{slot}_2"),
            "CREATE TABLE extra (*) FROM shop TABLE 'public.extra'",
            "CREATE TABLE more (*) FROM two TABLE 'public.more'",
        )
    )
    with open_deployment(pipeline.settings) as deployment:
        # What the death before has left.
        lifecycle.apply(deployment, deployment.pipeline(PIPELINE))
        lifecycle.apply_text(deployment, PIPELINE, wider)
        running.prepare(deployment, deployment.applied(PIPELINE), tell=print)


def unpublish(pipeline: TestPipeline) -> None:
    """Take a table that is followed out of the publication behind the pipeline's back."""
    with pipeline.source() as source:
        source.execute("CREATE TABLE IF NOT EXISTS extra (id int PRIMARY KEY)")
    if "extra" not in pipeline.file.read_text():
        with pipeline.file.open("a") as file:
            file.write("CREATE TABLE extra (*) FROM shop TABLE 'public.extra';\n")
        with open_deployment(pipeline.settings) as deployment:
            lifecycle.apply(deployment, deployment.pipeline(PIPELINE))
            running.prepare(deployment, deployment.applied(PIPELINE), tell=print)
        with pipeline.source() as source:
            (name,) = source.execute("SELECT pubname FROM pg_publication").fetchone() or ("",)
            source.execute(f"ALTER PUBLICATION {name} DROP TABLE extra".encode())
    with pipeline.store() as store:
        store.execute("UPDATE relations SET state = 'Live', live_since = 1 WHERE name = 'extra'")


def ask_for_nothing(pipeline: TestPipeline) -> None:
    """Ask for a version of the table that reads one which is not there any more."""
    with pipeline.source() as source:
        source.execute("CREATE TABLE IF NOT EXISTS elsewhere (id bigint PRIMARY KEY)")
    if "elsewhere" in pipeline.file.read_text():
        redefine(pipeline)
    else:
        pipeline.rewrite(("public.orders", "public.elsewhere"))
    with open_deployment(pipeline.settings) as deployment:
        lifecycle.apply(deployment, deployment.pipeline(PIPELINE))
    with pipeline.source() as source:
        source.execute("DROP TABLE elsewhere")


def leave(pipeline: TestPipeline) -> None:
    """What is asked for is asked for by the process itself."""


LIVES = (
    # Each comes once in a pipeline's life, in this order, whichever thread is the first.
    Life(
        "prepare",
        both(
            "apply.commit", *(f"prepare.{s}" for s in ("origin", "publication", "slot", "record"))
        ),
    ),
    Life(
        "start",
        both("lease.acquire", "stream.bind", "tick.inject", "attempt.register"),
        full_identity=False,
    ),
    Life("table", both(*(f"backfill.{s}" for s in ("plan_splits", "page_write", "watermark")))),
    Life(
        "table, one reader",
        ("backfill.after_page_write", "backfill.after_watermark", "backfill.after_commit"),
        parallelism=0,
    ),
    Life(
        "table, with look-ups",
        both("backfill.commit", "tick.log_write", "tick.commit", "tick.confirm", "lease.renew")
        + both("fill.message"),
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
        "change",
        both("swap.commit", *(f"drop.{s}" for s in ("forget", "strike", "delete", "record"))),
        ("change", "take_down"),
        spoils=redefine,
        views=(),
    ),
    Life(
        "drop",
        both(*(f"release.{s}" for s in ("publication_table", "record", "slot")))
        + both("release.publication", "release.forget"),
        ("change", "take_down"),
        spoils=widen,
        views=(),
    ),
    Life("unpublished", both("prepare.stop"), spoils=unpublish, views=()),
    Life("not built", both("build.stop"), spoils=ask_for_nothing, views=()),
    Life("anew", both("anew.forget", "anew.slot"), ("anew",), spoils=leave, views=()),
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
UNSETTLED = frozenset(
    {"not built", "anew", "collect", "vacuum", "repair, early", "slot lost, half dropped"}
)
"""Lives that nobody has seen pass since the branches they came from were merged."""
# Done after the last death too, and not only on the way to it.
AFTERWARDS = ("merge", "fold", "renew", "repair", "change", "take_down", "anew")


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
    metafunc.parametrize(
        "life",
        [
            pytest.param(
                life,
                id=life.name,
                marks=[pytest.mark.unsettled] if life.name.partition(":")[0] in UNSETTLED else [],
            )
            for life in lives
        ],
    )


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
        parallelism=life.parallelism,
        views={name: VIEWS[name] for name in life.views},
    )
    with LiveWriter(pipeline.dsn, rows=ROWS) as writer:
        if life.spoils is not None:
            _live(pipeline, launch, life)
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


def _live(pipeline: TestPipeline, launch: Launch, life: Life) -> None:
    first: Child = launch(Job(pipeline.settings, "first", life.steps, views=life.views))
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
