"""What the API server answered that is in no object: kept in memory between two plans of a flow.

Losing it (a restart) costs a request, never a second job: the next plan asks again.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from jobflow.api.jobflow import JobFlow, JobFlowStatus
from jobflow.core.actions import Holder, Refusal
from jobflow.kube.backoff import delay
from jobflow.kube.cache import Key, key_of

FIRST_REFUSAL = 1.0
LONGEST_REFUSAL = 300.0


@dataclass(slots=True)
class Answers:
    """Of one flow, as long as it has the same UID and has not ended."""

    uid: str
    absent: set[str] = field(default_factory=set)
    holders: dict[str, Holder] = field(default_factory=dict)
    refusals: dict[str, Refusal] = field(default_factory=dict)
    refused: dict[str, int] = field(default_factory=dict)
    """How often the create of each job was refused in a row."""
    written_at: float | None = None
    """Monotonic time of the last status write."""
    sent: tuple[JobFlowStatus, str] | None = None
    """The status last written and the flow's resource version after it."""

    streak: int = 0
    """How often in a row the flow was planned again at once."""

    def settle(self, name: str) -> None:
        """The vcjob is there and ours: nothing that was said about its name holds any more."""
        self.absent.discard(name)
        self.holders.pop(name, None)
        self.refusals.pop(name, None)
        self.refused.pop(name, None)


class Memory:
    """The answers of all flows, and which flows wait for a name that another vcjob has."""

    def __init__(self, *, dice: Callable[[], float] = random.random) -> None:
        self._answers: dict[Key, Answers] = {}
        self._waiting: dict[Key, set[Key]] = {}
        self._dice = dice

    def __len__(self) -> int:
        return len(self._answers)

    def of(self, flow: JobFlow) -> Answers:
        """The answers of this very flow; none yet where its name had another UID before."""
        key, uid = key_of(flow), flow.metadata.uid
        known = self._answers.get(key)
        if known is not None and known.uid == uid:
            return known
        self.forget(key)
        answers = self._answers[key] = Answers(uid)
        return answers

    def forget(self, flow: Key) -> None:
        """The flow is gone or over."""
        known = self._answers.pop(flow, None)
        for name in known.holders if known is not None else ():
            self._no_longer((flow[0], name), flow)

    def hold(self, flow: JobFlow, name: str, holder: Holder) -> None:
        """The name is in use by a vcjob that is not this flow's."""
        self.of(flow).holders[name] = holder
        self._waiting.setdefault((flow.metadata.namespace, name), set()).add(key_of(flow))

    def released(self, job: Key) -> set[Key]:
        """Something happened to a vcjob: which flows waited for its name. They have to try again,
        so what they were told about it is void."""
        flows = self._waiting.pop(job, set())
        for flow in flows:
            if (known := self._answers.get(flow)) is not None:
                known.holders.pop(job[1], None)
        return flows

    def refuse(self, answers: Answers, name: str, code: int, message: str, now: datetime) -> None:
        """A create was refused; it may be tried again after a backoff of 1 s to 5 min."""
        tries = answers.refused.get(name, 0)
        answers.refused[name] = tries + 1
        wait = delay(tries, first=FIRST_REFUSAL, most=LONGEST_REFUSAL, dice=self._dice)
        answers.refusals[name] = Refusal(code, message, now + timedelta(seconds=wait))

    def lift(self, flow: Key) -> None:
        """What was refused may be taken now: its template changed."""
        if (known := self._answers.get(flow)) is not None:
            known.refusals.clear()
            known.refused.clear()

    def _no_longer(self, job: Key, flow: Key) -> None:
        if (flows := self._waiting.get(job)) is not None:
            flows.discard(flow)
            if not flows:
                del self._waiting[job]
