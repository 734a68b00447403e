"""Answers of the API server that are not objects, kept in memory between the plans of a flow.

If they are lost by a restart, the next plan sends the request again; no job is created twice.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import msgspec

from jobflow.api.flow_status import JobFlowStatus
from jobflow.api.job import Job
from jobflow.api.jobflow import JobFlow
from jobflow.core.planning.view import Held, Holder, PodsRead, Refusal
from jobflow.kube.backoff import delay
from jobflow.kube.cache import Key, key_of
from jobflow.kube.client import ApiError

FIRST_REFUSAL = 1.0
LONGEST_REFUSAL = 300.0
LONGEST_HELD = 60.0
"""Longest time between two tries while creates are held back, in seconds."""
FREED = 16
"""Concurrent creates after which no create is held back; before that they are 1, 2, 4 and 8."""
FIRST_READ = 0.4
LONGEST_READ = 30.0
"""First and longest time until pods are read again, in seconds."""
DEFINITE = (403, 404)
"""Codes after which pods are not read again."""


@dataclass(slots=True)
class Answers:
    """The answers for one flow, kept until it finishes or its UID changes."""

    uid: str
    absent: set[str] = field(default_factory=set)
    holders: dict[str, Holder] = field(default_factory=dict)
    refusals: dict[str, Refusal] = field(default_factory=dict)
    refused: dict[str, int] = field(default_factory=dict)
    """Number of times in a row that the create of each job was refused or its name was in use."""
    held: Held | None = None
    """The answer because of which creates are held back."""
    held_tries: int = 0
    """Number of refused tries in a row since then."""
    aborts: dict[str, datetime] = field(default_factory=dict)
    """Time of the last AbortJob Command, by the vcjob's UID."""
    read: dict[str, PodsRead] = field(default_factory=dict)
    """Pods that were read live, by the vcjob's UID."""
    unread: dict[str, int] = field(default_factory=dict)
    """Number of failed reads of pods in a row, by the vcjob's UID."""
    next_read: datetime | None = None
    """When pods whose read failed are read again."""
    written_at: float | None = None
    """Monotonic time of the last status write."""
    changed_at: float | None = None
    """Monotonic time since when the status has unwritten changes."""
    sent: tuple[JobFlowStatus, str] | None = None
    """The status last written (`timeless`), and the resource version of the flow after that."""
    failed: set[str] = field(default_factory=set)
    """The failed requests, by `request_of`, which are not sent again during the flow's backoff."""
    asked: Counter[str] = field(default_factory=Counter)
    """How often each question was asked, since a plan asked for nothing."""

    def settle(self, name: str) -> None:
        """The vcjob is there and ours: nothing that was said about its name holds any more."""
        self.absent.discard(name)
        self.holders.pop(name, None)
        self.refusals.pop(name, None)
        self.refused.pop(name, None)

    def asks(self, questions: Collection[str]) -> int:
        """Count what a plan asked for whose answers another plan has to follow at once; how often
        the same was asked since a plan asked for nothing (`[]`)."""
        if not questions:
            self.asked.clear()
        self.asked.update(questions)
        return max((self.asked[each] for each in questions), default=0)

    def next_read_time(self, now: datetime, wait: timedelta) -> datetime:
        """Return when to read pods again: together with other reads of the flow if these are within
        twice the wait, so that a thousand jobs do not cause a thousand plans."""
        own, others = now + wait, self.next_read
        if others is None or not own <= others <= own + wait:
            self.next_read = own
            return own
        return others

    def outdate(self, jobs: Mapping[str, Job]) -> None:
        """Drop answers that no longer apply: pods of vcjobs that do not exist or were resumed, and
        aborts of vcjobs that have ended."""
        if self.read or self.unread or self.aborts:
            ended = {job.metadata.uid: job.ended for job in jobs.values()}
            for uid in self.read.keys() | self.unread.keys():
                if not ended.get(uid):
                    self.read.pop(uid, None)
                    self.unread.pop(uid, None)
            for uid in [uid for uid in self.aborts if ended.get(uid, True)]:
                del self.aborts[uid]


def timeless(status: JobFlowStatus) -> JobFlowStatus:
    """Return the status without the fields that change with time alone."""
    return msgspec.structs.replace(status, duration="")


class Memory:
    """The answers for all flows, and the flows that wait for a name that another vcjob has."""

    def __init__(self, *, dice: Callable[[], float] = random.random) -> None:
        self._answers: dict[Key, Answers] = {}
        self._waiting: dict[Key, set[Key]] = {}
        self._dice = dice

    def __len__(self) -> int:
        return len(self._answers)

    def of(self, flow: JobFlow) -> Answers:
        """Return the answers for this flow, empty at first and if its UID has changed."""
        key, uid = key_of(flow), flow.metadata.uid
        known = self._answers.get(key)
        if known is not None and known.uid == uid:
            return known
        self.forget(key)
        answers = self._answers[key] = Answers(uid)
        return answers

    def forget(self, flow: Key) -> None:
        """Drop the answers for a flow that was deleted or has finished."""
        known = self._answers.pop(flow, None)
        for name in known.holders if known is not None else ():
            self._no_longer((flow[0], name), flow)

    def hold(self, flow: JobFlow, job: Job, *, owner_alive: bool, now: datetime) -> None:
        """Note that another owner's vcjob has the name. A watch event tells when it is deleted;
        the backoff is for an event that never comes."""
        answers, name = self.of(flow), job.metadata.name
        retry_at = now + self._wait(answers, name)
        answers.holders[name] = Holder(job, owner_alive, retry_at)
        self._waiting.setdefault((flow.metadata.namespace, name), set()).add(key_of(flow))

    def released(self, job: Key) -> set[Key]:
        """Return the flows that wait for the name of a vcjob that has changed, and drop their
        answers about it, so that they try again."""
        flows = self._waiting.pop(job, set())
        for flow in flows:
            if (known := self._answers.get(flow)) is not None:
                known.holders.pop(job[1], None)
        return flows

    def refuse(self, flow: JobFlow, name: str, error: ApiError, now: datetime) -> None:
        """Note that a create was refused.

        If a quota or missing rights refuse it, all creates of the flow are held back, and one is
        tried after a backoff of 1 s to 1 min, or never if the namespace is being deleted. Any other
        refusal holds back only this vcjob, for 1 s to 5 min.
        """
        answers = self.of(flow)
        if reason := error.for_the_namespace:
            self._hold_back(answers, name, reason, None if error.namespace_gone else now)
            return
        retry_at = now + self._wait(answers, name)
        answers.refusals[name] = Refusal(error.code, error.message, retry_at)

    def _hold_back(self, answers: Answers, name: str, reason: str, now: datetime | None) -> None:
        """Hold back creates. Concurrent ones count as one try. `now` is None if no create can
        succeed any more."""
        held, retry_at = answers.held, None
        if now is not None and held is not None and not held.is_due(now):
            retry_at = held.retry_at
        elif now is not None:
            wait = delay(
                answers.held_tries, first=FIRST_REFUSAL, most=LONGEST_HELD, dice=self._dice
            )
            retry_at = now + timedelta(seconds=wait)
            answers.held_tries += 1
        answers.refusals.pop(name, None)
        before = held.tried if held is not None else ()
        tried = (*(each for each in before if each != name), name)
        answers.held = Held(reason, retry_at, tried)

    def let_in(self, flow: JobFlow, name: str, now: datetime) -> None:
        """Note that a create succeeded. If others are held back, one more may be sent at once."""
        answers = self.of(flow)
        answers.settle(name)
        held = answers.held
        if held is None or not held.is_due(now):
            return
        answers.held_tries = 0
        tried = tuple(each for each in held.tried if each != name)
        more = replace(held, room=held.room + 1, tried=tried)
        answers.held = more if more.room < FREED else None

    def unread(self, flow: JobFlow, job_uid: str, error: Exception, now: datetime) -> PodsRead:
        """Note that the pods of a vcjob could not be read. They are read again after a backoff and
        the time that the server asks to wait, but not after one of the DEFINITE answers."""
        answers = self.of(flow)
        trouble, retry_at = str(error) or type(error).__name__, None
        if not isinstance(error, ApiError) or error.code not in DEFINITE:
            tries = answers.unread.get(job_uid, 0)
            answers.unread[job_uid] = tries + 1
            wait = delay(tries, first=FIRST_READ, most=LONGEST_READ, dice=self._dice)
            asked = error.retry_after if isinstance(error, ApiError) else None
            retry_at = answers.next_read_time(now, timedelta(seconds=max(wait, asked or 0.0)))
        answers.read[job_uid] = PodsRead(trouble=trouble, retry_at=retry_at)
        return answers.read[job_uid]

    def lift(self, flow: Key) -> None:
        """Drop the refusals of a flow whose template has changed."""
        if (known := self._answers.get(flow)) is not None:
            known.refusals.clear()
            known.refused.clear()

    def _wait(self, answers: Answers, name: str) -> timedelta:
        tries = answers.refused.get(name, 0)
        answers.refused[name] = tries + 1
        return timedelta(
            seconds=delay(tries, first=FIRST_REFUSAL, most=LONGEST_REFUSAL, dice=self._dice)
        )

    def _no_longer(self, job: Key, flow: Key) -> None:
        if (flows := self._waiting.get(job)) is not None:
            flows.discard(flow)
            if not flows:
                del self._waiting[job]
