"""The search: breadth-first, so that the first violation has a shortest sequence of moves."""

import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from model.explorer.configurations import CONFIGURATIONS, Configuration
from model.explorer.fair import Fairness
from model.explorer.families import family
from model.explorer.keys import Key, Keys
from model.explorer.laws import OF_A_MOVE, OF_A_STATE
from model.explorer.moves import moves
from model.explorer.sight import Planner, Sight, planned
from model.explorer.states import State
from model.explorer.statuses import Status

CLOCK_INTERVAL = 200
"""The number of states between two reads of the clock."""


@dataclass
class Explored:
    """The result of one configuration."""

    name: str
    states: int = 0
    moves: int = 0
    exhausted: bool = False
    """Whether all states have been explored."""
    seconds: float = 0.0
    """CPU time."""
    violations: dict[str, int] = field(default_factory=dict)
    """How often each law was broken."""
    stories: dict[str, str] = field(default_factory=dict)
    """The first story for each broken law."""

    def __str__(self) -> str:
        end = "exhausted" if self.exhausted else "cut off"
        line = f"{self.name}: {self.states} states, {self.moves} moves, {end}, {self.seconds:.0f} s"
        return "\n".join((line, *self.stories.values()))


class Search:
    """Explores the states of one configuration."""

    def __init__(self, configuration: Configuration, planner: Planner = planned) -> None:
        self._sight = Sight(configuration, planner)
        self._keys = Keys(configuration)
        self._fairness = Fairness(self._sight, self._keys)
        self._start = State(
            tuple(configuration.budget[rare] for rare in configuration.rare),
            busy=configuration.shares,
        )
        self._came_from: dict[Key, tuple[Key, int] | None] = {}
        """For each state, the previous one and the number of the move from there."""
        self.explored = Explored(configuration.name)

    def run(
        self, *, seconds: float | None = None, until: float | None = None, states: int | None = None
    ) -> Explored:
        """Explore all states, or until a limit of CPU seconds, monotonic time or states."""
        explored, began = self.explored, time.process_time()
        queue = deque([(self._keys.key(self._start), self._start)])
        self._came_from[queue[0][0]] = None
        while queue and (states is None or explored.states < states):
            if explored.states % CLOCK_INTERVAL == 0:
                if seconds is not None and time.process_time() - began > seconds:
                    break
                if until is not None and time.monotonic() > until:
                    break
            queue.extend(self._expand(*queue.popleft()))
        explored.exhausted = not queue
        explored.seconds = time.process_time() - began
        return explored

    def _expand(self, key: Key, state: State) -> Iterator[tuple[Key, State]]:
        """Return the new states that follow this one."""
        self.explored.states += 1
        for member in family(self._sight, state):
            for law in OF_A_STATE:
                for message in law(member.sight, member.state):
                    self._record(law.__name__, message, key)
        if why := self._fairness.every_flow_ends(state):
            self._record("every_flow_ends", why, key)
        for number, (_, after) in enumerate(moves(self._sight, state)):
            self.explored.moves += 1
            self._judge_move(key, number, state, after)
            next_key = self._keys.key(after)
            if next_key not in self._came_from:
                self._came_from[next_key] = key, number
                yield next_key, after

    def _judge_move(self, key: Key, number: int, state: State, after: State) -> None:
        before = {member.name: member.state for member in family(self._sight, state)}
        for member in family(self._sight, after):
            was = before.get(member.name)
            if was is None or was.jobs is member.state.jobs and was.flow is member.state.flow:
                continue
            for law in OF_A_MOVE:
                for message in law(member.sight, was, member.state):
                    self._record(law.__name__, message, key, number)

    # ------------------------------------------------------------------------- violations

    def _record(self, law: str, message: str, key: Key, last: int | None = None) -> None:
        explored = self.explored
        explored.violations[law] = explored.violations.get(law, 0) + 1
        if law not in explored.stories:
            story = format_story(self._path(key, last), self._start)
            name = law.replace("_", " ")
            explored.stories[law] = (
                f"{explored.name} breaks the law: {name}\n{story}\n  => {message}"
            )

    def _path(self, key: Key, last: int | None) -> list[tuple[str, State]]:
        """Return the moves that lead to a state, and one more."""
        numbers = [] if last is None else [last]
        while (step := self._came_from[key]) is not None:
            key, number = step
            numbers.append(number)
        path, state = [], self._start
        for number in reversed(numbers):
            path.append(list(moves(self._sight, state))[number])
            state = path[-1][1]
        return path


def explored_alone(
    number: int, *, seconds: float | None = None, states: int | None = None
) -> Explored:
    """Explore one of CONFIGURATIONS, for a process of its own."""
    return Search(CONFIGURATIONS[number]).run(seconds=seconds, states=states)


def format_story(moves: list[tuple[str, State]], start: State) -> str:
    """Format the moves in order, each with its changes."""
    lines = []
    before = start
    for move, after in moves:
        changes = "; ".join(_differences(before, after))
        lines.append(f"  {after.now:>4} s  {move}{': ' if changes else ''}{changes}")
        before = after
    return "\n".join(lines)


def _differences(before: State, after: State) -> Iterator[str]:
    known = {job.uid: job for job in before.jobs}
    for job in after.jobs:
        was = known.get(job.uid)
        if was is None:
            yield f"{job.name} is made"
        elif job.gone and not was.gone:
            yield f"{job.name} is gone"
        elif job.asked and not was.asked:
            yield f"{job.name} is to abort"
        elif job.child is not None and was.child is not None:
            yield from (f"{job.name}: {each}" for each in _differences(was.child, job.child))
    for name in sorted(after.not_found - before.not_found):
        yield f"{name} is not there"
    if after.flow.status is not before.flow.status:
        yield from _stored_changes(before.flow.status, after.flow.status)
    if after.known is not before.known and after.known != after.flow:
        yield "the controller does not know it yet"


def _stored_changes(before: Status, after: Status) -> Iterator[str]:
    was, now = before.value, after.value
    if (was.state.phase, was.state.reason) != (now.state.phase, now.state.reason):
        yield f"stored: flow {_words(now.state.phase, now.state.reason)}"
    old = was.conditions or {}
    for key, condition in (now.conditions or {}).items():
        earlier = old.get(key)
        words = _words(condition.phase, condition.reason)
        if earlier is None or _words(earlier.phase, earlier.reason) != words:
            yield f"stored: {key} {words}"


def _words(phase: str, reason: str) -> str:
    return f"{phase} ({reason})" if reason else phase
