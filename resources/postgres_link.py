"""A way to a Postgres server: how to connect, what an error of it means.

Every connection carries `application_name=tidegate`, a connect time-out, a statement time-out and
the settings of SESSION, under which a value is printed alike in pages and in the stream, and lives
for one call: nothing of ours stays open on the source between two steps.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.conninfo import make_conninfo
from psycopg.rows import dict_row

from resources.errors import ConfigError, TransientError
from resources.settings import SecretStr
from resources.sql_text import read_statement

CONNECT_SECONDS = 10
STATEMENT_SECONDS = 60
LOCK_SECONDS = 10
SESSION: Mapping[str, str | int] = {
    "TimeZone": "UTC",
    "DateStyle": "ISO",
    "IntervalStyle": "postgres",
    "bytea_output": "hex",
    # As few digits as tell a float from all others.
    "extra_float_digits": 1,
}

_WRONG = (
    "password authentication failed",
    "no password supplied",
    "does not exist",
    "no pg_hba.conf entry",
    "is not permitted to log in",
)


class SourceUnreachable(TransientError):
    """The server does not answer, or the connection was lost on the way."""


class SourceBusy(TransientError):
    """A statement, or the wait for a lock or for other transactions, took too long."""


class SourceRefused(ConfigError):
    """The server or the table is not set up for this; the message says what to run."""


@dataclass(frozen=True)
class Link:
    """libpq's words (`host`, `port`, `user`, `password`, `dbname`, `sslmode`…) and their values."""

    conninfo: Mapping[str, str | int | SecretStr]

    def __repr__(self) -> str:
        shown = {k: v for k, v in self.conninfo.items() if k in ("host", "port", "user", "dbname")}
        return f"{type(self).__name__}({shown})"

    @property
    def where(self) -> str:
        """Name the server for messages."""
        host, port = self.conninfo.get("host", "localhost"), self.conninfo.get("port", 5432)
        return f"{self.conninfo.get('dbname', 'postgres')} at {host}:{port}"

    def parameters(self, **settings: str | int) -> dict[str, str]:
        """Return what to connect with, secrets included; `settings` are set for the session."""
        given = {
            name: value.reveal() if isinstance(value, SecretStr) else str(value)
            for name, value in self.conninfo.items()
        }
        options = [
            given.get("options", ""),
            *(f"-c {name}={value}" for name, value in {**SESSION, **settings}.items()),
        ]
        return {
            "connect_timeout": str(CONNECT_SECONDS),
            "keepalives_idle": "30",
            **given,
            "application_name": "tidegate",
            "client_encoding": "UTF8",
            "options": " ".join(filter(None, options)),
        }

    def dsn(self, **settings: str | int) -> str:
        """Return the same as one string, for drivers that want one. It holds the password."""
        return make_conninfo("", **self.parameters(**settings))

    @contextmanager
    def session(self, *, statement_seconds: float = STATEMENT_SECONDS) -> Iterator["Session"]:
        """Open a connection in autocommit for the time of the block."""
        with self.errors_named():
            dsn = self.dsn(
                statement_timeout=int(statement_seconds * 1000), lock_timeout=LOCK_SECONDS * 1000
            )
            with psycopg.connect(
                dsn, autocommit=True, prepare_threshold=None, row_factory=dict_row
            ) as connection:
                yield Session(connection)

    @contextmanager
    def errors_named(self) -> Iterator[None]:
        """Turn the driver's errors into ours."""
        try:
            yield
        except (psycopg.errors.QueryCanceled, psycopg.errors.LockNotAvailable) as error:
            raise SourceBusy(
                f"{self.where}: {_first_line(error)}; it will be tried again"
            ) from error
        except psycopg.errors.InsufficientPrivilege as error:
            raise SourceRefused(
                f"{self.where}: {_first_line(error)}; grant it to {self._user}"
            ) from error
        except (psycopg.OperationalError, psycopg.InterfaceError) as error:
            text = _first_line(error)
            if error.sqlstate is None and any(wrong in str(error) for wrong in _WRONG):
                raise SourceRefused(f"cannot connect to {self.where}: {text}") from error
            raise SourceUnreachable(f"cannot talk to {self.where}: {text}") from error

    @property
    def _user(self) -> str:
        return str(self.conninfo.get("user", "the source's user"))


@dataclass(frozen=True, slots=True)
class Session:
    """Named statements of `sql/postgres` on one connection."""

    connection: psycopg.Connection[dict[str, Any]]

    def rows(self, name: str, **values: Any) -> list[dict[str, Any]]:
        # The text comes from our own sql/ folder; values are bound.
        return self.connection.execute(
            read_statement(f"postgres/{name}").encode(), values
        ).fetchall()

    def row(self, name: str, **values: Any) -> dict[str, Any] | None:
        found = self.rows(name, **values)
        return found[0] if found else None

    def the_row(self, name: str, **values: Any) -> dict[str, Any]:
        found = self.row(name, **values)
        assert found is not None, f"{name} always returns a row"
        return found

    def execute_named(
        self, name: str, **identifiers: psycopg.sql.Composable
    ) -> list[dict[str, Any]]:
        """Run a statement whose `{placeholders}` are identifiers."""
        cursor = self.connection.execute(compose(name, **identifiers))
        return cursor.fetchall() if cursor.description else []


def compose(name: str, **parts: psycopg.sql.Composable) -> psycopg.sql.Composed:
    """Put quoted parts into a statement of `sql/postgres`."""
    text: Any = read_statement(f"postgres/{name}")
    return psycopg.sql.SQL(text).format(**parts)


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
