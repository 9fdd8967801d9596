"""A lost slot is made anew in steps that may be cut short, and each table says what it lacks."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ops.backfill.cdc.offset import parse_offset
from ops.backfill.cdc.prepare import committed_position, prepare_source
from ops.backfill.cdc.renew import close_gap, renew_source
from ops.barrier_worker.lease import Term, acquire
from ops.common.epoch import Epoch
from ops.common.errors import RenewalUnfinished, SlotAhead, SlotGone, SourceReplaced, TermOver
from ops.planner.plan import SourcePlan, TablePlan
from resources.clock import SystemClock
from resources.control_store import ControlStore
from tests.support.control import SCHEMA, new_place
from tests.support.source_place import PUBLICATION, Place

STATES = {"live": "Live", "filling": "Backfilling", "stopped": "Stopped"}


class Died(Exception):
    pass


def ignore(what: object) -> None:
    pass


class Shop:
    """A prepared source with a table in each of some states."""

    def __init__(self, place: Place, store: ControlStore) -> None:
        self.place, self.control = place, new_place(store)
        name = self.control.pipeline
        options = {"slot.name": place.slot, "publication.name": PUBLICATION}
        self.plan = SourcePlan(name, "s", "postgres-cdc", options, "")
        self.tables = [
            TablePlan(name, table, "s", "public", table, None, None, "") for table in STATES
        ]
        for table, state in STATES.items():
            place.run(f"CREATE TABLE {table} (id int8 PRIMARY KEY, v text)")
            self.control.create(table, SCHEMA, state=state)
        store.execute(
            "ensure_source",
            pipeline=name,
            name="s",
            definition="",
            slot=place.slot,
            publication=PUBLICATION,
        )
        self.prepare()
        self.term = acquire(store, self.control.main, owner="me", seconds=60)

    def prepare(self) -> None:
        prepare_source(
            self.control.store,
            self.place.source,
            self.plan,
            [(table, self.control.relation(table.name)) for table in self.tables],
            on_wait=ignore,
            clock=SystemClock(),
            failpoint=ignore,
        )

    def position(self) -> int:
        return committed_position(self.control.store, self.place.source, self.plan)

    def renew(self, *, term: Term | None = None, failpoint: Callable[[str], None] = ignore) -> None:
        renew_source(
            self.control.store,
            self.place.source,
            self.plan,
            self.tables,
            term=term or self.term,
            why="it was lost",
            failpoint=failpoint,
            tell=ignore,
        )

    def states(self) -> dict[str, str]:
        return {table: self.control.relation(table).state for table in STATES}

    def gap(self, table: str, epoch: int) -> list[dict[str, Any]]:
        relation = self.control.relation(table).id
        return self.control.store.query("select_gap", relation=relation, epoch=epoch)

    def asked(self, text: str) -> list[dict[str, Any]]:
        found = self.control.store._connection().execute(text.encode())
        return found.fetchall()


@pytest.fixture
def shop(place: Place, shared: ControlStore) -> Iterator[Shop]:
    yield Shop(place, shared)


def test_the_stream_refuses_to_start_and_names_the_way_out(shop: Shop) -> None:
    store, pipeline = shop.control.store, shop.control.pipeline
    first = shop.position()
    store._connection().execute(
        'UPDATE sources SET "offset" = jsonb_set("offset", \'{postgres,lsn}\', \'"0/1"\') '
        "WHERE pipeline = %s",
        [pipeline],
    )
    with pytest.raises(SlotAhead, match=f"`tidegate repair {pipeline}` makes a new slot"):
        shop.position()
    store._connection().execute(
        "UPDATE sources SET identity = 'other/1' WHERE pipeline = %s", [pipeline]
    )
    with pytest.raises(SourceReplaced, match="point the source back, or if it is to stay so"):
        shop.position()
    shop.renew()
    assert shop.position() >= first
    shop.place.source.drop_slot(shop.place.slot)
    with pytest.raises(SlotGone, match=f"tidegate repair {pipeline}"):
        shop.position()


def test_each_table_says_what_it_lacks(shop: Shop) -> None:
    filling = shop.control.relation("filling")
    shop.control.store.execute(
        "insert_split",
        relation=filling.id,
        split_id=1,
        generation=1,
        version=2,
        left_key=None,
        right_key=None,
    )
    shop.renew()
    assert shop.states() == {"live": "Repairing", "filling": "Waiting", "stopped": "Stopped"}
    assert not shop.control.store.query("select_splits", relation=filling.id)
    assert shop.control.graph(filling.graph)["generation"] == 2
    at = int(shop.term.committed)
    assert not shop.gap("live", at) and not shop.gap("filling", at + 1)
    assert shop.gap("live", at + 1)[0]["why"] == "it was lost"
    live = shop.control.relation("live")
    view = shop.control.create("view", SCHEMA, kind="view", upstream=live.id, state="Done")
    assert shop.gap(view.name, at + 1), "a view lacks what its table lacks"
    _advance(shop, 100)
    close_gap(
        shop.control.store, live, main_graph=shop.control.main, term=shop.term, failpoint=ignore
    )
    assert shop.states()["live"] == "Live"
    assert shop.gap("live", 99)[0]["upto_epoch"] == 100 and not shop.gap("live", 100)
    # Lost again, later: another gap.
    shop.renew()
    assert shop.gap("live", 99) and shop.gap("live", 101)


def _advance(shop: Shop, epoch: int) -> None:
    moved = shop.control.store.execute(
        "advance_graph",
        graph=shop.control.main,
        epoch=epoch,
        prev=shop.term.committed,
        term=shop.term.term,
    )
    assert moved == 1
    shop.term = Term(shop.term.graph, shop.term.term, Epoch(epoch), shop.term.generation)


@pytest.mark.parametrize(
    "step", ["before_open", "after_open", "after_drop", "after_slot", "before_record"]
)
def test_cut_short_it_is_done_again(shop: Shop, step: str) -> None:
    def dies(name: str) -> None:
        if name == f"gap.{step}":
            raise Died

    with pytest.raises(Died):
        shop.renew(failpoint=dies)
    if step != "before_open":
        with pytest.raises(RenewalUnfinished, match="tidegate repair"):
            shop.position()
    shop.renew()
    offset = shop.control.store.query("select_source", pipeline=shop.control.pipeline, name="s")
    assert shop.position() == parse_offset(str(offset[0]["offset"]).replace("'", '"')).lsn
    assert shop.states()["live"] == "Repairing"
    gaps = shop.asked(f"SELECT FROM gaps WHERE relation = {shop.control.relation('live').id}")
    assert len(gaps) == 1


def test_only_the_owner_of_the_main_graph_may(shop: Shop) -> None:
    old = Term(shop.term.graph, shop.term.term - 1, shop.term.committed, 1)
    with pytest.raises(TermOver):
        shop.renew(term=old)
    assert shop.states() == STATES and shop.position()
