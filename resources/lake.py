"""The lake: Parquet files and Delta tables under one root, a folder or a bucket's prefix.

Only what an object store can do: write whole files, list, delete. No rename, no append.
"""

import os
from collections.abc import Sequence
from typing import Any, NamedTuple
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from resources.object_store import S3

KEPT_VERSIONS = 256


class VersionFile(NamedTuple):
    """`low` and `high` bound a column's values; None where Delta does not know."""

    path: str
    bytes: int
    low: Any
    high: Any


class Lake:
    """`root` is a folder, or s3://bucket/prefix with the `store` it is in. It can be pickled."""

    def __init__(self, root: str, store: S3 | None = None) -> None:
        self._store = store
        self._versions: dict[tuple[str, int, str], Sequence[VersionFile]] = {}
        self._files: fs.FileSystem
        if store is not None:
            self.root = root.rstrip("/")
            self._base = self.root.removeprefix("s3://")
            self._files = store.file_system()
        else:
            self.root = self._base = os.path.abspath(root)
            self._files = fs.LocalFileSystem()

    def __repr__(self) -> str:
        return f"Lake({self.root!r})"

    def __reduce__(self) -> tuple[type["Lake"], tuple[str, S3 | None]]:
        return Lake, (self.root, self._store)

    @property
    def is_local(self) -> bool:
        return self._store is None

    def uri(self, path: str) -> str:
        """Return where Spark and delta-rs find `path`."""
        return f"{self.root if self.is_local else 's3a://' + self._base}/{path}"

    def delta_options(self) -> dict[str, str] | None:
        """Return what delta-rs must know to open what is here."""
        return None if self._store is None else self._store.delta_options()

    def write(self, path: str, table: Any) -> int:
        """Write an Arrow table as one Parquet file that outlives the host; return its bytes."""
        assert isinstance(table, pa.Table)
        full = f"{self._base}/{path}"
        if self.is_local:
            os.makedirs(os.path.dirname(full), exist_ok=True)
        with self._files.open_output_stream(full) as sink:
            pq.write_table(table, sink, compression="zstd", compression_level=1)
            size = int(sink.tell())
        self.settle([path])
        return size

    def read(self, path: str, columns: Sequence[str] | None = None) -> Any:
        """Return a Parquet file, or some columns of it, as an Arrow table."""
        with self.parquet(path) as file:
            return file.read(columns=list(columns) if columns else None)

    def settle(self, paths: Sequence[str]) -> None:
        """Make files outlive a power cut, whoever wrote them: a commit that names them will."""
        if not self.is_local:
            # An object store has answered only when it holds the object for good.
            return
        folders = set()
        for path in paths:
            full = f"{self._base}/{path}"
            _fsync(full)
            while len(full) > len(self._base):
                full = os.path.dirname(full)
                folders.add(full)
        # A new file, and each new folder above it, is an entry of the folder that holds it.
        for folder in sorted(folders, key=len, reverse=True):
            _fsync(folder)

    def list(self, directory: str) -> list[str]:
        """Return the paths of all files below `directory`; none if there is no such folder."""
        selector = fs.FileSelector(
            f"{self._base}/{directory}", allow_not_found=True, recursive=True
        )
        found = self._files.get_file_info(selector)
        return [f.path[len(self._base) + 1 :] for f in found if f.type == fs.FileType.File]

    def sizes(self, path: str) -> tuple[int, int]:
        """Return (rows, bytes) of a Parquet file."""
        full = f"{self._base}/{path}"
        with self._files.open_input_file(full) as source:
            return pq.ParquetFile(source).metadata.num_rows, source.size()

    def parquet(self, path: str) -> pq.ParquetFile:
        """Open a Parquet file; the caller closes it."""
        return pq.ParquetFile(f"{self._base}/{path}", filesystem=self._files)

    def bounds(self, path: str, column: str) -> tuple[int, int] | None:
        """Return the least and greatest value of an integer column; None if they are not known."""
        with self._files.open_input_file(f"{self._base}/{path}") as source:
            metadata = pq.ParquetFile(source).metadata
        ends: list[int] = []
        for group in range(metadata.num_row_groups):
            parts = [metadata.row_group(group).column(i) for i in range(metadata.num_columns)]
            for part in parts:
                if part.path_in_schema == column:
                    known = part.statistics if part.is_stats_set else None
                    # Not `min` to find out: an infinite date is none of Python's.
                    if known is None or not known.has_min_max or not _counts(known):
                        return None
                    ends += [known.min, known.max]
        return (min(ends), max(ends)) if ends else None

    def version_files(self, path: str, version: int, column: str) -> Sequence[VersionFile]:
        """Return the data files of a version of a Delta table, with the bounds of one column.

        A version never changes: it is asked for once.
        """
        wanted = (path, version, column)
        if wanted not in self._versions:
            if len(self._versions) >= KEPT_VERSIONS:
                self._versions.clear()
            self._versions[wanted] = self._ask_version(path, version, column)
        return self._versions[wanted]

    def _ask_version(self, path: str, version: int, column: str) -> Sequence[VersionFile]:
        # Here, and not above: page tasks load this module in each of their processes.
        from deltalake import DeltaTable

        options = self.delta_options()
        table = DeltaTable(self.uri(path), version=version, storage_options=options)
        actions = pa.table(table.get_add_actions(flatten=True))
        names = actions.column_names
        ends = [f"{end}.{column}" for end in ("min", "max")]
        nothing = [None] * actions.num_rows
        # Only integers' bounds are looked at, and an infinite date is none of Python's.
        known = all(n in names and pa.types.is_integer(actions.column(n).type) for n in ends)
        low, high = (actions.column(n).to_pylist() if known else nothing for n in ends)
        paths = actions.column("path").to_pylist()
        sizes = actions.column("size_bytes").to_pylist()
        return [
            VersionFile(f"{path}/{unquote(p)}", size, a, b)
            for p, size, a, b in zip(paths, sizes, low, high, strict=True)
        ]

    def read_text(self, path: str) -> str:
        with self._files.open_input_file(f"{self._base}/{path}") as source:
            return bytes(source.read()).decode()

    def delete(self, path: str) -> None:
        """Delete a file; one that is gone already is no error. Its folder goes once it is empty."""
        full = f"{self._base}/{path}"
        if self._is_gone(full):
            return
        self._files.delete_file(full)
        if self.is_local:
            _remove_empty_folder(os.path.dirname(full))
        else:
            self._remove_markers(os.path.dirname(path))

    def delete_folder(self, directory: str) -> None:
        """Delete all that is below `directory`, which is the caller's alone; and that too."""
        full = f"{self._base}/{directory}"
        if not self._is_gone(full):
            self._files.delete_dir(full)
        if self.is_local:
            _remove_empty_folder(os.path.dirname(full))
        else:
            self._remove_markers(os.path.dirname(directory))

    def _remove_markers(self, folder: str) -> None:
        """Delete the empty objects that pyarrow puts in the place of a folder's last file."""
        while folder:
            full = f"{self._base}/{folder}"
            if self._is_gone(full) or self._files.get_file_info(fs.FileSelector(full)):
                return
            self._files.delete_dir(full)
            folder = os.path.dirname(folder)

    def _is_gone(self, full: str) -> bool:
        return bool(self._files.get_file_info(full).type == fs.FileType.NotFound)


def _fsync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove_empty_folder(folder: str) -> None:
    try:
        os.rmdir(folder)
    except OSError as error:
        if error.errno not in (39, 66, 2):  # not empty (Linux, macOS), or gone
            raise


def _counts(known: Any) -> bool:
    """Whether a Parquet column's bounds are those of plain integers."""
    logical = known.logical_type.type
    return known.physical_type in ("INT32", "INT64") and logical in ("NONE", "INT")
