"""Through commits, merges, folds and pins, an epoch reads exactly what it held, or says it is gone.

Each file carries the rows it stands for, so that a naive reader can put a table together from what
`contents_as_of` and `changed_files` choose, and be compared with the history.
"""

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ops.common.epoch import ZERO, Epoch
from ops.common.errors import EpochGone
from ops.common.schema import INT8, TEXT, Column, Schema
from ops.common.table.net import Net, merge_net, net_changes
from ops.common.table.relation import (
    Base,
    Contents,
    DataFile,
    Listing,
    changed_files,
    contents_as_of,
)
from ops.common.table.retention import folded, forgettable, mergeable, next_log_start
from tests.support.model import Rows, Wish, apply_net, data_file, happen, key_of, relation, wishes

SCHEMA = Schema((Column("id", INT8), Column("v", TEXT)), ("id",))
KEY_OF = key_of(SCHEMA)
TABLE = relation(SCHEMA)
KEEP = 40
"""How long, in epochs, the bases of past folds stay readable."""


@dataclass
class Life:
    """A table's files and what they hold, beside its whole history."""

    history: dict[int, Rows]
    live_since: int
    files: list[DataFile] = field(default_factory=list)
    bases: list[Base] = field(default_factory=list)
    pins: dict[str, int] = field(default_factory=dict)
    held: dict[int, Net] = field(default_factory=dict)
    snapshot: Rows = field(default_factory=dict)
    versions: dict[int, Rows] = field(default_factory=dict)
    number: int = 0
    log_start: int = 0
    fold_epochs: list[int] = field(default_factory=list)

    @property
    def listed(self) -> Listing:
        return Listing(tuple(self.files), tuple(self.bases), Epoch(self.log_start))

    @property
    def folded(self) -> list[int]:
        """The epochs of the folds that are recent enough to be readable still."""
        newest = max((b.epoch for b in self.bases), default=0)
        return [e for e in self.fold_epochs if e >= newest - KEEP]

    @property
    def now(self) -> int:
        return max(self.history)

    def add_file(self, kind: str, after: int, epoch: int, net: Net) -> None:
        self.number += 1
        self.files.append(data_file(self.number, kind, after, epoch))
        self.held[self.number] = net

    def commit(self, wanted: list[Wish]) -> None:
        changes, after = happen(self.history[self.now], wanted)
        prev, epoch = self.now, self.now + 10
        net = net_changes(changes, KEY_OF)
        if net:
            self.add_file("log", prev, epoch, net)
        self.history[epoch] = after

    def merge(self) -> None:
        newest = max((b.epoch for b in self.bases), default=ZERO)
        run = mergeable(self.files, [Epoch(p) for p in self.pins.values()], newest)
        if len(run) < 2:
            return
        net: Net = {}
        for file in run:
            for key, row in self.held[file.id].items():
                net[key] = merge_net(net[key], row) if key in net else row
        self.files = [f for f in self.files if f not in run]
        self.add_file("log", run[0].after, run[-1].epoch, net)

    def fold(self) -> None:
        """What `Folder` does to the lists: a base at the newest epoch, then drop what it can."""
        whole = contents_as_of(TABLE, self.listed, Epoch(self.now))
        if whole.base is not None and (whole.base.epoch == self.now or not whole.logs):
            version = whole.base.version
        elif not whole.logs and not whole.snapshots:
            return
        else:
            version = len(self.versions)
            self.versions[version] = self.read(whole)
        if whole.base is None or whole.base.epoch < self.now:
            self.bases.append(Base(Epoch(self.now), TABLE.path, version))
        self.fold_epochs.append(self.now)
        bases, pins = [b.epoch for b in self.bases], [Epoch(p) for p in self.pins.values()]
        start = next_log_start(bases, pins, Epoch(self.log_start))
        if start is None:
            return
        gone = folded(self.files, start)
        self.files = [f for f in self.files if f not in gone]
        self.log_start = max(self.log_start, start)
        late = forgettable(bases, pins, Epoch(self.log_start), Epoch(self.now - KEEP))
        self.bases = [b for b in self.bases if b.epoch not in late]

    def read(self, whole: Contents) -> Rows:
        rows = self.versions[whole.base.version] if whole.base else self.snapshot
        if whole.base is None and not whole.snapshots:
            rows = {}
        for file in sorted(whole.logs, key=lambda f: f.epoch):
            rows = apply_net(rows, self.held[file.id])
        return rows

    def net_between(self, after: int, upto: int) -> Net:
        net: Net = {}
        chosen = changed_files(TABLE, self.listed, Epoch(after), Epoch(upto))
        for file in sorted(chosen, key=lambda f: f.epoch):
            net |= self.held[file.id]
        return net


WANTED = wishes(st.tuples(st.integers(0, 4)), st.tuples(st.sampled_from("xyz")), most=4)
STEPS = st.lists(
    st.one_of(
        WANTED,
        WANTED,
        st.sampled_from(["merge", "fold", "unpin a", "unpin b"]),
        st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 3)),
    ),
    max_size=25,
)


@settings(max_examples=200)
@given(WANTED, WANTED, STEPS)
def test_every_epoch_reads_right_or_is_gone(
    snapshot: list[Wish], early: list[Wish], steps: list[list[Wish] | str | tuple[str, int]]
) -> None:
    life = begun(snapshot, early)
    for step in steps:
        match step:
            case "merge":
                life.merge()
            case "fold":
                life.fold()
            case str(unpin):
                life.pins.pop(unpin[-1], None)
            case (str(owner), int(back)):
                # As a reader does: only an epoch that can be read, and never back before it.
                epoch = max(life.live_since, life.now - 10 * back, life.pins.get(owner, 0))
                if epoch == life.now or readable(life, epoch):
                    life.pins[owner] = epoch
            case list(wanted):
                life.commit(wanted)
        check(life)


def begun(snapshot: list[Wish], early: list[Wish]) -> Life:
    """A table that has just gone live: rows read at 5, and a log that began before and wins."""
    life = Life({5: happen({}, snapshot)[1]}, live_since=15)
    life.snapshot = life.history[5]
    if life.snapshot:
        life.add_file("snapshot", 0, 5, {})
    life.commit(early)
    return life


def readable(life: Life, epoch: int) -> bool:
    try:
        contents_as_of(TABLE, life.listed, Epoch(epoch))
    except EpochGone:
        return False
    return True


def check(life: Life) -> None:
    for epoch in range(life.live_since, life.now + 1, 10):
        held = epoch == life.now or epoch in life.pins.values() or epoch in life.folded
        try:
            whole = contents_as_of(TABLE, life.listed, Epoch(epoch))
        except EpochGone as error:
            assert not held, f"{epoch} is pinned or the newest: {error}"
            assert error.nearest is not None and readable(life, error.nearest)
            continue
        assert life.read(whole) == life.history[epoch]
    for pin in life.pins.values():
        if pin < life.log_start:
            continue
        for upto in (life.now, *life.pins.values()):
            if pin <= upto:
                net = life.net_between(pin, upto)
                assert apply_net(life.history[pin], net) == life.history[upto]


def files(*ranges: tuple[int, int]) -> list[DataFile]:
    return [data_file(i, "log", after, epoch) for i, (after, epoch) in enumerate(ranges)]


def listing_of(listed: list[DataFile], bases: tuple[Base, ...] = (), log_start: int = 0) -> Listing:
    return Listing(tuple(listed), bases, Epoch(log_start))


def test_a_file_across_the_epoch_makes_it_unreadable() -> None:
    listed = listing_of(files((0, 10), (10, 30), (30, 40)))
    with pytest.raises(EpochGone) as gone:
        contents_as_of(TABLE, listed, Epoch(20))
    assert gone.value.table == "t" and gone.value.epoch == 20
    assert gone.value.nearest in (10, 30)
    assert len(contents_as_of(TABLE, listed, Epoch(30)).logs) == 2


def test_an_epoch_before_all_bases_is_gone_once_they_replaced_the_files() -> None:
    base = (Base(Epoch(20), "p", 1),)
    with pytest.raises(EpochGone) as gone:
        contents_as_of(TABLE, listing_of(files((20, 30)), base, 20), Epoch(10))
    assert gone.value.nearest == 20
    # Somebody had it pinned: the files before the base are still there.
    whole = listing_of(files((0, 20), (20, 30)), base)
    assert contents_as_of(TABLE, whole, Epoch(0)).logs == ()


def test_a_base_whose_log_is_gone_is_readable_at_its_own_epoch_only() -> None:
    bases = (Base(Epoch(40), "p", 2), Base(Epoch(20), "p", 1))
    listed = listing_of(files((40, 50)), bases, 40)
    assert contents_as_of(TABLE, listed, Epoch(20)).base == bases[1]
    assert len(contents_as_of(TABLE, listed, Epoch(50)).logs) == 1
    with pytest.raises(EpochGone) as gone:
        contents_as_of(TABLE, listed, Epoch(29))
    assert gone.value.nearest == 20
    with pytest.raises(EpochGone):
        changed_files(TABLE, listed, Epoch(20), Epoch(50))
    assert len(changed_files(TABLE, listed, Epoch(40), Epoch(50))) == 1


@pytest.mark.parametrize(("after", "upto"), [(5, 30), (10, 25), (15, 20)])
def test_changes_across_a_file_are_gone(after: int, upto: int) -> None:
    with pytest.raises(EpochGone):
        listed = listing_of(files((0, 10), (10, 30)))
        changed_files(TABLE, listed, Epoch(after), Epoch(upto))


def test_changes_are_strictly_after_and_up_to() -> None:
    listed = listing_of(files((0, 10), (10, 20), (20, 30)))
    chosen = changed_files(TABLE, listed, Epoch(10), Epoch(20))
    assert [f.id for f in chosen] == [1]


@pytest.mark.parametrize(
    ("pins", "base", "run"),
    [
        ([], 0, [0, 1, 2, 3]),
        ([20], 0, [0, 1]),
        ([10], 0, [1, 2, 3]),
        ([0, 40], 0, [0, 1, 2, 3]),
        ([10, 20], 0, [2, 3]),
        ([25], 0, [0, 1]),
        ([], 20, [2, 3]),
        ([30], 20, [2]),
    ],
)
def test_a_merge_takes_the_longest_run_between_pins(
    pins: list[int], base: int, run: list[int]
) -> None:
    listed = files((0, 10), (10, 20), (20, 30), (30, 40))
    found = mergeable(listed, [Epoch(p) for p in pins], Epoch(base))
    assert [f.id for f in found] == run
