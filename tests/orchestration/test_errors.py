"""Which error becomes which Dagster decision."""

import dagster as dg
import pytest

from ops.common.errors import (
    LeaseHeld,
    SlotGone,
    SourceNotReady,
    TermOver,
    TidegateError,
    Unsupported,
)
from orchestration.errors import MAX_RETRIES, error_boundary
from resources.control_store import StoreUnreachable
from resources.errors import MissingSecret, ResourceError, ServerNotReady


@pytest.mark.parametrize(
    "error", [LeaseHeld("g", "o", 3.0), StoreUnreachable("gone"), ServerNotReady("not yet")]
)
def test_what_may_pass_is_tried_again(error: TidegateError | ResourceError) -> None:
    with pytest.raises(dg.RetryRequested) as raised, error_boundary():
        raise error
    assert raised.value.max_retries == MAX_RETRIES and raised.value.__cause__ is error


@pytest.mark.parametrize(
    "error",
    [
        SlotGone("p", "s"),
        TermOver("g", 3),
        Unsupported("DROP", line=3, column=1),
        SourceNotReady("set wal_level"),
        MissingSecret("p", "TIDEGATE_SECRET_P"),
    ],
)
def test_what_never_will_stops_with_its_sentence(error: TidegateError | ResourceError) -> None:
    with pytest.raises(dg.Failure) as raised, error_boundary():
        raise error
    assert raised.value.description == str(error) and not raised.value.allow_retries


def test_a_bug_comes_through_as_it_is() -> None:
    with pytest.raises(KeyError), error_boundary():
        raise KeyError("x")
