"""Every shape of view, kept by changes, equals its own SQL run by Postgres at every epoch."""

import psycopg
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from resources.lake import Lake
from tests.support.control import Place, new_place
from tests.support.model import Wish
from tests.support.view_shapes import WISHES, Shapes

COLLECTED = "ops.aggregate.view_executor.COLLECTED_ROWS"


@settings(
    max_examples=1,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
    print_blob=True,
)
@given(st.lists(WISHES, min_size=2, max_size=2))
def test_random_histories(
    place: Place, lake: Lake, spark: SparkSession, database: str, history: list[list[Wish]]
) -> None:
    with psycopg.connect(database, autocommit=True) as judge:
        shapes = Shapes.create(new_place(place.store), lake, spark, judge)
        assert shapes.differing() == {}
        for number, wanted in enumerate(history):
            with pytest.MonkeyPatch.context() as patch:
                if number == 1:
                    patch.setattr(COLLECTED, -1)
                shapes.commit(wanted)
            assert shapes.differing() == {}
        gone = [Wish((n,), (n,), (None,) * 8, "delete", False) for n in range(15)]
        shapes.commit(gone)
        assert shapes.differing() == {}
