"""A real server's table whose columns change while it is read, followed as the stream run does."""

import itertools
import time
from dataclasses import replace

from ops.backfill.cdc.bound import binding
from ops.backfill.cdc.evolve import Origin, evolve
from ops.backfill.cdc.pgoutput import Decoder, RelationChanged, RowChange
from ops.common.change import Insert, Row, Update
from ops.common.schema import Column, DataType, Schema
from ops.common.table.relation import Relation
from tests.support.model import relation
from tests.support.source_place import Place

T = ("public", "t")
marks = itertools.count()


class Followed:
    """`rows` is the table as the stream has told it, by key; columns stand as they came."""

    def __init__(self, place: Place) -> None:
        self.place = place
        found = place.source.describe_table("public", "t")
        columns = (Column(c.name, DataType.parse(c.type), c.nullable) for c in found.columns)
        attnums = {c.name: c.attnum for c in found.columns}
        types = {c.name: (c.type_oid, c.modifier) for c in found.columns}
        origin = Origin(found.oid, found.identity, (), attnums, {}, types, follows_all=True)
        schema = Schema(tuple(columns), found.key)
        self.relation: Relation = relation(schema, origin=origin.to_json(), schema_version=1)
        self.reader = place.reader(place.prepare("t"))
        self.told: bytes | None = None
        self.rows: dict[object, dict[str, object]] = {}
        self.why: str | None = None

    @property
    def origin(self) -> Origin:
        assert self.relation.origin is not None
        return Origin.from_json(self.relation.origin)

    def run(self, *statements: str) -> None:
        """Run each statement, and follow what the stream says of it at once."""
        for statement in statements:
            self.place.run(statement)
            self.follow()

    def follow(self) -> None:
        messages = self._messages()
        decoder, at, begin = self._decoder(messages), 0, 0
        while at < len(messages) and self.why is None:
            message = messages[at]
            begin = at if message[:1] == b"B" else begin
            event = decoder.decode(message)
            at += 1
            if isinstance(event, RelationChanged) and self._moves(event, decoder):
                # The transaction comes again, to a decoder made anew.
                decoder, at = self._decoder(messages[begin:]), begin
            elif isinstance(event, RowChange):
                self._apply(event)
            if message[:1] == b"R" and at > begin:
                self.told = message

    def shown(self) -> list[dict[str, object]]:
        names = self.origin.names
        return [
            {names.get(name, name): value for name, value in row.items()}
            for _, row in sorted(self.rows.items(), key=lambda kv: str(kv[0]))
        ]

    def source(self) -> list[dict[str, object]]:
        cursor = self.place.connection.execute(b"SELECT * FROM t ORDER BY id::text")
        names = [c.name for c in cursor.description or ()]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    def _messages(self) -> list[bytes]:
        mark = f"mark {next(marks)}".encode()
        self.place.source.emit_message("test", mark.decode())
        found: list[bytes] = []
        deadline = time.monotonic() + 20
        while not any(m[:1] == b"M" and mark in m for m in found) or found[-1][:1] != b"C":
            assert time.monotonic() < deadline, "the mark did not arrive"
            found += [message for _, message in self.reader.poll(1)]
        return found

    def _decoder(self, messages: list[bytes]) -> Decoder:
        """A new reader of the slot is told of a relation before its first row, as it was then."""
        decoder = Decoder({T: binding(self.relation)})
        kinds = [m[:1] for m in messages if m[:1] in (b"R", b"I", b"U", b"D")]
        if self.told is None or kinds[:1] == [b"R"]:
            return decoder
        event = decoder.decode(self.told)
        if isinstance(event, RelationChanged):
            assert not self._moves(event, decoder)
        return decoder

    def _moves(self, event: RelationChanged, decoder: Decoder) -> bool:
        """Say whether the columns are others now; if they are not, the decoder goes on."""
        if event.sent is None:
            self.why = event.why
            return False
        version = self.relation.schema_version + 1
        columns = self.place.source.attributes(self.origin.oid, False)
        schema = self.relation.schema
        found = evolve(schema, self.origin, event.sent, columns, version=version)
        if isinstance(found, str):
            self.why = found
            return False
        if found.schema == schema and found.origin.names == self.origin.names:
            same = replace(self.relation, origin=found.origin.to_json())
            assert decoder.bind(T, binding(same, found)) is None
            return False
        self.relation = replace(
            self.relation,
            schema=found.schema,
            origin=found.origin.to_json(),
            schema_version=version,
        )
        # What was there before has what the column was added with.
        self.rows = {key: self._padded(row) for key, row in self.rows.items()}
        return True

    def _padded(self, row: dict[str, object]) -> dict[str, object]:
        columns = self.relation.schema.columns
        return {
            c.name: row.get(
                c.name, int(c.default) if c.default and c.type.kind == "int4" else c.default
            )
            for c in columns
        }

    def _apply(self, event: RowChange) -> None:
        change = event.change
        assert isinstance(change, Insert | Update)
        row: Row = change.row if isinstance(change, Insert) else change.after
        named = dict(zip(self.relation.schema.names, row, strict=True))
        self.rows[named["id"]] = named


def made(place: Place) -> Followed:
    place.run("CREATE TABLE t (id int4 PRIMARY KEY, a text, n int4)")
    table = Followed(place)
    table.run("INSERT INTO t VALUES (1, 'x', 1), (2, 'y', 2)")
    return table


def test_columns_are_followed(place: Place) -> None:
    table = made(place)
    table.run(
        "ALTER TABLE t ADD COLUMN d text DEFAULT 'it''s', ADD COLUMN e int4; UPDATE t SET e = 7",
        "UPDATE t SET n = 5 WHERE id = 1; ALTER TABLE t ADD COLUMN f int4 DEFAULT 9; "
        "UPDATE t SET f = NULL WHERE id = 2",
        "UPDATE t SET a = 'u' WHERE id = 1; ALTER TABLE t RENAME a TO b; "
        "UPDATE t SET b = 'z' WHERE id = 2",
        "ALTER TABLE t DROP COLUMN e; UPDATE t SET n = 8 WHERE id = 2",
        "ALTER TABLE t ADD COLUMN a int4 DEFAULT 3; INSERT INTO t (id) VALUES (3)",
    )
    assert table.why is None
    assert table.shown() == table.source()
    assert table.relation.schema.names == ("id", "a", "n", "d", "f", "a_7")


def test_names_that_are_exchanged(place: Place) -> None:
    table = made(place)
    table.run("ALTER TABLE t ADD COLUMN b text DEFAULT 'b'; UPDATE t SET n = 3")
    swap = "ALTER TABLE t RENAME a TO c; ALTER TABLE t RENAME b TO a; ALTER TABLE t RENAME c TO b"
    table.run(f"{swap}; UPDATE t SET a = 'now a' WHERE id = 1")
    assert table.why is None and table.shown() == table.source()
    assert table.origin.names == {"a": "b", "b": "a"}


def test_what_is_in_no_event_stops(place: Place) -> None:
    table = made(place)
    table.run("ALTER TABLE t ADD COLUMN r float8 DEFAULT random(); UPDATE t SET n = 3 WHERE id = 1")
    assert table.why is not None and "differs from row to row" in table.why


def test_a_catalog_that_is_ahead_of_the_stream(place: Place) -> None:
    """Nobody looked in between; what rows of before have in each column is known all the same."""
    table = made(place)
    place.run(
        "ALTER TABLE t ADD COLUMN d int4 DEFAULT 4",
        "UPDATE t SET n = 6 WHERE id = 1",
        "ALTER TABLE t ADD COLUMN e int4 DEFAULT 5",
        "UPDATE t SET d = 7, e = 8 WHERE id = 2",
        "ALTER TABLE t DROP COLUMN d",
        "UPDATE t SET n = 1 WHERE id = 2",
    )
    table.follow()
    assert table.why is None and table.shown() == table.source()
