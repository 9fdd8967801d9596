"""Random schedules of barriers keep the invariants: chain unbroken, ordered, one owner, monotone.

A process is the real schedule, manager, managed state and recovery machine, driven step by step;
the store is a model, and the judge looks at nothing but the model and the barriers that were made.
Numbers stand for changes: committed are 1, 2, 3 … without a gap or a repetition, and a view in step
has added up exactly those.
"""

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ops.barrier_manager.events import ActorCollected, ActorFailed
from ops.barrier_manager.manager import BarrierReceiver, LocalBarrierManager
from ops.barrier_worker import recovery
from ops.barrier_worker.managed_state import Issued, ManagedBarrierState
from ops.barrier_worker.schedule import Look, Schedule
from ops.common.barrier import Add, Attempt, Barrier, BarrierKind, Mutation, Pause, Resume, Stop
from ops.common.controls import Controls, apply, mutations
from ops.common.epoch import Epoch, EpochPair, next_epoch
from ops.common.errors import TransientError

SOURCE, VIEWS = "source", ("v", "w")
START_MS = 1_700_000_000_000


@dataclass
class View:
    epoch: int = 0
    total: int = 0
    in_step: bool = True
    dropped: bool = False


@dataclass
class ModelStore:
    """What a commit changes, and the guard it must pass."""

    term: int = 0
    committed: int = 0
    numbers: int = 0
    """Committed are 1 … numbers."""
    history: list[tuple[int, int, int, int]] = field(default_factory=list)
    """(epoch, prev, term, numbers) of each commit."""
    views: dict[str, View] = field(default_factory=lambda: {v: View() for v in VIEWS})

    def advance(self, *, epoch: int, prev: int, term: int, numbers: int) -> bool:
        if (term, prev) != (self.term, self.committed):
            return False
        self.committed, self.numbers = epoch, numbers
        self.history.append((epoch, prev, term, numbers))
        return True


class Process:
    """One owner's try to run the graph; `over` once it has found out that it must not."""

    def __init__(self, store: ModelStore, term: int, now_ms: int, wanted: Controls) -> None:
        self.store, self.term, self.over = store, term, False
        self.made: list[Barrier] = []
        self.start(now_ms, wanted)

    def start(self, now_ms: int, wanted: Controls) -> None:
        """Begin, or begin again, at the committed epoch."""
        views = [v for v, view in self.store.views.items() if not view.dropped]
        self.actors = (SOURCE, *views)
        self.manager = LocalBarrierManager("g", self.actors)
        self.state = ManagedBarrierState("g", frozenset(self.actors))
        self.receivers: dict[str, BarrierReceiver] = {}
        self.chain: list[Barrier] = []
        self.complete: list[Barrier] = []
        self.collected: dict[str, list[Barrier]] = {a: [] for a in self.actors}
        self.controls, self.applied = Controls(), Controls()
        self.taken = self.gathered = self.store.numbers
        self.committed = self.store.committed
        self.recovery: recovery.State = recovery.Running()
        self.in_step = {v: self.store.views[v].in_step for v in views}
        turn = mutations(Controls(), wanted)
        prev = Epoch(self.committed)
        self.inject(BarrierKind.INITIAL, turn[0] if turn else None, prev, now_ms)

    def inject(
        self, kind: BarrierKind, mutation: Mutation | None, prev: Epoch, now_ms: int
    ) -> None:
        attempt = Attempt(1, "d") if kind.is_checkpoint else None
        pair = EpochPair(curr=next_epoch(prev, now_ms), prev=prev)
        barrier = Barrier(pair, kind, mutation, attempt)
        self.state.inject(barrier)
        self.manager.send(barrier)
        self.chain.append(barrier)
        self.made.append(barrier)

    def tick(
        self,
        schedule: Schedule,
        look: dict[str, bool],
        now_ms: int,
        *,
        wanted: Controls,
        rejoining: tuple[str, ...],
        dropping: tuple[str, ...],
        elapsed_s: float,
    ) -> None:
        turn = mutations(self.controls, wanted)
        views = tuple(v for v in rejoining if not self.controls.paused and not turn)
        kind = schedule.due(
            Look(
                since_last_s=elapsed_s,
                granted=look["granted"],
                work=self.gathered > self.taken or bool(views),
                commands=bool(turn) or bool(dropping),
                must_checkpoint=bool(views),
                full=look["full"],
                paused=self.controls.paused,
                pending=len(self.state.issued),
                uncheckpointed=len(self.state.uncheckpointed),
            )
        )
        if kind is None or self.state.issued:
            return
        mutation: Mutation | None = turn[0] if turn else None
        if mutation is None and dropping:
            mutation = Stop(dropping)
        elif mutation is None and views and kind.is_checkpoint:
            mutation = Add(views)
        self.inject(kind, mutation, self.chain[-1].epoch.curr, now_ms)

    def act(self, actor: str, *, offered: int, fails: bool) -> None:
        """Let an actor take its next barrier, if there is one, and collect it."""
        if actor not in self.receivers:
            self.receivers[actor] = self.manager.subscribe_barrier(actor)
        barrier = self.receivers[actor].take(0.0)
        if barrier is None:
            if actor == SOURCE and self.chain[0] in self.collected[SOURCE]:
                self.poll(offered)
            return
        output: object = None
        if actor == SOURCE:
            if barrier.kind.is_checkpoint:
                output = self.taken = self.gathered
            if barrier.mutation is not None:
                self.applied = apply(self.applied, barrier.mutation)
            self.manager.report_source_offset(
                actor, barrier, "s", rows=self.gathered - self.taken, lsn=None
            )
        elif barrier.kind.is_checkpoint:
            output = not fails
        self.collected[actor].append(barrier)
        self.manager.collect(actor, barrier, output)

    def poll(self, offered: int) -> None:
        if not self.applied.paused:
            self.gathered = max(self.gathered, offered)

    def hear(self) -> None:
        """Take one event, and commit what it completes."""
        event = self.manager.next_event(0.0)
        match event:
            case ActorFailed(actor, error):
                self.recovery = recovery.step(recovery.Running(), recovery.Failure(actor, error))
            case ActorCollected(actor, barrier, output):
                for issued in self.state.collect(actor, barrier, output):
                    self.manager.completed(issued.barrier)
                    self.complete.append(issued.barrier)
                    if issued.barrier.mutation is not None:
                        self.controls = apply(self.controls, issued.barrier.mutation)
                    if issued.barrier.kind.is_checkpoint:
                        self.commit(issued)
            case None:
                pass
            case report:
                self.state.report(report)

    def commit(self, issued: Issued) -> None:
        numbers, epoch = issued.outputs[SOURCE], issued.barrier.epoch.prev
        assert isinstance(numbers, int)
        covered = [b for b in self.complete if b.kind is not BarrierKind.INITIAL]
        since = [b.epoch.prev for b in covered if b.epoch.prev > self.committed]
        assert list(issued.covers) == since, "it covers the barriers since the last checkpoint"
        moved = self.store.advance(
            epoch=epoch, prev=self.committed, term=self.term, numbers=numbers
        )
        if not moved:
            self.over = True
            return
        self.committed = epoch
        for name in self.in_step:
            view = self.store.views[name]
            rejoins = name in issued.barrier.rejoining
            if issued.outputs.get(name) is True and (self.in_step[name] or rejoins):
                view.epoch, view.total, view.in_step = epoch, numbers, True
                self.in_step[name] = True
            elif self.in_step[name] and not view.dropped:
                self.in_step[name] = view.in_step = False
        match issued.barrier.mutation:
            case Stop(actors):
                for name in actors or ():
                    self.store.views[name].dropped = True
                    self.store.views[name].in_step = False
                    self.in_step.pop(name, None)

    def reset(self) -> None:
        """Walk the machine from the failure to the end; the cause must be one that may pass."""
        self.manager.close()
        state = recovery.step(self.recovery, recovery.Reset(frozenset(self.actors)))
        for actor in self.actors:
            state = recovery.step(state, recovery.ActorEnded(actor))
        assert isinstance(state, recovery.Ended)
        assert isinstance(state.root.error, TransientError)


class Schedules(RuleBasedStateMachine):
    @initialize(frequency=st.integers(1, 4))
    def begin(self, frequency: int) -> None:
        self.store, self.now_ms, self.elapsed = ModelStore(), START_MS, 0.0
        self.schedule = Schedule(1.0, 30.0, frequency)
        self.granted, self.wanted = True, Controls()
        self.offered, self.full = 0, False
        self.rejoining: set[str] = set()
        self.dropping: set[str] = set()
        self.failing: set[str] = set()
        self.processes: list[Process] = []
        self.monotone = (0, 0, 0)
        self.view_epochs = dict.fromkeys(VIEWS, 0)
        self.take_over()

    def some(self, index: int) -> Process:
        """Return the owner more often than a zombie."""
        return self.processes[-1 if index % 3 else index % len(self.processes)]

    def take_over(self) -> None:
        self.store.term += 1
        made = Process(self.store, self.store.term, self.now_ms, self.wanted)
        self.processes.append(made)

    @precondition(lambda self: len(self.store.history) >= 2 * len(self.processes))
    @rule()
    def lease_runs_out(self) -> None:
        self.take_over()

    @rule(granted=st.sampled_from([True, True, False]))
    def grant(self, granted: bool) -> None:
        self.granted = granted

    @rule(ms=st.integers(-7_200_000, 5_000))
    def clock_steps(self, ms: int) -> None:
        self.now_ms += ms

    @rule(count=st.integers(1, 5))
    def offer(self, count: int) -> None:
        self.offered += count

    @rule(full=st.booleans())
    def fill(self, full: bool) -> None:
        self.full = full

    @rule(frequency=st.integers(1, 4))
    def set_frequency(self, frequency: int) -> None:
        self.schedule = Schedule(1.0, 30.0, frequency)

    @rule(paused=st.sampled_from([False, False, False, True]))
    def pause(self, paused: bool) -> None:
        self.wanted = Controls(paused)
        self.work(1, 1, 1)
        self.offered += 1
        self.settle(1)

    @rule(view=st.sampled_from(VIEWS))
    def follow(self, view: str) -> None:
        """A view out of step follows in one netted range, and asks to be taken in."""
        found = self.store.views[view]
        if not found.in_step and not found.dropped:
            found.epoch, found.total = self.store.committed, self.store.numbers
            self.rejoining.add(view)

    @rule(views=st.sets(st.sampled_from(VIEWS)))
    def falter(self, views: set[str]) -> None:
        """These fall out of step at their next checkpoint, and cannot rejoin until it is over."""
        self.failing = views

    @rule(view=st.sampled_from(VIEWS))
    def out_and_back(self, view: str) -> None:
        self.failing = {view}
        self.work(1, 1, 4)
        self.failing = set()
        self.follow(view)
        self.work(1, 1, 1)

    @precondition(lambda self: len(self.store.history) > 3)
    @rule(view=st.sampled_from(VIEWS))
    def drop(self, view: str) -> None:
        if not self.store.views[view].dropped:
            self.dropping.add(view)
            self.work(1, 1, 2)

    @rule(index=st.integers(0, 9), seconds=st.sampled_from([0.0, 1.0, 31.0]))
    def tick(self, index: int, seconds: float) -> None:
        process = self.some(index)
        if process.over or isinstance(process.recovery, recovery.Suspended):
            return
        views = self.store.views
        out = {v for v in self.rejoining if not views[v].in_step and not views[v].dropped}
        process.tick(
            self.schedule,
            {"granted": self.granted, "full": self.full},
            self.now_ms,
            wanted=self.wanted,
            rejoining=tuple(sorted(out & process.in_step.keys())),
            dropping=tuple(sorted(self.dropping & process.in_step.keys())),
            elapsed_s=seconds,
        )

    @rule(
        index=st.integers(0, 9),
        actor=st.sampled_from((SOURCE, SOURCE, *VIEWS)),
        fails=st.sampled_from([False, False, False, True]),
    )
    def act(self, index: int, actor: str, fails: bool) -> None:
        process = self.some(index)
        if actor in process.actors and not process.over:
            process.act(actor, offered=self.offered, fails=fails)

    @rule(index=st.integers(0, 9))
    def hear(self, index: int) -> None:
        process = self.some(index)
        if not process.over and not isinstance(process.recovery, recovery.Suspended):
            process.hear()

    @rule(index=st.integers(0, 9), count=st.integers(0, 3), rounds=st.integers(1, 5))
    def work(self, index: int, count: int, rounds: int) -> None:
        """Some time passes undisturbed."""
        self.offered += count
        for _ in range(rounds):
            self.settle(index)
            self.now_ms += 1000
            self.tick(index, 1.0)
        self.settle(index)
        process = self.some(index)
        if not process.over and not _is_suspended(process):
            assert process.complete == process.chain, "undisturbed, all comes to its end"

    def settle(self, index: int) -> None:
        """Everybody does what there is to do."""
        process = self.some(index)
        for _ in range(3):
            for actor in process.actors:
                self.act(index, actor, actor in self.failing)
            for _ in range(8):
                self.hear(index)

    @rule(index=st.integers(0, 9), actor=st.sampled_from((SOURCE, *VIEWS)))
    def fail(self, index: int, actor: str) -> None:
        process = self.some(index)
        if actor in process.actors and not process.over:
            process.manager.notify_failure(actor, TransientError("lost"))

    @precondition(lambda self: any(_is_suspended(p) for p in self.processes))
    @rule()
    def recover(self) -> None:
        for process in self.processes:
            if _is_suspended(process):
                process.reset()
                if process.term == self.store.term:
                    process.start(self.now_ms, self.wanted)
                else:
                    process.over = True

    @invariant()
    def chains_are_unbroken_and_ordered(self) -> None:
        for process in self.processes:
            first, *rest = process.chain
            assert first.kind is BarrierKind.INITIAL
            last = first
            for barrier in rest:
                assert barrier.kind is not BarrierKind.INITIAL
                assert barrier.epoch.prev == last.epoch.curr < barrier.epoch.curr
                last = barrier
            assert process.complete == process.chain[: len(process.complete)], "in order"
            assert len(process.chain) - len(process.complete) <= 1, "one is pending at most"
            for barrier in process.complete:
                stopped = [b for b in process.chain if isinstance(b.mutation, Stop)]
                for actor, seen in process.collected.items():
                    left = any(
                        b.stops_actor(actor) and b.epoch.prev < barrier.epoch.prev for b in stopped
                    )
                    assert left != (barrier in seen), "all who take part have collected"

    @invariant()
    def commits_are_one_chain_of_one_owner_at_a_time(self) -> None:
        before = (0, 0, 0)
        for epoch, prev, term, numbers in self.store.history:
            assert prev == before[0] < epoch
            assert term >= before[1] and numbers >= before[2]
            before = (epoch, term, numbers)
        now = (self.store.committed, self.store.term, self.store.numbers)
        assert all(a >= b for a, b in zip(now, self.monotone, strict=True))
        assert self.store.numbers <= self.offered
        self.monotone = now
        checkpoints = {
            (p.term, b.epoch.prev) for p in self.processes for b in p.made if b.kind.is_checkpoint
        }
        assert {(term, epoch) for epoch, _, term, _ in self.store.history} <= checkpoints

    @invariant()
    def views_follow(self) -> None:
        prefix = {epoch: numbers for epoch, _, _, numbers in self.store.history} | {0: 0}
        for name, view in self.store.views.items():
            assert view.total == prefix[view.epoch], "what its epoch holds, no more and no less"
            assert view.epoch >= self.view_epochs[name]
            self.view_epochs[name] = view.epoch
            if view.in_step:
                assert view.epoch == self.store.committed

    @invariant()
    def a_paused_source_reads_nothing(self) -> None:
        for process in self.processes:
            turns = [b.mutation for b in process.chain if isinstance(b.mutation, Pause | Resume)]
            done = process.complete == process.chain
            if turns and isinstance(turns[-1], Pause) and done:
                assert process.gathered == process.taken, "the pause took all that was gathered"


def _is_suspended(process: Process) -> bool:
    return not process.over and isinstance(process.recovery, recovery.Suspended)


Schedules.TestCase.settings = settings(stateful_step_count=60)
TestSchedules = Schedules.TestCase
