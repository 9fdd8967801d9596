"""Read tables and views as people do: by name, several at one epoch, held while they are read.

    held(["orders", "revenue"])                    the newest epoch that all members in step share
    held(["orders"], as_of=372840931475456)        that epoch, or `EpochGone` with the nearest one
    held(["orders"], as_of="2026-03-01T12:00")     the newest epoch committed at or before that time

A Spark DataFrame reads its files when it is asked for rows: the pin must last until then.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

import pyarrow as pa
from pyspark.sql import DataFrame

from ops.common.epoch import Epoch, epoch_at, show
from ops.common.errors import ConfigError, RelationEnded
from ops.common.table.pins import Pinned, pinned
from ops.common.table.relation import Relation, find_relation, relations_of
from ops.common.table.state_table import StateTable
from ops.planner.apply import main_graph
from orchestration.deployment import Deployment
from orchestration.running import committed_epoch

LOOKS = 5
AsOf = int | datetime | str | None
"""An epoch, a time (UTC unless it says otherwise), either of them as text, or the newest."""


class NotReadable(ConfigError):
    def __init__(self, relation: Relation) -> None:
        why = f": {relation.why}" if relation.why else ""
        super().__init__(
            f"{relation.name} cannot be read while it is {relation.state}{why}; "
            f"`tidegate status` shows how far it is"
        )


class LacksChanges(ConfigError):
    def __init__(self, relation: Relation, epoch: Epoch, after: Epoch, upto: int | None) -> None:
        way = (
            f"`tidegate repair {relation.pipeline}` brings them in"
            if upto is None
            else f"they are there from epoch {upto} on"
        )
        super().__init__(
            f"{relation.name} lacks changes of its source at epoch {epoch}; {way}, and epoch "
            f"{after} is the last before the gap"
        )


@dataclass(frozen=True, slots=True)
class Held:
    """`frames` are by the names that were asked for, all as of `epoch`."""

    epoch: Epoch
    frames: Mapping[str, DataFrame]
    upto: str = ""
    """For a table that is being filled: the key up to which it may be read."""

    @property
    def title(self) -> str:
        upto = f", up to key {self.upto}" if self.upto else ""
        return f"as of {show(self.epoch)} (epoch {self.epoch}){upto}"


@contextmanager
def held(deployment: Deployment, names: Sequence[str], *, as_of: AsOf = None) -> Iterator[Held]:
    """Give the visible columns of each relation as of one epoch, pinned for the block."""
    with ExitStack() as stack:
        relations, found = _pin(deployment, names, as_of, stack)
        for name, relation in relations.items():
            _require_readable(deployment, name, relation, found.epoch)
        spark, lake = deployment.spark(), deployment.lake
        frames = {
            name: StateTable(spark, lake, relation).read(found.contents[relation.id])
            for name, relation in relations.items()
        }
        yield Held(found.epoch, frames)


def _pin(
    deployment: Deployment, names: Sequence[str], as_of: AsOf, stack: ExitStack
) -> tuple[dict[str, Relation], Pinned]:
    """Look the names up and hold what they mean; again if that was swapped in between."""
    for left in reversed(range(LOOKS)):
        relations = {name: find(deployment, name) for name in names}
        pipeline = _shared_pipeline(relations)
        asked = None if as_of is None else _resolve(deployment, pipeline, as_of)
        holding = pinned(
            deployment.store,
            list(relations.values()),
            main_graph=main_graph(pipeline),
            as_of=asked,
            failpoint=deployment.failpoint,
        )
        try:
            return relations, stack.enter_context(holding)
        except RelationEnded:
            if not left:
                raise
    raise AssertionError("LOOKS is at least 1")


def rows(deployment: Deployment, name: str, *, as_of: AsOf = None) -> pa.Table:
    """Return a whole relation, in memory."""
    with held(deployment, [name], as_of=as_of) as reading:
        return reading.frames[name].toArrow()


def find(deployment: Deployment, name: str) -> Relation:
    """Return the relation called `name`, or `pipeline.name` where two pipelines have one."""
    pipeline, _, short = name.rpartition(".")
    written = deployment.pipelines()
    known = {row["name"] for row in deployment.store.query("select_pipelines")}
    found = [
        relation
        for named in sorted(known | written.keys())
        if pipeline in ("", named)
        for relation in relations_of(deployment.store, named)
        if relation.kind != "state"
    ]
    matching = [r for r in found if r.name == short]
    if not matching and any(
        r.name == short for plan in written.values() for r in (*plan.tables, *plan.views)
    ):
        raise ConfigError(f"{name} is not applied yet; `tidegate plan --apply` does it")
    if len(matching) > 1:
        choices = ", ".join(f"{r.pipeline}.{r.name}" for r in matching)
        raise ConfigError(f"{name} is ambiguous; write one of: {choices}")
    return find_relation(found, short)


def _shared_pipeline(relations: Mapping[str, Relation]) -> str:
    pipelines = {relation.pipeline for relation in relations.values()}
    if len(pipelines) == 1:
        return pipelines.pop()
    if not pipelines:
        raise ConfigError("name at least one table or view to read")
    raise ConfigError(
        f"{', '.join(relations)} are of several pipelines ({', '.join(sorted(pipelines))}), which "
        "share no epoch; read them one by one"
    )


def _resolve(deployment: Deployment, pipeline: str, as_of: int | datetime | str) -> Epoch:
    """Return the epoch that is meant; a time means the newest committed at or before it."""
    graph = main_graph(pipeline)
    wanted = parse_as_of(as_of) if isinstance(as_of, str) else as_of
    if isinstance(wanted, int):
        newest = committed_epoch(deployment, graph)
        if wanted > newest:
            raise ConfigError(f"epoch {wanted} is not committed yet; the newest is {newest}")
        return Epoch(wanted)
    # A time without a zone is UTC, as everything that Tidegate shows.
    moment = wanted if wanted.tzinfo else wanted.replace(tzinfo=UTC)
    latest = epoch_at(int(moment.timestamp() * 1000))
    row = deployment.store.query("select_epoch_before", graph=graph, latest=latest)[0]
    if row["epoch"] is None:
        first = show(Epoch(row["first"])) if row["first"] is not None else "none is committed yet"
        raise ConfigError(f"{pipeline} has no epoch at or before {moment}; its first is {first}")
    return Epoch(row["epoch"])


def _require_readable(deployment: Deployment, name: str, relation: Relation, epoch: Epoch) -> None:
    if not (relation.in_step or (relation.kind == "table" and relation.live_since is not None)):
        raise NotReadable(relation)
    if relation.live_since is not None and epoch < relation.live_since:
        since = relation.live_since
        raise ConfigError(
            f"{name} was not live at epoch {epoch}; it is readable from {since} on ({show(since)})"
        )

    for gap in deployment.store.query("select_gap", relation=relation.id, epoch=epoch):
        raise LacksChanges(relation, epoch, Epoch(gap["after_epoch"]), gap["upto_epoch"])


def parse_as_of(text: str) -> Epoch | datetime:
    """Read what stands after `--as-of`: an epoch's number, or a time in ISO form."""
    if text.isdigit():
        return Epoch(int(text))
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError(f"{text!r} is neither an epoch's number nor an ISO time") from None
