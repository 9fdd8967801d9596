"""Pipelines on the shared servers, and processes that run them and are gone with their test."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from resources.embedded.postgres import RunningPostgres
from resources.settings import Settings
from tests.support.driver import Child, Job, start
from tests.support.pipeline import TestPipeline, new_pipeline

MakePipeline = Callable[..., TestPipeline]
Launch = Callable[[Job], Child]


@pytest.fixture
def make_pipeline(
    postgres: RunningPostgres, session_settings: Settings, spark_remote: str, tmp_path: Path
) -> Iterator[MakePipeline]:
    """Takes what `new_pipeline` takes by keyword."""
    with ExitStack() as stack:
        made = partial(new_pipeline, postgres, session_settings, spark_remote, tmp_path)

        def make(**wanted: Any) -> TestPipeline:
            return stack.enter_context(made(**wanted))

        yield make


@pytest.fixture
def launch(make_pipeline: MakePipeline) -> Iterator[Launch]:
    """Asks for `make_pipeline`, so that the processes end before their databases do."""
    children: list[Child] = []

    def run(job: Job) -> Child:
        children.append(start(job))
        return children[-1]

    yield run
    for child in children:
        child.kill()


@pytest.fixture
def make_unfilled(
    postgres: RunningPostgres, session_settings: Settings, tmp_path: Path
) -> Iterator[MakePipeline]:
    """The same for pipelines that need no Spark, since nothing of them is filled."""
    with ExitStack() as stack:

        def pipeline(**wanted: Any) -> TestPipeline:
            given = {"rows": 50, "views": {}, **wanted}
            made = new_pipeline(postgres, session_settings, "sc://nowhere", tmp_path / "p", **given)
            return stack.enter_context(made)

        yield pipeline
