"""The independent judge: is the lake what the source is, and is nothing in it that nobody names?

It shares no reading code with the platform: it asks the control store which files there are, reads
them with pyarrow (and the base with delta-rs), lays the log over them in plain Python, and compares
with what Postgres answers. A date is its days since 1970 here and a timestamp its microseconds, on
both sides, since Python has no word for many of them; a float is what Python prints of it, since a
NaN is not equal to itself; what is kept as text is compared with what the server prints.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from psycopg.rows import dict_row

from tests.support.pipeline import PIPELINE, TestPipeline

Rows = dict[tuple[Any, ...], dict[str, Any]]


def require_equal(
    pipeline: TestPipeline,
    epoch: int,
    *,
    tables: Iterable[str] = ("orders",),
    views: Iterable[str] = ("revenue",),
) -> int:
    """Hold tables and views as of `epoch` against the source; return the rows compared.

    The source must not have changed since the flush that made `epoch`.
    """
    compared = 0
    for table in tables:
        expected = source_rows(pipeline, table)
        compared += _require_same(table, lake_rows(pipeline, table, epoch), expected)
    for view in views:
        expected = source_rows(pipeline, view)
        compared += _require_same(view, lake_rows(pipeline, view, epoch), expected)
    return compared


def lake_rows(pipeline: TestPipeline, name: str, epoch: int) -> Rows:
    """Return a relation as of an epoch, by key; a key that is there twice is a failure."""
    key = key_columns(pipeline, name)
    with _control(pipeline) as control:
        stored = _relation(control, name)
        relation = stored["id"]
        files = control.execute(
            "SELECT kind, after_epoch, epoch, path, truncates, schema_version FROM files "
            "WHERE relation = %s AND unlisted_at IS NULL ORDER BY epoch",
            [relation],
        ).fetchall()
        base = control.execute(
            "SELECT epoch, path, version, schema_version FROM bases WHERE forgotten_at IS NULL "
            "AND relation = %s AND epoch <= %s ORDER BY epoch DESC LIMIT 1",
            [relation, epoch],
        ).fetchone()
    if base is None:
        snapshots = [f for f in files if f["kind"] == "snapshot"]
        rows = [
            _shaped(row, stored, f["schema_version"])
            for f in snapshots
            for row in _parquet(pipeline.lake / f["path"])
        ]
    else:
        # Not by delta-rs's own read: it cannot take an infinite date in the statistics.
        rows = [
            _shaped(row, stored, base["schema_version"])
            for path in _version_files(pipeline.lake, base)
            for row in _parquet(pipeline.lake / path)
        ]
    found = _by_key(f"{name} below its log", rows, key)
    start = base["epoch"] if base else 0
    last = (start, start)
    for file in files:
        if file["kind"] != "log" or file["epoch"] <= start or file["after_epoch"] >= epoch:
            continue
        covers = (file["after_epoch"], file["epoch"])
        # A range may be several files of one commit.
        assert covers == last or (covers[0] >= last[1] and covers[1] <= epoch), (
            f"{name}: log file {covers} overlaps {last}, or passes over {epoch}"
        )
        # A page may be younger than an event: before the table is live the log only supersedes.
        if file["truncates"]:
            found.clear()
        whole = stored["kind"] != "table" or file["after_epoch"] >= stored["live_since"]
        log = _parquet(pipeline.lake / file["path"])
        for change in log:
            for image in ("new", "old"):
                if change[image] is not None:
                    change[image] = _shaped(change[image], stored, file["schema_version"])
        _apply(name, found, log, whole=whole)
        last = covers
    return found


def require_no_orphans(pipeline: TestPipeline) -> int:
    """Every file is named and every named file is there; call after a collection without grace."""
    with _control(pipeline) as control:
        relations = [r["path"] for r in control.execute("SELECT path FROM relations")]
        files = control.execute("SELECT path, unlisted_at, removed_at FROM files").fetchall()
        bases = control.execute(
            "SELECT path, version FROM bases WHERE forgotten_at IS NULL"
        ).fetchall()
    root = pipeline.lake / PIPELINE
    there = {str(p.relative_to(pipeline.lake)) for p in root.rglob("*") if p.is_file()}
    named = {f["path"] for f in files if f["removed_at"] is None}
    listed = {f["path"] for f in files if f["unlisted_at"] is None}
    delta: set[str] = set()
    for path in relations:
        delta |= _delta_files(pipeline.lake, path)
    missing = (listed | {f for b in bases for f in _version_files(pipeline.lake, b)}) - there
    assert not missing, f"named, but not there: {sorted(missing)}"
    orphans = {p for p in there - named - delta if not _belongs_to_delta_log(p, relations)}
    # A file that came out without rows is not committed; a vacuum takes it after a day.
    empty = {p for p in orphans if p.endswith(".parquet") and not _rows_of(pipeline.lake / p)}
    delta |= empty
    orphans -= empty
    # Hadoop's local file system keeps a checksum beside each file of a Delta table.
    orphans -= {str(Path(p).parent / f".{Path(p).name}.crc") for p in delta}
    assert not orphans, f"there, but named by nobody: {sorted(orphans)}"
    return len(there)


def key_columns(pipeline: TestPipeline, name: str) -> tuple[str, ...]:
    with _control(pipeline) as control:
        return tuple(_relation(control, name)["schema"]["key"])


def _require_same(name: str, found: Rows, expected: Rows) -> int:
    differing = [k for k in found.keys() | expected.keys() if found.get(k) != expected.get(k)]
    some = sorted(differing, key=repr)[:5]
    shown = "\n".join(f"  {k}: lake {found.get(k)}\n      source {expected.get(k)}" for k in some)
    assert not differing, f"{name} differs in {len(differing)} rows:\n{shown}"
    return len(expected)


def source_rows(pipeline: TestPipeline, name: str) -> Rows:
    """Return what a table is at the source now, or what a view's query answers there."""
    if name in pipeline.views:
        # A view may read a view before it.
        read = _read_by(name, pipeline.views)
        known = ", ".join(f"{v} AS ({text})" for v, text in pipeline.views.items() if v in read)
        query = f"WITH {known} SELECT * FROM {name}"
    else:
        with _control(pipeline) as control:
            columns = _relation(control, name)["schema"]["columns"]
        shown = ", ".join(_shown(column, data_type) for column, data_type, *_ in columns)
        query = f"SELECT {shown} FROM {name}"
    rows = ask_source(pipeline, query)
    return _by_key("the source", rows, key_columns(pipeline, name))


def _read_by(name: str, views: dict[str, str]) -> set[str]:
    """Return a view and the views that it reads, however many lie between."""
    found = {name}
    for view in reversed(views):
        if view in found:
            found |= {v for v in views if v != view and re.search(rf"\b{v}\b", views[view])}
    return found


def ask_source(pipeline: TestPipeline, query: str) -> list[dict[str, Any]]:
    """Return rows as they are compared with the lake's."""
    options = "-c TimeZone=UTC -c IntervalStyle=postgres -c DateStyle=ISO -c bytea_output=hex"
    with psycopg.connect(pipeline.dsn, row_factory=dict_row, options=options) as connection:
        rows = connection.execute(query.encode()).fetchall()
    return [{name: _plain(value) for name, value in row.items()} for row in rows]


def _shown(name: str, data_type: str) -> str:
    """Return what to select of a column: dates and times as numbers, text as it is printed."""
    column = f'"{name}"'
    match data_type.partition("(")[0]:
        case "date":
            shown, ends = f"({column} - date '1970-01-01')::int8", (-(2**31), 2**31 - 1)
        case "timestamp" | "timestamptz":
            shown = f"(extract(epoch FROM {column}) * 1000000)::int8"
            ends = (-(2**63), 2**63 - 1)
        case "float4":
            # Python has only doubles: the lake's side is read as such.
            return f"{column}::float8 AS {column}"
        case "other" | "text" if "(" in data_type:
            # NULL of a composite is not that all of its fields are.
            there = f"{column} IS DISTINCT FROM NULL"
            return f"CASE WHEN {there} THEN format('%s', {column}) END AS {column}"
        case _:
            return column
    return (
        f"CASE {column}::text WHEN '-infinity' THEN ({ends[0]})::int8 "
        f"WHEN 'infinity' THEN {ends[1]} ELSE {shown} END AS {column}"
    )


def _plain(value: Any) -> Any:
    match value:
        case float():
            return repr(value)
        case datetime():
            moment = value.replace(tzinfo=None) if value.tzinfo is None else value.astimezone(UTC)
            since = moment.replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)
            return since // timedelta(microseconds=1)
        case date():
            return value.toordinal() - date(1970, 1, 1).toordinal()
        case dict():
            return {name: _plain(part) for name, part in value.items()}
        case _:
            return value


def _plain_rows(table: pa.Table) -> list[dict[str, Any]]:
    fields = [pa.field(field.name, _counted(field.type)) for field in table.schema]
    return [_plain(row) for row in table.cast(pa.schema(fields)).to_pylist()]


def _counted(data_type: pa.DataType) -> pa.DataType:
    """Return a type with dates and times as the integers they are."""
    if pa.types.is_struct(data_type):
        return pa.struct([pa.field(field.name, _counted(field.type)) for field in data_type])
    if pa.types.is_date32(data_type):
        return pa.int32()
    return pa.int64() if pa.types.is_timestamp(data_type) else data_type


def _by_key(what: str, rows: list[dict[str, Any]], key: tuple[str, ...]) -> Rows:
    keys = [tuple(row[k] for k in key) for row in rows]
    twice = [k for k, n in Counter(keys).items() if n > 1]
    assert not twice, f"{what}: keys that are there twice: {twice[:5]}"
    return dict(zip(keys, rows, strict=True))


def _apply(name: str, rows: Rows, log: list[dict[str, Any]], *, whole: bool) -> None:
    changes = _by_key(f"a log file of {name}", [{**c["key"], "_": c} for c in log], _names(log))
    for key, wrapped in changes.items():
        change = wrapped["_"]
        if whole and change["known"]:
            assert change["old"] == rows.get(key), (
                f"{name} {key}: the log says it was {change['old']}, it was {rows.get(key)}"
            )
        if change["op"] == "-":
            rows.pop(key, None)
        else:
            holes = change.get("holes") or ()
            # What was not sent is as it was; a page may bring the row only later.
            filled = {name: rows[key][name] for name in holes if whole or key in rows}
            rows[key] = change["new"] | filled


def _shaped(row: dict[str, Any], stored: dict[str, Any], version: int) -> dict[str, Any]:
    """Return a row in the columns the relation has now, written when it had others."""
    shaped = {}
    for name, kind, _, *later in stored["schema"]["columns"]:
        added, default = later or (1, None)
        if added > version and default is not None:
            shaped[name] = int(default) if kind.startswith("int") else default
        else:
            shaped[name] = row.get(name)
    return shaped


def _names(log: list[dict[str, Any]]) -> tuple[str, ...]:
    return tuple(log[0]["key"]) if log else ()


def _parquet(path: Path) -> list[dict[str, Any]]:
    return _plain_rows(pq.ParquetFile(path).read())


def _relation(control: psycopg.Connection[dict[str, Any]], name: str) -> dict[str, Any]:
    found = control.execute(
        "SELECT * FROM relations WHERE name = %s AND role = 'current'", [name]
    ).fetchone()
    assert found is not None, f"no relation is called {name}"
    return found


def _control(pipeline: TestPipeline) -> psycopg.Connection[dict[str, Any]]:
    return psycopg.connect(pipeline.control, autocommit=True, row_factory=dict_row)


def _delta_files(lake: Path, path: str) -> set[str]:
    """Return every file that any version of a Delta table has ever named."""
    found = set()
    for commit in (lake / path / "_delta_log").glob("*.json"):
        for line in commit.read_text().splitlines():
            added = json.loads(line).get("add")
            if added is not None:
                found.add(f"{path}/{unquote(added['path'])}")
    return found


def _rows_of(path: Path) -> int:
    return int(pq.ParquetFile(path).metadata.num_rows)


def _version_files(lake: Path, base: dict[str, Any]) -> list[str]:
    uris = DeltaTable(str(lake / base["path"]), version=base["version"]).file_uris()
    return [str(Path(unquote(uri.removeprefix("file://"))).relative_to(lake)) for uri in uris]


def _belongs_to_delta_log(path: str, relations: list[str]) -> bool:
    return any(path.startswith(f"{relation}/_delta_log/") for relation in relations)
