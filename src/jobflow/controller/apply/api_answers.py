"""Answers of the API server that no object holds, kept in memory between the plans of a flow.

Losing them in a restart costs a request, never a second job.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import msgspec

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import JobFlowStatus
from jobflow.api.resources import VOLUME_CLAIMS, OwnerReference
from jobflow.api.volcano.job import Job
from jobflow.core.planning.actions import outdated
from jobflow.core.planning.observed import view
from jobflow.core.text import shorten
from jobflow.core.violations import Violation
from jobflow.kube.cache import Key, key_of
from jobflow.kube.client import ApiError
from jobflow.kube.clock import delay

FIRST_REFUSAL = 1.0
LONGEST_REFUSAL = 300.0
LONGEST_HELD = 60.0
"""Most seconds between two tries while creates are held back."""
FREED = 16
"""The number of creates at once from which on none is held back: after 1, 2, 4 and 8."""
FIRST_READ = 0.4
LONGEST_READ = 30.0
"""Seconds until pods are asked for again, at first and at most."""
DEFINITE = (403, 404)
"""Codes after which pods are not read again."""


@dataclass(slots=True)
class Answers:
    """The answers about one flow, as long as it has this UID and has not ended."""

    uid: str
    missing: set[str] = field(default_factory=set)
    """Vcjobs that a live read did not find."""
    holders: dict[str, view.Holder] = field(default_factory=dict)
    refusals: dict[str, view.Refusal] = field(default_factory=dict)
    refused: dict[str, int] = field(default_factory=dict)
    """How often in a row the create of each job was refused or met a name in use."""
    errors: dict[str, view.CreateError] = field(default_factory=dict)
    """The creates that fail by errors, by vcjob name."""
    held: view.Held | None = None
    """The answer that holds back all creates but a few."""
    held_tries: int = 0
    """How many tries in a row were refused meanwhile."""
    verdict: tuple[int | None, Sequence[Violation]] | None = None
    """The generation of the flow that was checked before its first plan, and its violations."""
    claims: dict[str, view.ClaimAnswer] = field(default_factory=dict)
    """By the name of the PersistentVolumeClaim; None: it exists and is the flow's."""
    aborts: dict[str, datetime] = field(default_factory=dict)
    """When the API server was last asked to take an AbortJob, by the vcjob's UID."""
    cancels: dict[str, datetime] = field(default_factory=dict)
    """When the API server was last asked to cancel another flow, by its UID."""
    read: dict[str, view.PodsRead] = field(default_factory=dict)
    """The pods of vcjobs as they were read live, by the vcjob's UID."""
    unread: dict[str, int] = field(default_factory=dict)
    """How often in a row reading them failed, by the vcjob's UID."""
    next_read: datetime | None = None
    """When pods that could not be read last are asked for again."""
    written_at: float | None = None
    """Monotonic time of the last status write."""
    changed_at: float | None = None
    """Monotonic time since when there is a status to write that was not written yet."""
    tried: JobFlowStatus | None = None
    """The status that was sent last, as `timeless` returns it, also if no answer came."""
    sent: tuple[JobFlowStatus, str] | None = None
    """The status last written, as `timeless` returns it, and the flow's resource version after
    it."""
    failed: set[str] = field(default_factory=set)
    """The requests that failed, by `request_of`: none is repeated in the flow's backoff."""

    @property
    def create_errors(self) -> list[view.CreateError]:
        """Those of vcjobs and of volume claims."""
        claims = (each for each in self.claims.values() if isinstance(each, view.CreateError))
        return [*self.errors.values(), *claims]

    def settle(self, name: str) -> None:
        """Forget the answers about the name of a vcjob that exists and is the flow's."""
        self.missing.discard(name)
        self.holders.pop(name, None)
        self.refusals.pop(name, None)
        self.refused.pop(name, None)
        self.errors.pop(name, None)

    def outdate(self, jobs: Mapping[str, Job]) -> None:
        """Forget answers that no longer apply to these jobs."""
        if self.read or self.unread:
            ended = {job.metadata.uid: job.ended for job in jobs.values()}
            for uid in self.read.keys() | self.unread.keys():
                if not ended.get(uid):  # it is gone, or somebody has resumed it
                    self.read.pop(uid, None)
                    self.unread.pop(uid, None)
        if self.aborts:
            for key in outdated(self.aborts, jobs.values()):
                del self.aborts[key]


def timeless(status: JobFlowStatus) -> JobFlowStatus:
    """Return the status without the fields that change by time alone."""
    return msgspec.structs.replace(status, duration="")


class Memory:
    """The answers of all flows, and which flows wait for a name that another vcjob has."""

    def __init__(self, *, dice: Callable[[], float] = random.random) -> None:
        self._answers: dict[Key, Answers] = {}
        self._waiting: dict[Key, set[Key]] = {}
        self._dice = dice

    def of(self, flow: JobFlow) -> Answers:
        """Return the answers about this flow; empty if its name had another UID before."""
        key, uid = key_of(flow), flow.metadata.uid
        known = self._answers.get(key)
        if known is not None and known.uid == uid:
            return known
        self.forget(key)  # they are about a flow of this name that was deleted
        answers = self._answers[key] = Answers(uid)
        return answers

    def has_written(self, flow: JobFlow) -> bool:
        """Whether this version of a flow is the answer to the last write of its status."""
        known = self._answers.get(key_of(flow))
        sent = known.sent if known is not None else None
        return sent is not None and sent[1] == flow.metadata.resource_version

    def has_sent(self, flow: JobFlow) -> bool:
        """Whether a flow has the status that was sent last, whose answer may be lost."""
        known = self._answers.get(key_of(flow))
        return known is not None and known.tried == timeless(flow.status)

    def forget(self, flow: Key) -> None:
        known = self._answers.pop(flow, None)
        for name in known.holders if known is not None else ():
            waiting = self._waiting.get((flow[0], name), set())
            waiting.discard(flow)
            if not waiting:
                self._waiting.pop((flow[0], name), None)

    def hold(self, flow: JobFlow, job: Job, *, owner_alive: bool, now: datetime) -> None:
        answers, name = self.of(flow), job.metadata.name
        # an event reports its deletion; the backoff is for a missing event
        retry_at = now + self._wait(answers, name)
        answers.holders[name] = view.Holder(job, owner_alive, retry_at)
        self._waiting.setdefault((flow.metadata.namespace, name), set()).add(key_of(flow))

    def released(self, job: Key) -> set[Key]:
        """Forget the answers about the name of a vcjob. Return the flows that wait for it."""
        flows = self._waiting.pop(job, set())
        for flow in flows:
            if (known := self._answers.get(flow)) is not None:
                known.holders.pop(job[1], None)  # the next plan tries the create again
        return flows

    def refuse(self, flow: JobFlow, name: str, error: ApiError, now: datetime) -> None:
        """Note that a create was refused: for this vcjob alone, or by a quota or missing rights,
        which hold back the flow's other creates too."""
        answers = self.of(flow)
        answers.errors.pop(name, None)
        if not (why := error.for_the_namespace):
            retry_at = now + self._wait(answers, name)
            answers.refusals[name] = view.Refusal(error.code, error.message, retry_at)
            return
        held = answers.held
        if error.namespace_gone:
            next_try = None  # no create can succeed any more
        elif held is not None and not held.is_due(now):
            next_try = held.retry_at  # creates that were under way together count as one try
        else:
            tries, answers.held_tries = answers.held_tries, answers.held_tries + 1
            wait = delay(tries, first=FIRST_REFUSAL, most=LONGEST_HELD, dice=self._dice)
            next_try = now + timedelta(seconds=wait)
        answers.refusals.pop(name, None)
        before = held.tried if held is not None else ()
        tried = (*(each for each in before if each != name), name)
        answers.held = view.Held(why, next_try, tried)

    def fail_create(self, flow: JobFlow, name: str, error: Exception, sent: datetime) -> None:
        """Note that a create failed by an error, or got no answer. `sent`: when it was sent."""
        errors = self.of(flow).errors
        errors[name] = _describe_error(error, errors.get(name), sent)

    def fail_claim(self, flow: JobFlow, name: str, error: Exception, sent: datetime) -> None:
        """Note that the create or move of a volume claim failed by an error, or got no answer."""
        claims = self.of(flow).claims
        claims[name] = _describe_error(error, claims.get(name), sent)

    def refuse_claim(self, flow: JobFlow, name: str, error: ApiError, now: datetime) -> None:
        answers = self.of(flow)
        retry_at = None if error.namespace_gone else now + self._wait(answers, _claim(name))
        why = error.for_the_namespace or error.message
        answers.claims[name] = view.Refusal(error.code, why, retry_at)

    def hold_claim(
        self, flow: JobFlow, name: str, owner: OwnerReference | None, *, going: bool, now: datetime
    ) -> None:
        answers = self.of(flow)
        retry_at = now + self._wait(answers, _claim(name))
        answers.claims[name] = view.ClaimHolder(owner, going, retry_at)

    def let_in(self, flow: JobFlow, name: str, now: datetime) -> None:
        """Note that a create succeeded: if others are held back, one more may be tried at once."""
        answers = self.of(flow)
        answers.settle(name)
        held = answers.held
        if held is None or not held.is_due(now):  # it was sent before the refusal was known
            return
        answers.held_tries = 0
        tried = tuple(each for each in held.tried if each != name)
        more = replace(held, room=held.room + 1, tried=tried)
        answers.held = more if more.room < FREED else None

    def unread(self, flow: JobFlow, job_uid: str, error: Exception, now: datetime) -> view.PodsRead:
        """Note that the pods of a vcjob could not be read, and return when they may be again."""
        answers = self.of(flow)
        trouble, retry_at = str(error) or type(error).__name__, None
        if not isinstance(error, ApiError) or error.code not in DEFINITE:
            tries = answers.unread.get(job_uid, 0)
            answers.unread[job_uid] = tries + 1
            seconds = delay(tries, first=FIRST_READ, most=LONGEST_READ, dice=self._dice)
            asked = error.retry_after if isinstance(error, ApiError) else None
            wait = timedelta(seconds=max(seconds, asked or 0.0))
            # together with other pods of the flow that are due within twice the wait, else a
            # thousand jobs would cause a thousand plans
            own, retry_at = now + wait, answers.next_read
            if retry_at is None or not own <= retry_at <= own + wait:
                answers.next_read = retry_at = own
        answers.read[job_uid] = view.PodsRead(trouble=trouble, retry_at=retry_at)
        return answers.read[job_uid]

    def lift(self, flow: Key) -> None:
        """Forget the refusals of creates, because a template has changed."""
        if (known := self._answers.get(flow)) is not None:
            known.refusals.clear()
            known.refused.clear()

    def _wait(self, answers: Answers, name: str) -> timedelta:
        tries = answers.refused.get(name, 0)
        answers.refused[name] = tries + 1
        wait = delay(tries, first=FIRST_REFUSAL, most=LONGEST_REFUSAL, dice=self._dice)
        return timedelta(seconds=wait)


def _describe_error(error: Exception, before: object, sent: datetime) -> view.CreateError:
    what = f"the API server does not answer: {type(error).__name__}: {error}"
    if isinstance(error, ApiError):
        what = f"the API server answers with an error: {error}"
    since = before.since if isinstance(before, view.CreateError) else sent
    return view.CreateError(shorten(what), since)


def _claim(name: str) -> str:
    # a job may have the same name
    return f"{VOLUME_CLAIMS.kind} {name}"


def is_refusal(error: ApiError) -> bool:
    """Whether a create was refused because of its content, not the state of the server."""
    return 400 <= error.code < 500 and error.code not in (401, 408, 409, 429)
