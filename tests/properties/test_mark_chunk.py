"""Backfills under any interleaving of transactions, commits, pages and restarts; judged by a dict.

Three consumers look at the same history:

    vnodes      forwards what `mark_chunk` shows, reads its vnodes in key order
    marked      the reference engine's v1: pages go downstream at once, `mark_cdc_chunk` judges the
                events that have arrived since
    partial     ours: the log keeps every event and supersedes the pages; what is up to the cursor
                may be read, and is exactly the source at the last committed position
"""

from dataclasses import dataclass, field
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from ops.backfill.cdc.mark_cdc_chunk import Event, mark_cdc_chunk
from ops.backfill.cdc.offset import PostgresOffset
from ops.backfill.mark_chunk import (
    Completed,
    InProgress,
    Key,
    NotStarted,
    VnodeProgress,
    mark_chunk,
)
from ops.common.change import Change, Delete, Insert, Row, Update

KEYS = 8
Rows = dict[Key, Row]


def key_of(row: Row) -> Key:
    return (row[0],)


def apply(rows: Rows, change: Change) -> None:
    match change:
        case Insert(row):
            rows[key_of(row)] = row
        case Delete(row):
            rows.pop(key_of(row), None)
        case Update(before, after):
            assert before is not None
            rows.pop(key_of(before), None)
            rows[key_of(after)] = after


@dataclass
class Source:
    """`states[n]` is the source after n transactions; `log[n]` is what the n-th did."""

    states: list[Rows]
    log: list[list[Change]] = field(default_factory=list)

    def transaction(self, wishes: list[tuple[int, int]]) -> None:
        rows, done = dict(self.states[-1]), list[Change]()
        for key, to in wishes:
            version = len(self.log) * 100 + len(done)
            old = rows.get((key,))
            change: Change
            if old is None:
                change = Insert((key, version))
            elif to == key:
                change = Delete(old)
            elif (to,) in rows:
                change = Update(old, (key, version))
            else:
                change = Update(old, (to, version))
            apply(rows, change)
            done.append(change)
        self.states.append(rows)
        self.log.append(done)

    def page(self, cursor: Key | None, limit: int) -> list[Row]:
        ahead = sorted(k for k in self.states[-1] if cursor is None or k > cursor)
        return [self.states[-1][k] for k in ahead[:limit]]

    def events(self, after: int, upto: int) -> list[Event]:
        return [
            (PostgresOffset(number + 1, place), change)
            for number in range(after, upto)
            for place, change in enumerate(self.log[number])
        ]


WISHES = st.lists(st.tuples(st.integers(0, KEYS), st.integers(0, KEYS)), min_size=1, max_size=3)
STEP = st.one_of(
    st.tuples(st.just("transaction"), WISHES),
    st.tuples(st.just("page"), st.integers(1, 3)),
    st.tuples(st.just("deliver"), st.integers(1, 3)),
    st.tuples(st.just("commit"), st.none()),
    st.tuples(st.just("restart"), st.none()),
)
STEPS: st.SearchStrategy[list[tuple[str, Any]]] = st.lists(STEP, max_size=40)
FIRST = st.sets(st.integers(0, KEYS), max_size=KEYS)


def new_source(keys: set[int]) -> Source:
    return Source([{(k,): (k, -1) for k in keys}])


@dataclass
class Marked:
    """The reference engine's v1: `rows` downstream, events buffered between two commits."""

    source: Source
    rows: Rows = field(default_factory=dict)
    position: Key | None = None
    finished: bool = False
    delivered: int = 0
    buffer: list[Event] = field(default_factory=list)
    low: PostgresOffset | None = None
    saved: tuple[Rows, Key | None, bool, int] = ({}, None, False, 0)

    def page(self, limit: int) -> None:
        if self.finished:
            return
        page = self.source.page(self.position, limit)
        for row in page:
            self.rows[key_of(row)] = row
        if page:
            self.position = key_of(page[-1])
        if len(page) < limit:
            # The end of the snapshot: all that is buffered goes out unfiltered.
            self.finished = True
            self.flush()

    def deliver(self, count: int) -> None:
        upto = min(self.delivered + count, len(self.source.log))
        self.buffer += self.source.events(self.delivered, upto)
        self.delivered = upto
        if self.finished:
            self.flush()

    def flush(self) -> None:
        if self.finished:
            shown = [change for _, change in self.buffer]
        else:
            shown = list(mark_cdc_chunk(self.buffer, self.position, low=self.low, key_of=key_of))
        for change in shown:
            apply(self.rows, change)
        self.buffer.clear()

    def commit(self) -> None:
        self.flush()
        self.saved = (dict(self.rows), self.position, self.finished, self.delivered)

    def restart(self) -> None:
        rows, self.position, self.finished, self.delivered = self.saved
        self.rows = dict(rows)
        self.buffer.clear()
        # The stream begins a little before what was committed, as a slot may.
        self.low = PostgresOffset(self.delivered + 1)
        back = max(0, self.delivered - 1)
        self.buffer += [e for e in self.source.events(back, self.delivered) if not self.finished]


@settings(max_examples=500)
@given(FIRST, STEPS)
def test_marked_events_and_pages_come_to_be_the_source(
    keys: set[int], steps: list[tuple[str, Any]]
) -> None:
    source = new_source(keys)
    marked = Marked(source)
    for word, value in steps:
        match word:
            case "transaction":
                source.transaction(value)
            case "page":
                marked.page(value)
            case "deliver":
                marked.deliver(value)
            case "commit":
                marked.commit()
            case "restart":
                marked.restart()
    while not marked.finished:
        marked.page(2)
    marked.deliver(len(source.log))
    assert marked.rows == source.states[-1]


@dataclass
class Partial:
    """Ours: pages of a split with the watermark of each commit, and the log."""

    source: Source
    pages: list[tuple[int, Key | None, list[Row]]] = field(default_factory=list)
    read: list[tuple[Key | None, list[Row]]] = field(default_factory=list)
    committed: int = 0

    @property
    def cursor(self) -> Key | None:
        cursors = [c for _, c, _ in self.pages] + [c for c, _ in self.read]
        return cursors[-1] if cursors else None

    def page(self, limit: int) -> None:
        page = self.source.page(self.cursor, limit)
        self.read.append((key_of(page[-1]) if page else self.cursor, page))

    def commit(self) -> None:
        """First the watermark: the stream stands after all that the pages have seen."""
        watermark = len(self.source.log)
        self.pages += [(watermark, cursor, rows) for cursor, rows in self.read]
        self.read.clear()

    def visible(self) -> tuple[Key | None, Rows]:
        passed = [p for p in self.pages if p[0] <= self.committed]
        position = passed[-1][1] if passed else None
        rows = {key_of(row): row for _, _, page in passed for row in page}
        events = self.source.events(0, self.committed)
        for change in mark_cdc_chunk(events, position, low=None, key_of=key_of):
            apply(rows, change)
        return position, rows


@settings(max_examples=500)
@given(FIRST, STEPS)
def test_what_is_up_to_the_cursor_is_the_source_at_the_committed_position(
    keys: set[int], steps: list[tuple[str, Any]]
) -> None:
    source = new_source(keys)
    partial = Partial(source)
    for word, value in steps:
        match word:
            case "transaction":
                source.transaction(value)
            case "page":
                partial.page(value)
            case "deliver":
                partial.committed = min(partial.committed + value, len(source.log))
            case "commit":
                partial.commit()
            case "restart":
                partial.read.clear()
        position, rows = partial.visible()
        now = source.states[partial.committed]
        expected = {k: r for k, r in now.items() if position is not None and k <= position}
        assert rows == expected


@settings(max_examples=300)
@given(FIRST, STEPS, st.randoms(use_true_random=False))
def test_vnodes_in_progress_arrive_exactly_once(
    keys: set[int], steps: list[tuple[str, Any]], chance: Any
) -> None:
    """Two vnodes, each read in its own order; changes are forwarded as they happen, or dropped."""
    source = new_source(keys)
    progress: dict[int, VnodeProgress] = {}
    rows: Rows = {}

    def vnode_of(key: Key) -> int:
        return int(key[0]) % 2

    def page(vnode: int, limit: int) -> None:
        state = progress.get(vnode, NotStarted())
        if isinstance(state, Completed):
            return
        after = state.position if isinstance(state, InProgress) else None
        mine = [k for k in source.states[-1] if vnode_of(k) == vnode]
        ahead = sorted(k for k in mine if after is None or k > after)[:limit]
        for key in ahead:
            assert key not in rows, "a row arrives twice"
            rows[key] = source.states[-1][key]
        if ahead:
            progress[vnode] = InProgress(ahead[-1])
        if len(ahead) < limit:
            progress[vnode] = Completed()

    for word, value in steps:
        if word == "transaction":
            source.transaction(value)
            for change in mark_chunk(source.log[-1], progress, key_of=key_of, vnode_of=vnode_of):
                if isinstance(change, Delete):
                    assert key_of(change.row) in rows, "what never came is taken back"
                if isinstance(change, Insert):
                    assert key_of(change.row) not in rows, "a row arrives twice"
                apply(rows, change)
        elif word == "page":
            page(chance.randrange(2), value)
    for vnode in (0, 1):
        while not isinstance(progress.get(vnode), Completed):
            page(vnode, 2)
    assert rows == source.states[-1]
