"""Read a table or view as people do: by name, at the newest epoch all settled members share."""

from datetime import UTC, datetime

from pyspark.sql import DataFrame

from ops.common.epoch import Epoch, epoch_at
from ops.common.errors import ConfigError
from ops.common.table.relation import Relation, contents, find_relation, relations_of
from ops.common.table.state_table import StateTable
from ops.planner.apply import main_graph
from orchestration.deployment import Deployment
from orchestration.running import committed_epoch


class NotReadable(ConfigError):
    def __init__(self, relation: Relation) -> None:
        why = f": {relation.why}" if relation.why else ""
        super().__init__(
            f"{relation.name} cannot be read while it is {relation.state}{why}; "
            f"`tidegate status` shows how far it is"
        )


def find(deployment: Deployment, name: str) -> Relation:
    """Return the relation called `name`, or `pipeline.name` where two pipelines have one."""
    pipeline, _, short = name.rpartition(".")
    found = [
        relation
        for plan in deployment.pipelines().values()
        if pipeline in ("", plan.name)
        for relation in relations_of(deployment.store, plan.name)
        if relation.kind != "state"
    ]
    matching = [r for r in found if r.name == short]
    if not matching and any(
        r.name == short
        for plan in deployment.pipelines().values()
        for r in (*plan.tables, *plan.views)
    ):
        raise ConfigError(f"{name} is not applied yet; `tidegate plan --apply` does it")
    if len(matching) > 1:
        choices = ", ".join(f"{r.pipeline}.{r.name}" for r in matching)
        raise ConfigError(f"{name} is ambiguous; write one of: {choices}")
    return find_relation(found, short)


def read(deployment: Deployment, name: str, *, as_of: Epoch | None = None) -> DataFrame:
    """Return a relation's visible columns as of an epoch; the newest if none is given."""
    relation = find(deployment, name)
    readable = relation.in_step or (relation.kind == "table" and relation.live_since is not None)
    if not readable:
        raise NotReadable(relation)
    epoch = (
        as_of if as_of is not None else committed_epoch(deployment, main_graph(relation.pipeline))
    )
    if relation.live_since is not None and epoch < relation.live_since:
        raise ConfigError(
            f"{name} was not live at epoch {epoch}; it is readable from {relation.live_since} on"
        )
    table = StateTable(deployment.spark(), deployment.lake, relation)
    return table.read(contents(deployment.store, relation, epoch))


def parse_as_of(text: str) -> Epoch:
    """Read `--as-of`: an epoch's number, or a time in ISO form."""
    if text.isdigit():
        return Epoch(int(text))
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError(f"{text!r} is neither an epoch's number nor an ISO time") from None
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return epoch_at(int(aware.timestamp() * 1000))
