"""The table of the kinds of work: the module that decides about the attempts of each.

No other place of `core/planning` chooses by the kind of work; what only words and rules need is a
fact (`core/work.py`). When an attempt starts, is retried or aborted, or has timed out, is one rule
for all of them (`started/run.py`).
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Protocol

from jobflow.api.flow.status import RequestedHours
from jobflow.api.flow.traits import WorkKind
from jobflow.api.volcano.job import Job
from jobflow.core.planning.context import PlanContext
from jobflow.core.planning.decision import Builder, RunDecision
from jobflow.core.planning.observed.steps import ObservedRun
from jobflow.core.planning.work import approval, child_flow, compute, fail, vcjob
from jobflow.core.planning.work.abort import Asked


class ObjectWork(Protocol):
    """A kind of work of which each attempt is an object in the cluster. Plans read every object in
    the form of a vcjob (`Job`), with the facts of its kind beside it."""

    @property
    def build(self) -> Builder:
        """Makes the object of an attempt."""

    def longest_suffix(self, run: ObservedRun, ctx: PlanContext) -> int:
        """Return the characters that names derived from the object's name add at most."""

    def resume(self, run: ObservedRun, ctx: PlanContext) -> RunDecision | None:
        """Return the decision that continues an ended object after a retry of the flow; None: a
        new one is made."""

    def abort(self, job: Job, since: datetime | None, ctx: PlanContext) -> Asked:
        """Return what ends an object that runs. `since`: when this was stored; None if no run needs
        the object, so that nothing waits for its end."""

    def settle(self, run: ObservedRun, job: Job, ctx: PlanContext) -> RunDecision:
        """Return the end of a run whose object has ended, or the read that it needs first."""

    def hours(self, run: ObservedRun, job: Job, ctx: PlanContext) -> RequestedHours | None:
        """Return the requested hours of a run with those of its latest object, which has ended or
        is gone."""


class WorkAtOnce(Protocol):
    """A kind of work that needs nothing from outside: an attempt ends where it starts.

    Its end is stored before an object that depends on it is created (`Progress.unstored`).
    """

    def start(self, run: ObservedRun, ctx: PlanContext) -> RunDecision:
        """Return the end of an attempt, number `run.next_attempt`; a wait without an attempt if
        this plan may evaluate no more."""


class OwnWork(WorkAtOnce, Protocol):
    """A kind of work without objects: an attempt is a condition in the status.

    The condition has `attempts`, `create_time` (tables and timelines show it), and `deadline` if
    its timeout ends it. Its phase is Running unless a user is to answer: then dependants with the
    condition Running start.
    """

    def start(self, run: ObservedRun, ctx: PlanContext) -> RunDecision:
        """Begin an attempt, also once more after a retry of the flow: number `run.next_attempt`.
        One that needs nothing from outside, or of which a reference has no value, ends at once.
        There are no wants yet: nobody is asked before the attempt is stored."""

    def settle(self, run: ObservedRun, ctx: PlanContext) -> RunDecision | None:
        """Return the end of an attempt by the answer in the View; None if there is none. An answer
        that came is used even if the flow ends the attempt at this moment."""

    def abort(self, run: ObservedRun, why: str, ctx: PlanContext) -> RunDecision | None:
        """Return the end of an attempt for a reason of the flow, or because of its deadline; None
        if it goes on all the same."""

    def wait(self, run: ObservedRun, ctx: PlanContext) -> RunDecision:
        """Return the decision about an attempt that goes on, with its wants, which plans repeat
        until its end is stored. They are keyed by the step, and the index and number of the attempt
        (`0/1`, or `/1` without items), so that no attempt has the answer of another one."""


OBJECT_WORK: Mapping[WorkKind, ObjectWork] = {WorkKind.JOB: vcjob, WorkKind.FLOW: child_flow}
OWN_WORK: Mapping[WorkKind, OwnWork] = {WorkKind.APPROVAL: approval}
AT_ONCE: Mapping[WorkKind, WorkAtOnce] = {WorkKind.COMPUTE: compute, WorkKind.FAIL: fail}
