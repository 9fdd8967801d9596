"""What a pipeline's SQL asks for, as plain values: what was parsed, and what it is bound to.

Parsing opens no connection, so a `*` stands for columns nobody knows yet; binding fills them in
from the source's catalog and from the upstream of a view.

Pure.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from ops.common.errors import ConfigError
from ops.common.schema import Column
from ops.planner.query import ViewQuery

DEFAULT_VNODES = 16


@dataclass(frozen=True, slots=True)
class Secret:
    """A name to be looked up where the settings say; never the value."""

    name: str


Option = str | Secret


@dataclass(frozen=True, slots=True)
class SourcePlan:
    pipeline: str
    name: str
    connector: str
    options: Mapping[str, Option] = field(repr=False)
    """May hold a password in clear text, so that no repr shows it."""
    definition: str

    @property
    def slot(self) -> str:
        return _known(self.options.get("slot.name", f"tidegate_{self.pipeline}_{self.name}"))

    @property
    def publication(self) -> str:
        return _known(self.options.get("publication.name") or self.slot)

    def resolved(self, look_up: Callable[[str], str]) -> "SourcePlan":
        """Return a copy with each SECRET replaced by what `look_up` gives for its name."""
        options = {
            option: look_up(value.name) if isinstance(value, Secret) else value
            for option, value in self.options.items()
        }
        return replace(self, options=options)


def _known(option: Option) -> str:
    if isinstance(option, Secret):
        raise ConfigError(f"SECRET {option.name} has not been looked up yet")
    return option


@dataclass(frozen=True, slots=True)
class TablePlan:
    """`columns` is None for `(*)`: all columns of the source's table.

    `parallelism` 0 is the backfill with one reader (v1); `page_rows` is the most a page may have.
    With `text_numerics` its numeric columns are kept as the text Postgres prints.
    """

    pipeline: str
    name: str
    source: str
    external_schema: str
    external_table: str
    columns: tuple[Column, ...] | None
    key: tuple[str, ...] | None
    definition: str
    parallelism: int = 2
    rows_per_split: int = 100_000
    page_rows: int = 500_000
    vnode_count: int = DEFAULT_VNODES
    even_splits: bool = True
    split_column: int = 0
    """Which of the key's columns the splits are cut by; it should lead an index."""
    snapshot: bool = True
    snapshot_filter: str | None = None
    """A condition in the source's SQL: other rows are not read, though their changes arrive."""
    text_numerics: bool = False
    excluded: tuple[str, ...] = ()
    """Columns that `(*)` does not mean."""


@dataclass(frozen=True, slots=True)
class ViewPlan:
    """`query` is what was parsed; which columns and types it means is known when it is bound."""

    pipeline: str
    name: str
    upstream: str
    query: ViewQuery
    definition: str
    vnode_count: int = DEFAULT_VNODES


@dataclass(frozen=True, slots=True)
class PipelinePlan:
    name: str
    sources: tuple[SourcePlan, ...] = ()
    tables: tuple[TablePlan, ...] = ()
    views: tuple[ViewPlan, ...] = ()
    path: str = field(default="", compare=False)

    def table(self, name: str) -> TablePlan | None:
        return next((t for t in self.tables if t.name == name), None)

    def view(self, name: str) -> ViewPlan | None:
        return next((v for v in self.views if v.name == name), None)

    def source(self, name: str) -> SourcePlan:
        return next(s for s in self.sources if s.name == name)

    def views_on(self, upstream: str) -> tuple[ViewPlan, ...]:
        return tuple(v for v in self.views if v.upstream == upstream)
