"""Tables and views as inputs of your own Dagster assets, all of a run as of one epoch.

    @dg.asset(ins={"orders": dg.AssetIn(["shop", "orders"], input_manager_key="tidegate")})
    def report(orders: DataFrame) -> None: ...

An input annotated as `pyarrow.Table` or `pandas.DataFrame` comes whole, in memory; any other is a
Spark DataFrame. The first input of a run chooses the epoch of its pipeline and writes it on the
run as a tag: later inputs and steps, in whatever process, read the same. `as_of` (of the manager,
or in an input's metadata) chooses another. What is read is held until the step's process lets go.
"""

from contextlib import ExitStack
from typing import Any

import dagster as dg
import pandas as pd
import pyarrow as pa
from pydantic import PrivateAttr

from ops.common.epoch import show
from ops.common.errors import ConfigError
from orchestration import reading
from orchestration.errors import error_boundary
from orchestration.keys import epoch_tag
from orchestration.opened import DeploymentResource

AS_OF = "as_of"


class TidegateIOManager(dg.ConfigurableIOManager):
    """Reads what Tidegate keeps; it writes nothing, since only a pipeline writes its tables."""

    deployment: dg.ResourceDependency[DeploymentResource]
    as_of: str | None = None
    """An epoch's number or an ISO time; the newest at the run's first input if not given."""
    _held: ExitStack = PrivateAttr(default_factory=ExitStack)

    def load_input(self, context: dg.InputContext) -> Any:
        name = ".".join(context.asset_key.path)
        with error_boundary():
            if len(context.asset_key.path) != 2:
                raise ConfigError(f"{name} is no table or view; name the asset pipeline/relation")
            held = reading.held(self.deployment.open(), [name], as_of=self._as_of(context))
            kept = self._held.enter_context(held)
            self._remember(context, kept.epoch)
            frame = kept.frames[name]
            context.add_input_metadata({"epoch": kept.epoch, "as_of": show(kept.epoch)})
            wanted = context.dagster_type.typing_type
            if wanted is pa.Table:
                return frame.toArrow()
            return frame.toPandas() if wanted is pd.DataFrame else frame

    def handle_output(self, context: dg.OutputContext, obj: object) -> None:
        with error_boundary():
            raise ConfigError(
                "tidegate's IO manager only reads: give it as an input's `input_manager_key`, and "
                "the asset an IO manager of its own"
            )

    def teardown_after_execution(self, context: dg.InitResourceContext) -> None:
        self._held.close()

    def _as_of(self, context: dg.InputContext) -> str | None:
        given = (context.definition_metadata or {}).get(AS_OF)
        if given is not None:
            return str(given)
        return self._chosen(context) or self.as_of

    def _chosen(self, context: dg.InputContext) -> str | None:
        """Return the epoch that an earlier input of this run has read the pipeline at."""
        run_id = _run_id(context)
        run = context.instance.get_run_by_id(run_id) if run_id else None
        return run.tags.get(epoch_tag(context.asset_key.path[0])) if run else None

    def _remember(self, context: dg.InputContext, epoch: int) -> None:
        run_id = _run_id(context)
        if run_id and AS_OF not in (context.definition_metadata or {}):
            tag = epoch_tag(context.asset_key.path[0])
            context.instance.add_run_tags(run_id, {tag: str(epoch)})


def _run_id(context: dg.InputContext) -> str | None:
    """Return the run's id; a value loaded outside of a run has none."""
    try:
        return context.step_context.run_id
    except dg.DagsterInvariantViolationError:
        return None
