"""The key of a source's table: its types, its ends, and keys that cut the table into parts.

Nothing here reads the table whole: an index knows the ends, a sample of blocks the rest.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import psycopg
from psycopg import sql

from resources.key_range import Key, KeyColumn, key_order
from resources.postgres_link import Link, SourceRefused, compose
from resources.postgres_table import quoted

SAMPLE_SECONDS = 600
SAMPLE_BLOCKS = 5_000
"""A table of up to this many blocks is sampled whole; of a larger one, so many or every 50th."""


@dataclass(frozen=True, slots=True)
class KeyBounds:
    """`low` and `high` are None for an empty table and where the key is no integer.

    `estimated_rows` is None where the table was never analysed.
    """

    is_integer: bool
    low: int | None
    high: int | None
    estimated_rows: int | None


@dataclass(frozen=True, slots=True)
class KeySample:
    """`cuts` are keys that rise, in the order of the key's columns as they were named."""

    cuts: tuple[Key, ...]
    estimated_rows: int


class KeySource(Link):
    """What a backfill asks before it reads a table."""

    def estimate_rows(self, schema: str, table: str) -> int | None:
        """Return about how many rows a table has, None where the server does not know."""
        with self.session() as session:
            found = session.row("select_table", schema=schema, table=table)
            if found is None:
                return None
            rows = session.the_row("estimate_rows", oid=found["oid"])["rows"]
            return None if rows is None else int(rows)

    def require_filter(self, schema: str, table: str, only: str) -> None:
        """Refuse a snapshot filter that is no condition on the table's columns."""
        text = compose(
            "try_filter", table=sql.Identifier(schema, table), filter=sql.SQL(cast(Any, only))
        )
        with self.session() as session:
            try:
                # Prepared, it is one statement or none.
                session.connection.execute(text, prepare=True)
            except (psycopg.ProgrammingError, psycopg.DataError) as error:
                why = str(error).partition("\n")[0]
                raise SourceRefused(
                    f"snapshot.filter of {schema}.{table} is refused by the source: {why}; write a "
                    "condition on its columns"
                ) from error

    def key_columns(self, schema: str, table: str, names: Sequence[str]) -> tuple[KeyColumn, ...]:
        """Return what the key's columns are compared as, in the order of `names`."""
        with self.session() as session:
            oid = session.the_row("select_table", schema=schema, table=table)["oid"]
            rows = session.rows("select_key_types", oid=oid, names=list(names))
        if len(rows) != len(names):
            raise SourceRefused(
                f"{quoted(schema, table)} has not all of its key's columns any more: "
                f"{', '.join(names)}"
            )
        return tuple(KeyColumn(**row) for row in rows)

    def key_bounds(self, schema: str, table: str, key: KeyColumn) -> KeyBounds:
        """Return the ends of an integer key and about how many rows there are; counts nothing."""
        with self.session() as session:
            oid = session.the_row("select_table", schema=schema, table=table)["oid"]
            rows = session.the_row("estimate_rows", oid=oid)["rows"]
            if not key.is_integer:
                return KeyBounds(False, None, None, rows)
            parts = {"key": sql.Identifier(key.name), "table": sql.Identifier(schema, table)}
            ends = session.execute_named("select_key_bounds", **parts)[0]
        return KeyBounds(True, ends["low"], ends["high"], rows)

    def sample_keys(
        self,
        schema: str,
        table: str,
        key: Sequence[KeyColumn],
        *,
        rows_per_split: int,
        max_splits: int,
    ) -> KeySample:
        """Return keys between which about `rows_per_split` rows lie, from a sample of blocks."""
        aliases = [sql.Identifier(f"_tg_key_{place}") for place, _ in enumerate(key)]
        named = [
            sql.SQL("{} AS {}").format(sql.Identifier(c.name), alias)
            for c, alias in zip(key, aliases, strict=True)
        ]
        comma = sql.SQL(", ")
        with self.session(statement_seconds=SAMPLE_SECONDS) as session:
            oid = session.the_row("select_table", schema=schema, table=table)["oid"]
            blocks = session.the_row("count_blocks", oid=oid)["blocks"]
            wanted = max(SAMPLE_BLOCKS, blocks // 50)
            rows = session.execute_named(
                "select_key_quantiles",
                named=comma.join(named),
                key=key_order(key),
                table=sql.Identifier(schema, table),
                percent=sql.Literal(100.0 if blocks <= wanted else 100.0 * wanted / blocks),
                most=sql.Literal(max_splits),
                rows_per_split=sql.Literal(rows_per_split),
                texts=comma.join(sql.SQL("c.{}::text").format(alias) for alias in aliases),
            )
        # The first place begins the first split, which is open to the left.
        cuts = [row for row in rows if row["place"] > 0]
        keys = (tuple(row[f"_tg_key_{place}"] for place, _ in enumerate(key)) for row in cuts)
        return KeySample(tuple(keys), rows[0]["rows"] if rows else 0)
