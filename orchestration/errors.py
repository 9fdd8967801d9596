"""The one place where an error of ours becomes a Dagster decision.

transient, of either tree              tried again, three times
ConsistencyError, Fenced               stop: running again gives the same answer
ConfigError, of either tree            stop: somebody has to change something first
anything else                          a bug: let through as it is
"""

from collections.abc import Iterator
from contextlib import contextmanager

import dagster as dg

from ops.common.errors import TidegateError, is_transient
from resources.errors import ResourceError

MAX_RETRIES = 3
RETRY_SECONDS = 10


@contextmanager
def error_boundary() -> Iterator[None]:
    """Retry what may pass, stop at once on what never will; let a bug through unchanged."""
    try:
        yield
    except (TidegateError, ResourceError) as error:
        if is_transient(error):
            raise dg.RetryRequested(MAX_RETRIES, RETRY_SECONDS) from error
        raise dg.Failure(description=str(error), allow_retries=False) from error
