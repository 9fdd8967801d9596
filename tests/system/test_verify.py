"""verify finds what differs between a live table and its source; repair writes that and no more."""

import itertools
from typing import Any

import pytest

from ops.backfill.cdc.verify.ranges import KeyRange
from ops.backfill.cdc.verify.report import Fault, VerifyReport, WrongKey
from ops.common.errors import SlotGone
from orchestration import reading, running, verifying
from orchestration.attendance import attended
from orchestration.deployment import Deployment, open_deployment
from orchestration.local_run import LocalRun
from orchestration.reading import LacksChanges
from tests.support.judge import require_equal
from tests.support.pipeline import PIPELINE, TestPipeline, change_silently, lose_slot
from tests.support.writer import LiveWriter
from tests.system.conftest import MakePipeline

ROWS = 21_000
# The live writer touches no key from here on.
APART = 1_000_000_000
ROW = "{}, 'r1', 1.25, 3, true, '2024-01-01', '2024-01-01', 'a note of some length'"
DAMAGE = (
    f"UPDATE orders SET note = 'a note of some lengtH' WHERE id = {APART}",
    f"INSERT INTO orders VALUES ({ROW.format(APART + 5)})",
    f"DELETE FROM orders WHERE id = {APART + 2}",
)
# One that Spark has in the source's order, and one that only the source can sort.
KEYED = {"codes": 'word text COLLATE "C" PRIMARY KEY', "words": "word text PRIMARY KEY"}
WRONG = [
    WrongKey((APART,), Fault.DIFFERENT, ("note",)),
    WrongKey((APART + 2,), Fault.EXTRA),
    WrongKey((APART + 5,), Fault.MISSING),
]


class Shop:
    """A running pipeline, and the two words of a user on it."""

    def __init__(self, deployment: Deployment, run: LocalRun) -> None:
        self._deployment, self._run = deployment, run
        self._owners = itertools.count()

    def verify(self, within: KeyRange | None = None) -> VerifyReport:
        return self._ask(verifying.verify_table, within)

    def repair(self, within: KeyRange | None = None) -> VerifyReport:
        return self._ask(verifying.repair_table, within)

    def _ask(self, work: Any, within: KeyRange | None) -> VerifyReport:
        report: VerifyReport = work(
            self._deployment,
            PIPELINE,
            "orders",
            within=within or KeyRange(),
            owner=f"test {next(self._owners)}",
            tell=print,
            check=self._run.check,
        )
        return report


def repaired_rows(pipeline: TestPipeline) -> list[tuple[object, ...]]:
    """Return, of each repair that was taken in, its rows and those of its log file."""
    return pipeline.asked(
        "SELECT taken_rows, files.rows FROM repairs JOIN files ON files.path LIKE "
        "'%repair-' || repairs.id || '.parquet' ORDER BY repairs.id"
    )


@pytest.mark.unsettled  # passed before the last merges
def test_three_rows_differ_and_three_are_written(make_pipeline: MakePipeline) -> None:
    pipeline = make_pipeline(rows=ROWS, page_rows=ROWS)
    with pipeline.source() as source:
        for number in range(4):
            source.execute(f"INSERT INTO orders VALUES ({ROW.format(APART + number)})".encode())
    with (
        open_deployment(pipeline.settings) as deployment,
        LocalRun(deployment, PIPELINE, tell=print) as run,
    ):
        run.wait_settled(on_progress=lambda _: None)
        shop = Shop(deployment, run)
        idle = shop.verify()
        assert idle.equal and idle.rows == ROWS + 4 and idle.ranges > 1
        assert idle.read_ranges == 0 and idle.epoch is None, "checksums were enough"
        change_silently(pipeline, *DAMAGE)
        with LiveWriter(pipeline.dsn, rows=ROWS) as writer:
            found = shop.verify()
            assert (
                found.keys == WRONG and found.wrong == 3 and sum(found.wrong_ranges.values()) == 3
            )
            assert not repaired_rows(pipeline)
            elsewhere = shop.repair(KeyRange((APART + 10,), None))
            assert elsewhere.equal and elsewhere.rows == 0
            some = shop.repair(KeyRange((APART + 1,), (APART + 3,)))
            assert some.keys == WRONG[1:2] and some.repaired == 1
            rest = shop.repair()
            assert rest.keys == [WRONG[0], WRONG[2]] and rest.repaired == 2
            assert repaired_rows(pipeline) == [(1, 1), (2, 2)]
            again = shop.verify()
            assert again.equal and again.read_ranges > 0, "the writer was at work meanwhile"
            writer.stop()
        assert writer.transactions > 0
        epoch = running.flush(deployment, PIPELINE)
        assert shop.verify().equal
    assert not pipeline.asked("SELECT owner FROM pins WHERE owner LIKE '%/verify'")
    assert require_equal(pipeline, epoch) > ROWS


@pytest.mark.unsettled  # passed before the last merges
def test_a_lost_slot_costs_the_rows_that_changed(make_pipeline: MakePipeline) -> None:
    pipeline = make_pipeline(rows=3000, page_rows=3000, full_identity=True)
    with pipeline.source() as source, pipeline.file.open("a") as definitions:
        for name, key in KEYED.items():
            source.execute(f"CREATE TABLE {name} ({key}, n int)".encode())
            source.execute(
                f"INSERT INTO {name} SELECT 'k' || i, i FROM generate_series(1, 300) AS i".encode()
            )
            definitions.write(f"CREATE TABLE {name} (*) FROM shop TABLE 'public.{name}';\n")
    with open_deployment(pipeline.settings) as deployment:
        with LocalRun(deployment, PIPELINE, tell=print) as run:
            run.wait_settled(on_progress=lambda _: None)
        before = running.committed_epoch(deployment, PIPELINE)
        lose_slot(pipeline)
        with pipeline.source() as source:
            source.execute("UPDATE orders SET amount = 1000, region = 'r2' WHERE id <= 40")
            source.execute("DELETE FROM orders WHERE id BETWEEN 101 AND 110")
            source.execute(f"INSERT INTO orders VALUES ({ROW.format(APART)})")
            for name in KEYED:
                source.execute(f"UPDATE {name} SET n = 0 WHERE word LIKE 'k1_'".encode())
                source.execute(f"UPDATE {name} SET word = 'Ä' WHERE word = 'k7'".encode())
        with (
            pytest.raises(SlotGone, match="`tidegate repair shop` makes a new slot"),
            LocalRun(deployment, PIPELINE, tell=print) as run,
        ):
            run.wait_settled(on_progress=lambda _: None)
        assert verifying.renew(deployment, PIPELINE, owner="renew", tell=print)
        assert not verifying.renew(deployment, PIPELINE, owner="renew", tell=print)
        assert pipeline.states()["orders"][0] == "Repairing"
        # Events on rows that the lake has otherwise: what they say was before must not be believed.
        with pipeline.source() as source:
            source.execute("UPDATE orders SET amount = 2000 WHERE id = 1")
            source.execute(f"INSERT INTO orders VALUES ({ROW.format(101)})")
            source.execute("DELETE FROM orders WHERE id = 2")
        assert reading.rows(deployment, "orders").num_rows == 3000, "the last epoch was whole"
        with attended(deployment, PIPELINE, owner="repair", tell=print) as attendance:
            running.flush(deployment, PIPELINE, check=attendance.check)
            with pytest.raises(LacksChanges, match=f"{before} is the last before the gap"):
                reading.rows(deployment, "revenue")
            assert reading.rows(deployment, "revenue", as_of=before).num_rows == 11
            report, *keyed = verifying.repair_pipeline(
                deployment, PIPELINE, owner="repair", tell=print, check=attendance.check
            )
            # 40 updated, 10 deleted, 1 inserted; events have come for three of them.
            assert (report.wrong, report.repaired) == (48, 48)
            assert [(r.wrong, r.repaired) for r in keyed] == [(12, 12)] * len(KEYED)
            assert set(pipeline.states().values()) == {("Live", None), ("Done", None)}
            with reading.held(deployment, ["orders", "revenue"]) as held:
                assert held.frames["orders"].count() == 2991
            epoch = running.flush(deployment, PIPELINE, check=attendance.check)
    require_equal(pipeline, epoch, tables=("orders", *KEYED))
    assert repaired_rows(pipeline) == [(48, 48)] + [(12, 12)] * len(KEYED)
