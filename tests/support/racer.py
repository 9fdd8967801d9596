"""Processes that race for one graph, each with a clock of its own, wrong by up to an hour."""

import multiprocessing
import os
import random
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from multiprocessing.synchronize import Event

from ops.barrier_worker.lease import LeaseKeeper, acquire
from ops.common.errors import Fenced, LeaseHeld
from resources.clock import SystemClock
from resources.control_store import ControlStore
from tests.support.control import Place
from tests.support.toy_graph import ToyGraph, ToySource, ToyView, make_worker, offered_so_far

LEASE_SECONDS = 0.5
PER_SECOND = 200
LONGEST_SECONDS = 120.0
_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload([__name__])


@dataclass(frozen=True)
class Race:
    dsn: str
    pipeline: str
    began: float
    over: Event

    @property
    def goes_on(self) -> bool:
        return not self.over.is_set() and time.monotonic() - self.began < LONGEST_SECONDS


def new_race(dsn: str, pipeline: str) -> Race:
    return Race(dsn, pipeline, time.monotonic(), _context.Event())


class Growing(list[int]):
    """Numbers are offered with the time, the same to all."""

    def __init__(self, began: float) -> None:
        super().__init__()
        self._began = began

    def __len__(self) -> int:
        return int((time.monotonic() - self._began) * PER_SECOND)


class WrongClock(SystemClock):
    """Right in its differences but for now and then a step of up to an hour."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._wrong_ms = 0

    def now_ms(self) -> int:
        if self._random.random() < 0.1:
            self._wrong_ms = self._random.randint(-3_600_000, 3_600_000)
        return super().now_ms() + self._wrong_ms


def start(race: Race, owner: str) -> BaseProcess:
    process = _context.Process(target=main, args=(race, owner), name=owner, daemon=True)
    process.start()
    return process


def main(race: Race, owner: str) -> None:
    store = ControlStore(race.dsn)
    place = Place(store, race.pipeline)
    clock = WrongClock(os.getpid())
    while race.goes_on:
        with suppress(LeaseHeld, Fenced):
            run_a_term(place, owner, clock, race, ends=time.monotonic() + 1.0)
        time.sleep(0.02)
    store.close()
    sys.exit(0)


def run_a_term(place: Place, owner: str, clock: WrongClock, race: Race, *, ends: float) -> None:
    term = acquire(place.store, place.main, owner=owner, seconds=LEASE_SECONDS)
    with LeaseKeeper(place.store, term, seconds=LEASE_SECONDS) as keeper:
        worker = make_worker(place, keeper, clock)
        source = ToySource(Growing(race.began), offered_so_far(place))
        # Time for a signal to come between the collection and the commit.
        graph = ToyGraph(place, source, [ToyView("v")], before_commit=lambda: time.sleep(0.2))
        worker.run(graph, until=lambda: not race.goes_on or time.monotonic() > ends)
