"""Keys of states: two states with one key are one state, because the same moves follow.

Times are relative to now, and only counted if something waits for them. Values that many states
share are stored once, under a number.
"""

from collections.abc import Hashable
from dataclasses import replace

from model.explorer.configurations import Configuration
from model.explorer.states import Flow, State, Vcjob
from model.explorer.statuses import FLOW_TIMES, WAITED_FOR

Key = tuple[int, ...]

ABORT_INTERVAL = 10
"""Seconds after which a vcjob may be asked to abort again."""
LONG_AGO = 200
"""Seconds after which no timeout or ttl of a vcjob is left."""


class Keys:
    """The keys of the states of one configuration."""

    def __init__(self, configuration: Configuration) -> None:
        self._times_flow = configuration.times_flow
        self._times_jobs = configuration.times_jobs
        self._numbers: dict[Hashable, int] = {}

    def key(self, state: State) -> Key:
        """Return the key of a state."""
        return (*self.fair_key(state), self._number(state.budget))

    def fair_key(self, state: State) -> Key:
        """The key without the budget: two states with it end alike if nothing rare happens."""
        flow = self._flow(state.flow, state.now)
        same = state.known == state.flow
        known = flow if same else self._flow(state.known, state.now)
        aborts = tuple((uid, min(state.now - at, ABORT_INTERVAL)) for uid, at in state.aborts)
        claims = state.claims, state.known_claims
        at = state.cancelled_at
        asked = None if at is None else min(state.now - at, ABORT_INTERVAL)
        others = state.busy, asked, state.source_gone
        memory = state.not_found, aborts, state.answers, state.missing, state.round, claims, others
        commands = state.commands, state.known_commands
        jobs = tuple(self._job(job, state.now) for job in state.jobs)
        return flow, known, *jobs, -1, self._number((memory, commands, state.events))

    def _flow(self, flow: Flow, now: int) -> int:
        moments = tuple(
            max(at - now, WAITED_FOR[field])
            for field, at in flow.status.moments
            if self._times_flow or field not in FLOW_TIMES
        )
        return self._number((flow.status.shape, moments, flow.terminating, flow.gone))

    def _job(self, job: Vcjob, now: int) -> int:
        if job.child is not None:
            child = self.fair_key(replace(job.child, now=now))
            return self._number((replace(job, child=None), child))
        if not self._times_jobs:
            return self._number(job)
        ages = tuple((phase, min(now - at, LONG_AGO)) for phase, at in job.phases)
        return self._number(replace(job, phases=ages))

    def _number(self, value: Hashable) -> int:
        return self._numbers.setdefault(value, len(self._numbers))
