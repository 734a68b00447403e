"""The facts of each kind of work: what messages, pages, graphs and rules need to know of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from jobflow.api.flow.control import Case
from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.step import Step
from jobflow.api.flow.traits import WorkKind
from jobflow.api.resources import JOBFLOWS, JOBS, Resource
from jobflow.api.volcano.job import Job
from jobflow.core.reasons import StepReason


@dataclass(frozen=True, slots=True)
class Work:
    """The facts of one kind of work."""

    kind: WorkKind
    noun: str
    """The word for one attempt in a sentence."""
    word: str = ""
    """The word beside the name of a step in a graph; "" for a job, as most steps run."""
    resource: Resource | None = None
    """The object that each attempt creates, if it creates one."""
    has_pods: bool = False
    """Whether pods belong to its object itself, which a probe can check."""
    has_steps: bool = False
    """Whether it has steps of its own, so that a failure is that of one of them."""
    is_recorded: bool = False
    """Whether its objects are in `jobStatusList`."""
    does: str = ""
    """The clause for a step that runs it, if it has no object."""
    at_once: bool = False
    """Whether an attempt ends where it starts, because it needs nothing from outside."""
    asks: bool = False
    """Whether a user answers it."""
    fails: tuple[StepReason, ...] = ()
    """The reasons of its failed attempts, besides those in OF_ATTEMPTS."""

    @property
    def has_objects(self) -> bool:
        return self.resource is not None


WORK: Mapping[WorkKind, Work] = {
    work.kind: work
    for work in (
        Work(WorkKind.JOB, "job", resource=JOBS, has_pods=True, is_recorded=True),
        Work(WorkKind.FLOW, "flow", word="flow", resource=JOBFLOWS, has_steps=True),
        Work(WorkKind.APPROVAL, "approval", word="approval", does="waits for approval", asks=True),
        Work(WorkKind.COMPUTE, "value", word="values", does="computes values", at_once=True),
        Work(WorkKind.FAIL, "failure", word="fail", does="fails the flow", at_once=True),
    )
}

_BY_RESOURCE = {work.resource.kind: work for work in WORK.values() if work.resource is not None}


def work_of_object(job: Job | JobFlow) -> Work:
    return _BY_RESOURCE[job.kind]


def work_of(step: Step, case: Case | None = None) -> Work:
    return WORK[step.kind_of(case)]


def works_of(step: Step) -> Iterator[Work]:
    return map(WORK.__getitem__, step.kinds)


def is_asked(step: Step) -> bool:
    return any(work.asks for work in works_of(step))


def ends_in_status(step: Step) -> bool:
    """Return whether a step runs work without objects, whose end only the status shows."""
    return not any(work.has_objects for work in works_of(step))


def has_own_job(step: Step, case: Case | None) -> bool:
    """Return whether the flow itself, which cannot change, has the spec of the job of a step."""
    return step.kind_of(case) is WorkKind.JOB and step.template_for(case) is None


def may_run_steps(step: Step) -> bool:
    """Return whether a step, or a case of its `switch`, runs a flow."""
    return WorkKind.FLOW in step.kinds
