"""Laws of the work queue, in virtual time, for any events, work and outcomes."""

import asyncio
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from jobflow.controller.queue import FIRST_RETRY, FLOOR, WorkQueue
from support.laws.effort_of_laws import tries
from support.time.virtual_time import in_virtual_time

QUIET = 1_000.0
"""Seconds after which all keys have been handed out."""
EPSILON = 1e-6
KEYS = "abc"


@dataclass(frozen=True)
class Work:
    """Work on a key, and the request at its end."""

    seconds: float = 0.0
    ends: str = "done"
    """done: it succeeded; failed: `retry`; held: a part of it waits for the end of the backoff."""
    at_least: float = 0.0
    """`at_least` of `retry`."""
    after: float | None = None
    """A requeue that it asks for."""
    early: bool = False
    """A requeue that is requested before a failure."""


@dataclass(frozen=True)
class History:
    events: list[tuple[float, str]]
    """Times and keys of events."""
    script: list[Work]
    """The work, key after key; later work succeeds."""
    workers: int = 4
    jitter: float = 0.0
    yielding: str = ""
    """Keys that give way to the others; one of them is worked on at a time."""


@dataclass
class Pass:
    key: str
    begin: float
    work: Work
    end: float = 0.0
    backoff_until: float = 0.0
    """The latest end that any backoff since the last success has had; 0 after a success."""
    server_until: float = 0.0
    """The time that servers asked to wait."""


@dataclass
class Run:
    workers: int
    yielding: str = ""
    passes: list[Pass] = field(default_factory=list)
    events: list[tuple[float, str]] = field(default_factory=list)
    most_at_once: dict[str, int] = field(default_factory=dict)

    def of(self, key: str) -> list[Pass]:
        return [entry for entry in self.passes if entry.key == key]

    def with_next(self) -> Iterator[tuple[Pass, Pass | None, list[float]]]:
        """Yield each work with the next one of its key, and the events from its start until then.
        An event at the moment of the start may belong to it."""
        for key in {entry.key for entry in self.passes}:
            passes_of_key = self.of(key)
            for one, other in zip(passes_of_key, [*passes_of_key[1:], None], strict=True):
                until = other.begin if other else QUIET
                times = [at for at, whose in self.events if whose == key]
                yield one, other, [at for at in times if one.begin <= at <= until]


class Worker:
    def __init__(self, queue: WorkQueue[str], script: list[Work], run: Run) -> None:
        self._queue, self._script, self._run = queue, script, run
        self._working: dict[str, int] = {}
        self._backoffs: dict[str, tuple[float, float]] = {}

    async def work(self) -> None:
        now = asyncio.get_running_loop().time
        while (key := await self._queue.get()) is not None:
            entry = Pass(key, now(), self._script.pop(0) if self._script else Work())
            self._run.passes.append(entry)
            self._working[key] = self._working.get(key, 0) + 1
            most = max(self._run.most_at_once.get(key, 0), self._working[key])
            self._run.most_at_once[key] = most
            await asyncio.sleep(entry.work.seconds)
            entry.end = now()
            self._settle(entry)
            self._working[key] -= 1
            self._queue.done(key)

    def _settle(self, entry: Pass) -> None:
        key, work = entry.key, entry.work
        backoff, asked = self._backoffs.get(key, (0.0, 0.0))
        if work.ends == "failed":
            if work.after is not None and work.early:
                self._queue.add_after(key, work.after)
            wait = self._queue.retry(key, at_least=work.at_least)
            assert wait >= max(work.at_least, FIRST_RETRY / 2)
            backoff = max(backoff, entry.end + wait)
            asked = max(asked, entry.end + work.at_least)
            self._backoffs[key] = backoff, asked
        elif work.ends == "done":
            self._queue.forget(key)
            self._backoffs.pop(key, None)
            backoff = asked = 0.0
        if work.after is not None:
            self._queue.add_after(key, work.after)
        entry.backoff_until, entry.server_until = backoff, asked


def run_history(history: History) -> Run:
    """Run the history, followed by QUIET seconds without an event."""

    async def main() -> Run:
        loop = asyncio.get_running_loop()
        run = Run(history.workers, history.yielding)
        queue = WorkQueue[str](
            clock=loop.time,
            dice=lambda: history.jitter,
            gives_way=lambda key: key in history.yielding,
        )
        worker = Worker(queue, list(history.script), run)
        async with asyncio.TaskGroup() as group:
            for _ in range(history.workers):
                group.create_task(worker.work())
            for at, key in sorted(history.events):
                await asyncio.sleep(at - loop.time())
                queue.add(key)
                run.events.append((loop.time(), key))
            await asyncio.sleep(QUIET - loop.time())
            queue.close()
        return run

    return in_virtual_time(main())


seconds = st.one_of(st.sampled_from([0.0, FLOOR, FIRST_RETRY]), st.floats(0.0, 5.0))
works = st.builds(
    Work,
    st.one_of(st.just(0.0), st.floats(0.0, 2.0)),
    st.sampled_from(["done", "failed", "failed", "held"]),
    st.one_of(st.just(0.0), st.floats(0.0, 30.0)),
    st.one_of(st.none(), seconds),
    st.booleans(),
)
histories = st.builds(
    History,
    st.lists(st.tuples(st.floats(0.0, 20.0), st.sampled_from(KEYS)), max_size=20),
    st.lists(works, max_size=25),
    st.sampled_from([1, 2, 4, 4]),
    st.floats(0.0, 1.0),
    st.sampled_from(["", "a", "ab", "abc"]),
)
SPINNING = History([(0.0, "a")], [Work(after=0.0)] * 20)
BROKEN = History([(0.0, "a")], [Work(ends="failed", after=0.0, early=True)] * 8)
STORM = History([(at / 10, "a") for at in range(100)], [Work(ends="failed", at_least=3.0)] * 8)
ENDS_DURING = History([(0.0, "a"), (0.1, "a")], [Work(ends="failed"), Work(2.0, "held")])


def no_key_is_worked_on_twice_at_once(run: Run) -> None:
    assert set(run.most_at_once.values()) <= {1}


def no_request_is_lost(run: Run) -> None:
    """Work on the key follows every event, requeue, failure and hold."""
    assert {key for _, key in run.events} == {entry.key for entry in run.passes}
    for one, other, events in run.with_next():
        asks = one.backoff_until > 0 or one.work.after is not None
        if asks or any(at > one.begin for at in events):
            assert other is not None, one


def work_is_on_time_while_a_worker_is_free(run: Run) -> None:
    if run.workers < len(KEYS) or len(run.yielding) > 1:
        return  # a key may wait for a worker, or for one that gives way like it
    for one, other, events in run.with_next():
        due = [max(at, one.end, one.server_until) for at in events if at > one.begin]
        if one.work.after is not None:
            due.append(max(one.end + max(one.work.after, FLOOR), one.backoff_until))
        if one.backoff_until:
            due.append(max(one.end + FLOOR, one.backoff_until))
        if due:
            assert other is not None
            assert other.begin <= min(due) + EPSILON


def only_an_event_interrupts_a_backoff(run: Run) -> None:
    for one, other, events in run.with_next():
        if other is not None and not events:
            assert other.begin >= one.backoff_until - EPSILON


def no_work_starts_before_the_time_that_a_server_asked_for(run: Run) -> None:
    for one, other, _ in run.with_next():
        if other is not None:
            assert other.begin >= one.server_until - EPSILON


def without_an_event_no_work_starts_before_the_floor(run: Run) -> None:
    for one, other, events in run.with_next():
        if other is not None and not events:
            assert other.begin >= one.end + FLOOR - EPSILON


def keys_that_give_way_are_worked_on_one_at_a_time(run: Run) -> None:
    passes = [entry for entry in run.passes if entry.key in run.yielding]
    for one, other in itertools.pairwise(passes):
        assert other.begin >= one.end - EPSILON


LAWS = (
    no_key_is_worked_on_twice_at_once,
    no_request_is_lost,
    work_is_on_time_while_a_worker_is_free,
    only_an_event_interrupts_a_backoff,
    no_work_starts_before_the_time_that_a_server_asked_for,
    without_an_event_no_work_starts_before_the_floor,
    keys_that_give_way_are_worked_on_one_at_a_time,
)


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
@tries(100)
@given(history=histories)
@example(history=SPINNING)
@example(history=BROKEN)
@example(history=STORM)
@example(history=ENDS_DURING)
def test_the_queue_satisfies_the_laws(law: Callable[[Run], None], history: History) -> None:
    law(run_history(history))
