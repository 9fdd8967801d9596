"""The Postgres source against a real server: catalog, publication, slot, pages."""

import threading
from types import SimpleNamespace

import psycopg
import pytest

from ops.backfill.cdc.pgoutput import Decoder, RowChange
from ops.common.change import Insert
from resources.embedded.loopback import free_port
from resources.embedded.postgres import RunningPostgres
from resources.postgres import PostgresSource, TransactionsStillRunning
from resources.postgres_link import SourceRefused, SourceUnreachable
from resources.postgres_page import page_dsn, page_query, read_page
from resources.postgres_slot import SlotReader
from tests.support.source_place import PUBLICATION, TYPES, Place, numbers

# Pages


def test_pages_walk_a_range_in_key_order(place: Place) -> None:
    place.run(
        "CREATE TABLE t (id int4 PRIMARY KEY)",
        "INSERT INTO t SELECT i FROM generate_series(10, 1, -1) i",
        "CREATE TABLE child () INHERITS (t)",
        "INSERT INTO child VALUES (5)",
    )

    key = place.source.key_columns("public", "t", ["id"])

    def page(low: int | None, high: int | None, limit: int) -> list[int]:
        query = page_query(
            "public",
            "t",
            [("id", "int4")],
            key,
            at_least=None if low is None else (str(low),),
            below=None if high is None else (str(high),),
            limit=limit,
        )
        found, last = read_page(page_dsn(place.source), query, [("id", "int4")], key)
        keys: list[int] = found.column("id").to_pylist()
        assert last == ((str(keys[-1]),) if keys else None)
        return keys

    assert page(None, None, 3) == [1, 2, 3]
    assert page(4, None, 3) == [4, 5, 6], "rows of a child table are not the table's own"
    assert page(9, 10, 3) == [9]
    assert page(-5, 2, 3) == [1]
    assert page(11, None, 3) == []


def test_names_are_quoted(place: Place) -> None:
    name = 'we"ird; DROP TABLE x --'
    quoted = '"we""ird; DROP TABLE x --"'
    place.run(
        f"CREATE TABLE {quoted} ({quoted} int4 PRIMARY KEY)", f"INSERT INTO {quoted} VALUES (7)"
    )
    reader = place.reader(place.prepare(name))
    place.run(f"INSERT INTO {quoted} VALUES (8)")
    key = place.source.key_columns("public", name, [name])
    columns = [(name, "int4")]
    query = page_query("public", name, columns, key, at_least=("1",), below=("8",), limit=10)
    found, _ = read_page(page_dsn(place.source), query, columns, key)
    assert found.to_pylist() == [{name: 7}]
    assert len(place.rows(reader, Decoder(place.bound(name)))) == 1
    assert place.source.key_bounds("public", name, key[0]).high == 8


def test_a_page_of_a_changed_table_is_refused(place: Place) -> None:
    place.run("CREATE TABLE t (id int4 PRIMARY KEY, s int4)", "INSERT INTO t VALUES (1, 1)")
    key = place.source.key_columns("public", "t", ["id"])
    columns = [("id", "int4"), ("s", "int4")]
    query = page_query("public", "t", columns, key, limit=1)
    place.run("ALTER TABLE t ALTER s TYPE int8")
    with pytest.raises(SourceRefused, match="column s was int4 and arrives as int64"):
        read_page(page_dsn(place.source), query, columns, key)
    place.run("ALTER TABLE t DROP COLUMN s")
    # The stream tells of it too; who tries again then knows.
    with pytest.raises(SourceUnreachable, match="does not exist"):
        read_page(page_dsn(place.source), query, columns, key)


def test_an_unreachable_server_is_a_passing_trouble() -> None:
    nowhere = PostgresSource({"host": "127.0.0.1", "port": free_port(), "password": "s3cret"})
    for attempt in (
        nowhere.identity,
        lambda: read_page(page_dsn(nowhere), "SELECT 1", [("x", "int4")], ()),
        lambda: SlotReader(nowhere).start("s", "p", 0),
    ):
        with pytest.raises(SourceUnreachable) as caught:
            attempt()
        assert "s3cret" not in str(caught.value)


# Preparing


def test_awaiting_names_whom_it_waits_for_and_ends_when_they_do(place: Place) -> None:
    told: list[str] = []
    with psycopg.connect(
        place.connection.info.dsn, password=place.connection.info.password
    ) as open_:
        open_.execute("CREATE TABLE t (id int4)")
        with pytest.raises(TransactionsStillRunning, match=f"pid {open_.info.backend_pid}"):
            place.source.await_running_transactions(told.append, 0.3)
        ending = threading.Timer(0.5, open_.commit)
        ending.start()
        took = place.source.await_running_transactions(told.append, 20)
        ending.join()
    assert took > 0.3
    assert all(place.name in line for line in told) and told
    assert place.source.await_running_transactions(pytest.fail, 20) < 5


def test_publication_is_made_once_and_widened(place: Place) -> None:
    place.run("CREATE TABLE a (id int4 PRIMARY KEY)", "CREATE TABLE b (id int4 PRIMARY KEY)")
    a, b = ("public", "a"), ("public", "b")
    assert place.source.ensure_publication(PUBLICATION, [a]) == ["public.a"]
    assert place.source.ensure_publication(PUBLICATION, [a, b, b]) == ["public.b"]
    assert place.source.ensure_publication(PUBLICATION, [a, b]) == []
    place.source.drop_publication_table(PUBLICATION, *a)
    place.source.drop_publication_table(PUBLICATION, *a)
    assert place.source.ensure_publication(PUBLICATION, [a]) == ["public.a"]
    with pytest.raises(SourceRefused, match=r"no table public\.gone"):
        place.source.ensure_publication(PUBLICATION, [("public", "gone")])


def test_generated_columns_are_left_out_as_the_stream_has_them(place: Place) -> None:
    place.run(
        "CREATE TABLE t (id int4 PRIMARY KEY, g int4 GENERATED ALWAYS AS (id + 1) STORED, b bool)"
    )
    found = place.source.describe_table("public", "t")
    assert [c.name for c in found.columns] == ["id", "b"]
    assert found.generated == found.unselected == ("g",)
    reader = place.reader(place.prepare("t"))
    place.run("INSERT INTO t VALUES (1, DEFAULT, true)")
    bound = place.binding("t")
    (row,) = place.rows(reader, Decoder({("public", "t"): bound}))
    assert isinstance(row, RowChange) and row.change == Insert((1, True))
    assert place.page("t").to_pylist() == [{"id": 1, "b": True}]
    assert place.source.generated_columns("public", "t") == ["g"]
    assert place.source.generated_columns("public", "nothing") == []
    without = place.source.describe_table("public", "t", excluded=("b",))
    assert ([c.name for c in without.columns], without.unselected) == (["id"], ("g", "b"))
    with pytest.raises(SourceRefused, match=r"column id .* cannot be left out"):
        place.source.describe_table("public", "t", excluded=("id",))
    with pytest.raises(SourceRefused, match=r"has no column 'x'"):
        place.source.describe_table("public", "t", excluded=("x",))
    with pytest.raises(SourceRefused, match=r"column g .* is generated"):
        place.source.describe_table("public", "t", columns=["id", "g"])


@pytest.mark.parametrize(
    ("ddl", "why"),
    [
        ("CREATE PUBLICATION p FOR TABLE t WHERE (id > 5)", "only some rows"),
        ("CREATE PUBLICATION p FOR TABLE t (id)", "only some columns"),
        ("CREATE PUBLICATION p FOR TABLE t WITH (publish = 'insert')", "every kind of change"),
    ],
)
def test_publications_that_hide_something_are_refused(place: Place, ddl: str, why: str) -> None:
    place.run("CREATE TABLE t (id int4 PRIMARY KEY, s text)", ddl)
    with pytest.raises(SourceRefused, match=f"{why}.*run: ALTER PUBLICATION"):
        place.source.ensure_publication("p", [("public", "t")])


def test_slots_of_others_are_refused(place: Place, postgres: RunningPostgres) -> None:
    elsewhere = f"elsewhere_{next(numbers)}"
    postgres.ensure_database(elsewhere)
    other = Place(postgres, elsewhere)
    other.slot = place.slot
    other.source.ensure_slot(place.slot)
    try:
        with pytest.raises(SourceRefused, match=f"belongs to database {elsewhere}"):
            place.source.ensure_slot(place.slot)
    finally:
        other.close()
    place.run(f"SELECT pg_create_physical_replication_slot('{place.slot}')")
    with pytest.raises(SourceRefused, match="exists for physical"):
        place.source.ensure_slot(place.slot)
    with pytest.raises(SourceRefused, match="cannot name a slot"):
        place.source.ensure_slot("No-Slot")


def test_slot_creation_says_whom_it_waits_for(place: Place) -> None:
    with psycopg.connect(
        place.connection.info.dsn, password=place.connection.info.password
    ) as open_:
        open_.execute("CREATE TABLE t (id int4)")
        with pytest.raises(TransactionsStillRunning, match=f"pid {open_.info.backend_pid}"):
            place.source.ensure_slot(place.slot, timeout_s=0.5)
    assert place.source.ensure_slot(place.slot) > 0


def test_identity_and_state(place: Place) -> None:
    assert place.source.identity() == place.source.identity()
    assert place.source.identity().timeline == 1
    assert place.source.slot_state("nobody") is None
    place.source.ensure_slot(place.slot)
    state = place.source.slot_state(place.slot)
    assert state is not None and not state.active
    assert state.wal_status == "reserved" and (state.retained_bytes or 0) >= 0


def test_key_bounds_count_nothing(place: Place) -> None:
    place.run("CREATE TABLE t (id int8 PRIMARY KEY)")
    key = place.source.key_columns("public", "t", ["id"])[0]
    bounds = place.source.key_bounds("public", "t", key)
    assert (bounds.low, bounds.high, bounds.estimated_rows) == (None, None, None)
    place.run("INSERT INTO t SELECT 100 * i FROM generate_series(1, 1000) i")
    bounds = place.source.key_bounds("public", "t", key)
    assert (bounds.low, bounds.high, bounds.estimated_rows) == (100, 100_000, None)
    place.run("ANALYZE t")
    assert place.source.key_bounds("public", "t", key).estimated_rows == 1000


# The catalog


def test_a_table_is_described(place: Place) -> None:
    place.run(
        f"CREATE TABLE t ({TYPES})",
        "CREATE TABLE i (b int4 NOT NULL, a int4 NOT NULL, payload jsonb)",
        "CREATE UNIQUE INDEX ab ON i (a, b)",
        "ALTER TABLE i REPLICA IDENTITY USING INDEX ab",
    )
    found = place.source.describe_table("public", "t")
    assert [c.type for c in found.columns] == [
        *("int8", "int2", "int4"),
        *("numeric(12,2)", "numeric(38,18)", "numeric(38,18)", "numeric(38,0)"),
        *("text", "text", "text", "bool", "date", "timestamp", "timestamptz"),
    ]
    assert [c.name for c in found.columns if not c.nullable] == ["id", "middle"]
    assert (found.key, found.identity, found.relkind) == (("id",), "d", "r")
    assert found.estimated_rows is None
    chosen = place.source.describe_table("public", "i", columns=["a", "b"])
    assert chosen.key == ("a", "b") and chosen.identity == "i"
    assert [c.name for c in chosen.columns] == ["a", "b"] and chosen.unselected == ("payload",)


@pytest.mark.parametrize(
    ("ddl", "why"),
    [
        ("CREATE TABLE orders (id int4 PRIMARY KEY)", "near names: public.orders"),
        ("CREATE TABLE t (id int4)", "run: ALTER TABLE .* ADD PRIMARY KEY"),
        ("CREATE TABLE t (id int4 PRIMARY KEY DEFERRABLE)", "DEFERRABLE one does not count"),
        ("CREATE TABLE t (id int4 UNIQUE NOT NULL)", "REPLICA IDENTITY USING INDEX .t_id_key"),
        (
            "CREATE TABLE t (id int4 PRIMARY KEY); ALTER TABLE t REPLICA IDENTITY NOTHING",
            "run: ALTER TABLE .* REPLICA IDENTITY DEFAULT",
        ),
        ("CREATE UNLOGGED TABLE t (id int4 PRIMARY KEY)", "SET LOGGED"),
        ("CREATE TABLE t (id int4 PRIMARY KEY) PARTITION BY RANGE (id)", "is partitioned"),
        ("CREATE VIEW t AS SELECT 1 AS id", "is a view"),
        ("CREATE TABLE t (id int4 PRIMARY KEY, n numeric(39,0))", r"type numeric\(39,0\)"),
        ("CREATE TABLE t (id int4 PRIMARY KEY, n numeric(30,-9))", r"numeric.as = 'text'"),
        (
            "CREATE TABLE t (x int4, g int4 PRIMARY KEY GENERATED ALWAYS AS (x + 1) STORED)",
            "column g .* part of the key",
        ),
    ],
)
def test_tables_that_cannot_be_kept_are_refused(place: Place, ddl: str, why: str) -> None:
    place.run(ddl)
    with pytest.raises(SourceRefused, match=why):
        place.source.describe_table("public", "t" if "orders" not in ddl else "order")


def test_missing_rights_are_refused_with_the_statement_that_grants_them(
    place: Place, postgres: RunningPostgres
) -> None:
    user = f"reader_{next(numbers)}"
    place.run(
        "CREATE SCHEMA hidden",
        "CREATE TABLE hidden.t (id int4 PRIMARY KEY)",
        f"CREATE ROLE {user} LOGIN PASSWORD 's3cret'",
    )
    source = PostgresSource({**place.source.conninfo, "user": user, "password": "s3cret"})

    def refused(why: str) -> None:
        with pytest.raises(SourceRefused, match=why):
            source.describe_table("hidden", "t")

    try:
        assert any("ALTER ROLE" in problem for problem in source.problems())
        with pytest.raises(SourceRefused, match="may not replicate"):
            source.require_ready()
        refused("run: GRANT USAGE ON SCHEMA")
        place.run(f"GRANT USAGE ON SCHEMA hidden TO {user}")
        refused("run: GRANT SELECT ON")
        place.run(f"GRANT SELECT ON hidden.t TO {user}")
        assert source.describe_table("hidden", "t").key == ("id",)
        place.run("ALTER TABLE hidden.t ENABLE ROW LEVEL SECURITY")
        refused("run: ALTER ROLE .* BYPASSRLS")
        with pytest.raises(SourceRefused, match="run: GRANT CREATE ON DATABASE"):
            source.ensure_publication("mine", [("hidden", "t")])
        place.run(f"ALTER ROLE {user} REPLICATION")
        assert source.problems() == []
        assert source.identity() == place.source.identity()
    finally:
        place.run(f"DROP OWNED BY {user}", f"DROP ROLE {user}")


def test_the_password_is_shown_to_nobody(place: Place) -> None:
    wrong = PostgresSource({**place.source.conninfo, "password": "s3cret"})
    with pytest.raises(SourceRefused, match="password authentication failed") as caught:
        wrong.identity()
    assert "s3cret" not in f"{caught.value} {wrong!r} {wrong.where}"


# When the server's position may be taken as ours


class ScriptedCursor:
    """Says what a replication cursor would: (payload, end) is a message, an int a keep-alive."""

    def __init__(self, *script: tuple[bytes, int] | int) -> None:
        self._script = list(script)
        self.wal_end = 0

    def read_message(self) -> SimpleNamespace | None:
        while self._script:
            said = self._script.pop(0)
            if isinstance(said, int):
                self.wal_end = said
                continue
            payload, self.wal_end = said
            return SimpleNamespace(payload=payload, data_start=said[1], wal_end=said[1])
        return None


@pytest.mark.parametrize(
    ("script", "position"),
    [
        ([(b"B", 5), (b"C", 10), 20], 20),
        ([20], 20),
        ([(b"B", 5), (b"C", 10)], None),
        ([(b"B", 5), (b"C", 10), 10], None),
        ([20, (b"B", 25), (b"C", 30)], None),
        ([(b"B", 5), (b"I", 6), 20], None),
        ([(b"B", 5), (b"M\x01", 6), 20], None),
        ([(b"M\x00", 6), 20], 20),
    ],
)
def test_a_position_is_quiet_only_after_a_whole_transaction_and_a_keep_alive(
    script: list[tuple[bytes, int] | int], position: int | None
) -> None:
    reader = SlotReader(PostgresSource({}))
    reader._cursor = ScriptedCursor(*script)
    reader._last_feedback = float("inf")
    assert len(reader.poll(0)) == sum(isinstance(said, tuple) for said in script)
    assert reader.keepalive_position() == position


def test_a_position_is_not_quiet_once_more_has_come() -> None:
    reader = SlotReader(PostgresSource({}))
    reader._last_feedback = float("inf")
    reader._cursor = ScriptedCursor(20)
    assert reader.poll(0) == [] and reader.keepalive_position() == 20
    reader._cursor = ScriptedCursor((b"B", 25), (b"C", 30), 40, (b"B", 45), (b"C", 50))
    for _ in range(2):
        assert len(reader.poll(0, max_messages=2)) == 2
        assert reader.keepalive_position() is None
