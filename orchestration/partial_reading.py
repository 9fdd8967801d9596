"""Read a table while one reader fills it: exactly the source as of an epoch, up to a key.

The key is the last one of the newest commit whose watermark message the stream has passed: of all
keys up to it, the pages and the log together say what the source says at the committed position.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from ops.backfill.cdc.cdc_backfill import BYTEWISE, STATE
from ops.backfill.cdc.mark_cdc_chunk_column import is_passed, shares_order
from ops.backfill.cdc.state import CdcBackfillState
from ops.common.errors import ConfigError
from ops.common.table.pins import pinned
from ops.common.table.state_table import StateTable
from ops.planner.apply import main_graph
from orchestration.deployment import Deployment
from orchestration.reading import Held, NotReadable, find


@contextmanager
def held_partial(deployment: Deployment, name: str) -> Iterator[Held]:
    """Give what may be read of a table under backfill v1, pinned for the block."""
    relation = find(deployment, name)
    if relation.kind != "table":
        raise ConfigError(f"{name} is a view; only a table that is being filled is read in part")
    if relation.live_since is not None:
        raise ConfigError(f"{name} is live; read it without --partial")
    if relation.state == "Stopped":
        raise NotReadable(relation)
    # Before the pin: the log as of the pinned epoch then holds all that these pages have seen.
    passed = deployment.store.query("select_passed_epoch", graph=relation.graph)
    if not passed:
        raise ConfigError(
            f"nothing of {name} can be read in part yet: no page of a backfill with one reader "
            "(backfill.parallelism = '0') has been passed by the stream"
        )
    columns, said = relation.schema.key_columns, passed[0]["offsets"]
    if not shares_order(columns, said[BYTEWISE]):
        key = ", ".join(f"{c.name} {c.type}" for c in columns)
        raise ConfigError(
            f"{name} cannot be read in part: Spark puts its key ({key}) into another order than "
            'its source does; integers, dates, uuids and text COLLATE "C" it can'
        )
    state = CdcBackfillState.from_row(said[STATE], key_width=len(columns))
    with pinned(
        deployment.store,
        [relation],
        main_graph=main_graph(relation.pipeline),
        failpoint=deployment.failpoint,
    ) as found:
        contents = found.contents[relation.id]
        pages = tuple(f for f in contents.snapshots if f.epoch <= passed[0]["epoch"])
        table = StateTable(deployment.spark(), deployment.lake, relation)
        frame = table.read(replace(contents, snapshots=pages))
        upto = ", ".join(state.position or ("none yet",))
        yield Held(found.epoch, {name: frame.where(is_passed(columns, state.position))}, upto)
