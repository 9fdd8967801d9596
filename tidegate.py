"""Tidegate from Python: the tables and views of a deployment as Spark DataFrames.

    import tidegate

    orders = tidegate.read("orders")
    orders, revenue = tidegate.read(["orders", "revenue"], as_of="2026-03-01T12:00")

The deployment is the one that TIDEGATE_HOME and the other variables name (resources/settings.py).
What was read stays readable until `tidegate.close()` or the end of the process. A program that
runs for long reads in a block instead:

    with tidegate.held(["orders", "revenue"]) as reading:
        reading.epoch, reading.frames["orders"].count()
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import overload

from pyspark.sql import DataFrame

from orchestration import reading
from orchestration.opened import close_opened, keep_open, opened_deployment
from orchestration.reading import AsOf, Held
from resources.settings import load_settings

__all__ = ["AsOf", "Held", "close", "held", "read"]


@overload
def read(names: str, as_of: AsOf = None) -> DataFrame: ...
@overload
def read(names: Sequence[str], as_of: AsOf = None) -> list[DataFrame]: ...
def read(names: str | Sequence[str], as_of: AsOf = None) -> DataFrame | list[DataFrame]:
    """Return one relation, or several as of the same epoch.

    `as_of` is an epoch or a time (a datetime or ISO text; UTC unless it says otherwise).
    """
    if isinstance(names, str):
        return read([names], as_of)[0]
    frames = keep_open(held(names, as_of)).frames
    return [frames[name] for name in names]


def held(names: Sequence[str], as_of: AsOf = None) -> AbstractContextManager[Held]:
    """Hold one epoch of several relations for the time of a block."""
    return reading.held(opened_deployment(load_settings()), names, as_of=as_of)


def close() -> None:
    """Let go of all that was read, of Spark and of the control store."""
    close_opened()
