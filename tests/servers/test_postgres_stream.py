"""The stream of a real server: what is decoded, what is confirmed, what pages say of the same."""

import time
from decimal import Decimal

import pyarrow as pa
import pytest

from ops.backfill.cdc.pgoutput import (
    UNCHANGED,
    Begin,
    Commit,
    Decoder,
    LogicalMessage,
    Poisoned,
    RelationChanged,
    RowChange,
    Truncated,
)
from ops.common.arrow import arrow_schema
from ops.common.change import Delete, Insert, Update
from resources.postgres_link import SourceUnreachable
from resources.postgres_page import ValueDoesNotFit
from resources.postgres_slot import SlotInUse
from tests.support.source_place import TYPES, Place, until

# The stream


def test_every_kind_of_change_arrives_as_it_was_made(place: Place) -> None:
    place.run(
        "CREATE TABLE t (id int8 PRIMARY KEY, n numeric(12,2) NOT NULL, s text)",
        "CREATE TABLE f (id int4 PRIMARY KEY, s text, k int2 NOT NULL)",
        "ALTER TABLE f REPLICA IDENTITY FULL",
        "CREATE TABLE i (x int4, k text NOT NULL UNIQUE)",
        "ALTER TABLE i REPLICA IDENTITY USING INDEX i_k_key",
        "CREATE TABLE unpublished (id int4 PRIMARY KEY)",
    )
    start = place.prepare("t", "f", "i")
    decoder = Decoder(place.bound("t", "f", "i"))
    large = "(SELECT string_agg(md5(i::text), '') FROM generate_series(1, 5000) i)"
    (value,) = place.connection.execute(f"SELECT {large}".encode()).fetchone() or ("",)
    place.run(
        "INSERT INTO t VALUES (1, 1.5, 'a'), (2, -2, NULL)",
        "UPDATE t SET n = 3 WHERE id = 1",
        "UPDATE t SET id = 20 WHERE id = 2",
        "DELETE FROM t WHERE id = 20",
        f"UPDATE t SET s = {large}",
        "UPDATE t SET n = 4",
        f"INSERT INTO f VALUES (1, {large}, 1)",
        "UPDATE f SET k = 2",
        "DELETE FROM f",
        "INSERT INTO i VALUES (1, 'a')",
        "UPDATE i SET k = 'b'",
        "DELETE FROM i",
        "INSERT INTO unpublished VALUES (1)",
        "BEGIN; INSERT INTO t VALUES (9, 9, ''); ROLLBACK",
        "TRUNCATE t, i",
    )
    t, f, i = (("public", name) for name in "tfi")
    found = place.rows(place.reader(start), decoder)
    expected = [
        RowChange(t, Insert((1, Decimal("1.50"), "a"))),
        RowChange(t, Insert((2, Decimal("-2.00"), None))),
        RowChange(t, Update(None, (1, Decimal("3.00"), "a"), False)),
        RowChange(t, Update((2, None, None), (20, Decimal("-2.00"), None), False)),
        RowChange(t, Delete((20, None, None), False)),
        RowChange(t, Update(None, (1, Decimal("3.00"), value), False)),
        RowChange(t, Update(None, (1, Decimal("4.00"), UNCHANGED), False, (2,))),
        RowChange(f, Insert((1, value, 1))),
        RowChange(f, Update((1, value, 1), (1, value, 2))),
        RowChange(f, Delete((1, value, 2))),
        RowChange(i, Insert((1, "a"))),
        RowChange(i, Update((None, "a"), (1, "b"), False)),
        RowChange(i, Delete((None, "b"), False)),
        Truncated((t, i)),
    ]
    assert found == expected


def test_a_transaction_is_framed_by_its_commit(place: Place) -> None:
    place.run("CREATE TABLE t (id int4 PRIMARY KEY)")
    reader = place.reader(place.prepare("t"))
    place.run("INSERT INTO t VALUES (1), (2)")
    begin, one, two, commit, *_ = place.events(reader, Decoder(place.bound("t")))
    assert isinstance(begin, Begin) and isinstance(commit, Commit)
    assert isinstance(one, RowChange) and isinstance(two, RowChange)
    assert begin.final_lsn == commit.commit_lsn < commit.end_lsn
    assert abs(begin.commit_ts_micros / 1e6 - time.time()) < 60


def test_a_message_is_in_the_stream_after_what_was_committed_before_it(place: Place) -> None:
    place.run("CREATE TABLE t (id int4 PRIMARY KEY)")
    reader = place.reader(place.prepare("t"))
    place.run("INSERT INTO t VALUES (1)")
    lsn = place.source.emit_message("tidegate", "watermark 1")
    found = place.events(reader, Decoder(place.bound("t")))
    message = LogicalMessage(True, lsn, "tidegate", b"watermark 1")
    assert [type(e) for e in found[:2]] == [Begin, RowChange]
    assert found.index(message) > 2


def test_reading_confirms_nothing_and_confirming_moves_the_slot(place: Place) -> None:
    place.run("CREATE TABLE t (id int4 PRIMARY KEY)")
    start = place.prepare("t")
    place.run("INSERT INTO t VALUES (1)", "INSERT INTO t VALUES (2)")
    first = place.reader(start, feedback_s=0.05)
    found = place.events(first, Decoder(place.bound("t")))
    # Several keep-alives of ours pass; none of them may carry more than was confirmed.
    assert first.poll(0.3) == []
    assert place.confirmed() == start
    end_of_first = next(e for e in found if isinstance(e, Commit)).end_lsn
    first.confirm(end_of_first)
    first.confirm(start)
    until(lambda: place.confirmed() == end_of_first)
    first.close()

    def read_again() -> bool:
        try:
            place.reader(start)
        except SlotInUse:
            return False
        return True

    until(read_again)
    again = place.rows(place.readers[-1], Decoder(place.bound("t")))
    assert again == [RowChange(("public", "t"), Insert((2,)))]


def test_a_slot_has_one_reader(place: Place) -> None:
    place.run("CREATE TABLE t (id int4 PRIMARY KEY)")
    start = place.prepare("t")
    place.reader(start)
    with pytest.raises(SlotInUse, match=f"stop the other reader of slot {place.slot}"):
        place.reader(start)
    assert place.source.ensure_slot(place.slot) == start, "preparing again is no reading"


@pytest.mark.parametrize(("feedback_s", "survives"), [(0.1, True), (60, False)])
def test_a_busy_consumer_keeps_its_connection(
    place: Place, feedback_s: float, survives: bool
) -> None:
    """The second case shows that the first would fail without the keep-alive thread."""
    place.run(
        "CREATE TABLE t (id int4 PRIMARY KEY)",
        f"ALTER DATABASE {place.name} SET wal_sender_timeout = '400ms'",
    )
    reader = place.reader(place.prepare("t"), feedback_s=feedback_s)
    pid = (place.source.slot_state(place.slot) or pytest.fail("no slot")).active_pid
    busy_until = time.monotonic() + 1.0
    if survives:
        while time.monotonic() < busy_until:
            sum(range(10_000))
        state = place.source.slot_state(place.slot)
        assert state is not None and state.active_pid == pid
        place.run("INSERT INTO t VALUES (1)")
        assert len(place.rows(reader, Decoder(place.bound("t")))) == 1
    else:
        until(lambda: not (place.source.slot_state(place.slot) or pytest.fail("no slot")).active)
        with pytest.raises(SourceUnreachable, match="lost the stream"):
            reader.poll(5)


def test_the_server_s_position_moves_while_only_a_neighbour_writes(place: Place) -> None:
    place.run("CREATE TABLE t (id int4 PRIMARY KEY)")
    reader = place.reader(place.prepare("t"))
    place.events(reader, Decoder({}))
    place.source.ensure_publication("unrelated", [])
    (now,) = place.connection.execute("SELECT (pg_current_wal_lsn() - '0/0')::int8").fetchone() or (
        0,
    )

    def passed() -> bool:
        assert reader.poll(0.1) == []
        return bool((reader.keepalive_position() or 0) >= now)

    until(passed)
    reader.confirm(now)
    until(lambda: place.confirmed() >= now)


def test_there_is_no_quiet_position_inside_a_transaction(place: Place) -> None:
    place.run("CREATE TABLE t (id int4 PRIMARY KEY)")
    reader = place.reader(place.prepare("t"))
    place.run("INSERT INTO t SELECT generate_series(1, 100)")
    kinds: list[str] = []
    while kinds[-1:] != ["C"]:
        for _, payload in reader.poll(5, max_messages=1):
            kinds.append(chr(payload[0]))
            if kinds[-1] != "C":
                assert reader.keepalive_position() is None
    assert kinds == ["B", "R", *"I" * 100, "C"]


def test_poll_stops_at_its_limits(place: Place) -> None:
    place.run("CREATE TABLE t (id int4 PRIMARY KEY, s text)")
    reader = place.reader(place.prepare("t"))
    place.run("INSERT INTO t SELECT i, repeat('x', 1000) FROM generate_series(1, 50) i")
    assert len(reader.poll(5, max_messages=3)) <= 3
    until(lambda: 0 < len(reader.poll(5, max_bytes=1)) <= 1)


@pytest.mark.parametrize(
    ("ddl", "why"),
    [
        ("ALTER TABLE t ADD COLUMN more int4", "column more was added"),
        ("ALTER TABLE t DROP COLUMN s", "column s is gone"),
        ("ALTER TABLE t RENAME COLUMN s TO z", "column s is gone or renamed"),
        ("ALTER TABLE t ALTER s TYPE varchar(9)", "column s has another type"),
        ("ALTER TABLE t ALTER n TYPE numeric(12,3)", "is now numeric(12,3)"),
        ("ALTER TABLE t REPLICA IDENTITY FULL", "replica identity changed"),
        ("ALTER TABLE t DROP CONSTRAINT t_pkey, ADD PRIMARY KEY (id, n)", "is now (id, n)"),
        ("ALTER TABLE t RENAME TO u", "renamed to public.u"),
    ],
)
def test_ddl_stops_the_table(place: Place, ddl: str, why: str) -> None:
    place.run("CREATE TABLE t (id int4 PRIMARY KEY, n numeric(12,2) NOT NULL, s text)")
    reader = place.reader(place.prepare("t"))
    decoder = Decoder(place.bound("t"))
    place.run("INSERT INTO t VALUES (1, 1)")
    assert len(place.rows(reader, decoder)) == 1
    name = "u" if "RENAME TO" in ddl else "t"
    place.run(ddl, f"INSERT INTO {name} VALUES (2, 2)", f"INSERT INTO {name} VALUES (3, 3)")
    (changed,) = place.rows(reader, decoder)
    assert isinstance(changed, RelationChanged) and why in changed.why


# Equal values from pages and from the stream

ROWS = [
    "(1, 1, 1, 1.50, 1, 1, 1, 'a', 'b', 'c', true, '2024-02-29', '2024-02-29 12:34:56.789012', "
    "'2024-02-29 12:34:56.789+05:30')",
    "(2, -32768, -2147483648, -9999999999.99, -12345678901234567890.123456789012345678, "
    "-0.000000000000000001, -99999999999999999999999999999999999999, 'héllo ☃ \U0001f600', '', '', "
    "false, '0001-01-01', '0001-01-01 00:00:00', '0001-01-01 00:00:00.001+00')",
    "(-9223372036854775808, 32767, 2147483647, 0.00, 0.000000000000000001, "
    "12345678901234567890.100000000000000000, 100000000000000000000, E'tab\\t\"quote\\'\\\\', "
    "' x ', ' x ', NULL, '1969-12-31', '1969-12-31 23:59:59.999999', '1969-12-31 23:59:59.999+00')",
    "(4, NULL, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
    "(5, 0, 0, 10000.00, 10000, 10000, 10000, '', 'x', 'é', true, '4714-11-24 BC', "
    "'4714-11-24 00:00:00 BC', '4714-11-24 00:00:00+00 BC')",
    "(9223372036854775807, 0, 0, -0.01, 99999999999999999999.999999999999999999, 0.1000, 0, 'x', "
    "'x', 'x', true, '5874897-12-31', '294246-12-31 23:59:59', '294246-12-31 23:59:59+00')",
]


def test_page_and_stream_give_the_same_rows(place: Place) -> None:
    place.run(f"CREATE TABLE t ({TYPES})")
    reader = place.reader(place.prepare("t"))
    place.run(f"INSERT INTO t VALUES {', '.join(ROWS)}")
    schema = place.binding("t").schema
    streamed = []
    for event in place.rows(reader, Decoder(place.bound("t"))):
        assert isinstance(event, RowChange) and isinstance(event.change, Insert)
        streamed.append(event.change.row)
    columns = zip(*sorted(streamed), strict=True)
    wanted = arrow_schema(schema.columns)
    arrays = [pa.array(list(c), f.type) for c, f in zip(columns, wanted, strict=True)]
    page = place.page("t")
    assert page.schema == wanted
    assert page.num_rows == len(ROWS)
    assert page.equals(pa.Table.from_arrays(arrays, schema=wanted))


def test_an_empty_page_has_its_types(place: Place) -> None:
    place.run(f"CREATE TABLE t ({TYPES})")
    assert place.page("t").schema == arrow_schema(place.binding("t").schema.columns)


NO_PLACE = [
    ("numeric(12,2)", "NaN"),
    ("numeric", "NaN"),
    ("numeric", "Infinity"),
    ("numeric", "-Infinity"),
    ("numeric", "1e-19"),
    ("numeric", "1e20"),
    ("timestamp", "294276-12-31"),
    ("timestamp", "294247-01-10 04:00:54.775807"),
    ("timestamptz", "294276-12-31"),
]


def test_what_has_no_place_stops_its_table_on_both_ways(place: Place) -> None:
    names = [f"t{number}" for number in range(len(NO_PLACE))]
    for name, (data_type, _) in zip(names, NO_PLACE, strict=True):
        place.run(f"CREATE TABLE {name} (id int4 PRIMARY KEY, v {data_type})")
    place.run("CREATE TABLE healthy (id int4 PRIMARY KEY)")
    reader = place.reader(place.prepare(*names, "healthy"))
    for name, (_, value) in zip(names, NO_PLACE, strict=True):
        place.run(f"INSERT INTO {name} VALUES (1, NULL), (2, '{value}'), (3, NULL)")
    place.run("INSERT INTO healthy VALUES (1)")
    *found, healthy = place.rows(reader, Decoder(place.bound(*names, "healthy")))
    assert healthy == RowChange(("public", "healthy"), Insert((1,)))
    assert len(found) == 2 * len(names)
    for name, first, poisoned in zip(names, found[::2], found[1::2], strict=True):
        assert first == RowChange(("public", name), Insert((1, None)))
        assert isinstance(poisoned, Poisoned) and poisoned.table == ("public", name)
        assert "column v" in poisoned.why
        with pytest.raises(ValueDoesNotFit, match="column v"):
            place.page(name)


def test_a_keepalive_confirms_nothing(place: Place) -> None:
    """The server's position is ours to confirm once it is committed, and not before."""
    place.run("CREATE TABLE t (id int8 PRIMARY KEY)")
    place.run(f"ALTER DATABASE {place.name} SET wal_sender_timeout = '1s'")
    reader = place.reader(place.prepare("t"), feedback_s=0.2)
    place.events(reader, Decoder(place.bound("t")))

    place.run("CREATE TABLE other (id int8)")

    def quiet_after(lsn: int) -> bool:
        # WAL of a neighbour: the server's position moves, and nothing of it is for us. Without any
        # the server has nothing to say until it writes some of its own, every 15 s.
        place.run("INSERT INTO other SELECT generate_series(1, 50)")
        reader.poll(0.05)
        return (reader.keepalive_position() or 0) > lsn

    until(lambda: quiet_after(0))
    committed = reader.keepalive_position()
    assert committed is not None
    reader.confirm(committed)
    until(lambda: quiet_after(committed))
    for _ in range(10):
        reader.poll(0.1)
    assert place.confirmed() == committed
