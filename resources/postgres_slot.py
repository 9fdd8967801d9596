"""Reading a replication slot: messages in, confirmations out, over one walsender connection.

The server ends a connection that says nothing for `wal_sender_timeout` (60 s by default), and a
consumer may well be busy that long with a checkpoint. So a small thread of the reader repeats the
last confirmed position every few seconds, whatever the consumer does; it never confirms anything
that `confirm` was not told. The server handles these words even while its own output is stuck
because nobody reads. A lock keeps the thread and the consumer from using the connection at once.
"""

import contextlib
import select
import threading
import time
from collections.abc import Iterator

import psycopg
from psycopg import sql

from resources.postgres import SlotLost
from resources.postgres_link import Link, SourceBusy, SourceRefused, SourceUnreachable
from resources.postgres_walsender import Walsender

FEEDBACK_SECONDS = 5.0
MAX_MESSAGES = 50_000
MAX_BYTES = 32 * 1024 * 1024
_COMMIT, _MESSAGE = b"CM"


class SlotInUse(SourceBusy):
    """Somebody else reads the slot; two readers would each get half."""


class SlotReader:
    """Reads one slot; one thread may poll and confirm at a time."""

    def __init__(self, link: Link, *, feedback_s: float = FEEDBACK_SECONDS) -> None:
        self._link = link
        self._feedback_s = feedback_s
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None
        self._cursor: Walsender | None = None
        self._confirmed = 0
        self._last_feedback = 0.0
        self._between_transactions = True
        self._last_data_end = 0
        self._quiet_at: int | None = None

    def start(self, slot: str, publication: str, from_lsn: int, *, binary: bool = True) -> None:
        """Begin with the first transaction whose commit is at or after `from_lsn`.

        The server begins at what was confirmed if that is later. With `binary` values come in the
        binary form of their types, which is faster, else as the text that Postgres prints.
        """
        assert self._cursor is None, "started once"
        names = '"' + publication.replace('"', '""') + '"'
        command = sql.SQL(
            "START_REPLICATION SLOT {slot} LOGICAL {at} (proto_version '1', "
            "publication_names {names}, binary {binary}, messages 'true')"
        ).format(
            binary=sql.Literal(str(binary).lower()),
            slot=sql.Identifier(slot),
            at=sql.SQL(f"{from_lsn >> 32:X}/{from_lsn & 0xFFFFFFFF:X}"),
            names=sql.Literal(names),
        )
        with self._errors_named(slot):
            # Decoding a large transaction may take the walsender long; nothing of it is ours.
            dsn = self._link.dsn(statement_timeout=0)
            self._cursor = Walsender(dsn, command.as_bytes(None))
        self._last_feedback = time.monotonic()
        self._thread = threading.Thread(
            target=self._keep_alive, name=f"keep-alive of slot {slot}", daemon=True
        )
        self._thread.start()

    def poll(
        self,
        timeout_s: float,
        *,
        max_messages: int = MAX_MESSAGES,
        max_bytes: int = MAX_BYTES,
    ) -> list[tuple[int, bytes]]:
        """Return what has arrived, as (lsn, payload); wait at most `timeout_s` for the first.

        At least one message is returned if there is one, however large it is.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            with self._lock, self._errors_named():
                found = self._drain(max_messages, max_bytes)
                self._feedback_if_due()
            left = deadline - time.monotonic()
            if found or left <= 0:
                return found
            # Outside the lock: waiting must not keep the keep-alive thread from speaking.
            select.select([self._open()], [], [], min(left, self._feedback_s))

    def keepalive_position(self) -> int | None:
        """Return the server's position if it said so after its last change, else None.

        Every transaction that committed before it has been handed out by `poll`, and none is
        half handed out; so once what was handed out is stored, it may be committed and confirmed.
        """
        return self._quiet_at if self._between_transactions else None

    def confirm(self, lsn: int) -> None:
        """Tell the server that everything before `lsn` is stored; it may forget it."""
        with self._lock, self._errors_named():
            self._confirmed = max(self._confirmed, lsn)
            self._send_feedback()

    def close(self) -> None:
        """Let go of the slot. Nothing is confirmed by this."""
        self._closing.set()
        if self._thread is not None:
            self._thread.join()
        with self._lock:
            if self._cursor is not None:
                self._cursor.close()
            self._cursor = None

    def __enter__(self) -> "SlotReader":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _drain(self, max_messages: int, max_bytes: int) -> list[tuple[int, bytes]]:
        found: list[tuple[int, bytes]] = []
        cursor = self._open()
        read, append, size = cursor.read_message, found.append, 0
        last = None
        for _ in range(max_messages):
            message = read()
            if message is None:
                break
            last = message
            payload = message.payload
            append((message.data_start, payload))
            size += len(payload)
            if size >= max_bytes:
                break
        if last is not None:
            self._between_transactions = _ends_transaction(found[-1][1])
            self._last_data_end, self._quiet_at = last.wal_end, None
        # A keep-alive is answered by the connection and only moves `wal_end`: if that is past the
        # last message, one came after it.
        if cursor.wal_end > self._last_data_end:
            self._quiet_at = cursor.wal_end
        return found

    def _open(self) -> Walsender:
        if self._cursor is None:
            raise SourceUnreachable("the slot's reader is not started, or closed")
        return self._cursor

    def _keep_alive(self) -> None:
        while not self._closing.wait(self._feedback_s / 2):
            with self._lock:
                try:
                    self._feedback_if_due()
                except psycopg.Error:
                    return  # the next poll meets the same error and reports it

    def _feedback_if_due(self) -> None:
        if time.monotonic() - self._last_feedback >= self._feedback_s:
            self._send_feedback()

    def _send_feedback(self) -> None:
        self._open().confirm(self._confirmed)
        self._last_feedback = time.monotonic()

    @contextlib.contextmanager
    def _errors_named(self, slot: str = "") -> Iterator[None]:
        try:
            yield
        except psycopg.errors.ObjectInUse as error:
            raise SlotInUse(f"{_text(error)}; stop the other reader of slot {slot}") from error
        except psycopg.errors.ObjectNotInPrerequisiteState as error:
            raise SlotLost(slot) from error
        except psycopg.errors.UndefinedObject as error:
            raise SourceRefused(
                f"{self._link.where}: {_text(error)}; run the pipeline's prepare step again"
            ) from error
        except psycopg.Error as error:
            where = self._link.where
            raise SourceUnreachable(f"lost the stream of {where}: {_text(error)}") from error


def _ends_transaction(payload: bytes) -> bool:
    """Say whether no transaction is open after this message."""
    # A message outside any transaction (flags 0) is only sent between transactions.
    return payload[0] == _COMMIT or (payload[0] == _MESSAGE and payload[1] == 0)


def _text(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
