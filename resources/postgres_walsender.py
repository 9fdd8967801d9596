"""The replication protocol on one connection: messages out of it, positions into it.

libpq's COPY calls, and nothing said that we were not told to say. (psycopg2's own reader moves the
position it confirms to that of a keep-alive as soon as all before it is confirmed. That position is
committed nowhere yet, and after a crash the slot stands past what is committed.)
"""

import struct
import time
from typing import NamedTuple

import psycopg
from psycopg import pq
from psycopg.errors import error_from_result

_DATA, _KEEPALIVE, _STATUS = b"wkr"
_HEADER = struct.Struct("!BQQQ")
_ALIVE = struct.Struct("!BQQB")
_UPDATE = struct.Struct("!BQQQQB")
# Microseconds are counted from 2000 there.
_EPOCH_SECONDS = 946_684_800


class WalMessage(NamedTuple):
    data_start: int
    wal_end: int
    payload: bytes


class Walsender:
    """A connection in which replication has been started. Not safe for two threads at once."""

    def __init__(self, dsn: str, command: bytes) -> None:
        self.wal_end = 0
        """How far the server was when it last said something."""
        self._confirmed = 0
        self._pg = pq.PGconn.connect(f"{dsn} replication=database".encode())
        if self._pg.status != pq.ConnStatus.OK:
            raise psycopg.OperationalError(self._pg.get_error_message())
        result = self._pg.exec_(command)
        if result.status != pq.ExecStatus.COPY_BOTH:
            raise error_from_result(result)

    def fileno(self) -> int:
        return self._pg.socket

    def read_message(self) -> WalMessage | None:
        """Return the next message that is here; None if there is none yet."""
        while True:
            size, data = self._pg.get_copy_data(1)
            if size == 0:
                self._pg.consume_input()
                size, data = self._pg.get_copy_data(1)
            if size == 0:
                return None
            if size < 0:
                raise self._why_ended()
            if data[0] == _DATA:
                _, start, self.wal_end, _ = _HEADER.unpack_from(data)
                return WalMessage(start, self.wal_end, bytes(data[_HEADER.size :]))
            if data[0] != _KEEPALIVE:
                raise psycopg.OperationalError(f"unknown replication message {bytes(data[:1])!r}")
            _, self.wal_end, _, wants_reply = _ALIVE.unpack_from(data)
            if wants_reply:
                self.confirm(self._confirmed)

    def confirm(self, lsn: int) -> None:
        """Say that everything before `lsn` is stored, and nothing more."""
        self._confirmed = max(self._confirmed, lsn)
        now = int((time.time() - _EPOCH_SECONDS) * 1_000_000)
        self._pg.put_copy_data(_UPDATE.pack(_STATUS, *[self._confirmed] * 3, now, 0))
        self._pg.flush()

    def close(self) -> None:
        self._pg.finish()

    def _why_ended(self) -> psycopg.Error:
        result = self._pg.get_result()
        if result is not None and result.status == pq.ExecStatus.FATAL_ERROR:
            return error_from_result(result)
        return psycopg.OperationalError("the server has ended the stream")
