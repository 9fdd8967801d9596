"""The lake: Parquet files and Delta tables under one root, local or any URI pyarrow understands.

Only what an object store can do: write whole files, list, delete. No rename, no append.
"""

import os
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs


class Lake:
    """`root` is a path or a URI."""

    def __init__(self, root: str) -> None:
        self.root = root.rstrip("/")
        if "://" in self.root:
            self._files, self._base = fs.FileSystem.from_uri(self.root)
        else:
            self.root = os.path.abspath(self.root)
            self._files, self._base = fs.LocalFileSystem(), self.root

    def __repr__(self) -> str:
        return f"Lake({self.root!r})"

    def uri(self, path: str) -> str:
        """Return where Spark finds `path`."""
        return f"{self.root}/{path}"

    def write(self, path: str, table: Any) -> int:
        """Write an Arrow table as one Parquet file and return its size in bytes."""
        assert isinstance(table, pa.Table)
        return write_parquet(self._files, f"{self._base}/{path}", table)

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

    def delete(self, path: str) -> None:
        """Delete a file; one that is gone already is no error. Empty local folders go with it."""
        full = f"{self._base}/{path}"
        if self._files.get_file_info(full).type == fs.FileType.NotFound:
            return
        self._files.delete_file(full)
        if isinstance(self._files, fs.LocalFileSystem):
            _remove_empty_folder(os.path.dirname(full))


def write_parquet(files: fs.FileSystem, path: str, table: pa.Table) -> int:
    """Write one Parquet file so that it outlives the host; shipped to Spark tasks as it is."""
    local = isinstance(files, fs.LocalFileSystem)
    if local:
        os.makedirs(os.path.dirname(path), exist_ok=True)
    with files.open_output_stream(path) as sink:
        pq.write_table(table, sink, compression="zstd", compression_level=1)
    if local:
        # A committed epoch names this file: it must survive a power cut as the commit does.
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    return int(files.get_file_info(path).size)


def _remove_empty_folder(folder: str) -> None:
    try:
        os.rmdir(folder)
    except OSError as error:
        if error.errno not in (39, 66, 2):  # not empty (Linux, macOS), or gone
            raise
