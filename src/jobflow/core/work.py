"""The facts of each kind of work: what messages, pages, graphs and rules need to know of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from jobflow.api.flow.control import Case
from jobflow.api.flow.step import Step, WorkKind
from jobflow.api.resources import JOBFLOWS, JOBS, Resource


@dataclass(frozen=True, slots=True)
class Work:
    """The facts of one kind of work."""

    noun: str
    """The word for one attempt in a sentence."""
    word: str = ""
    """The word beside the name of its steps in graphs and tables; "" for most steps."""
    resource: Resource | None = None
    """The object that each attempt creates, if it creates one."""
    has_template: bool = False
    """Whether it may be made of a JobTemplate."""
    has_pods: bool = False
    """Whether pods belong to its object itself, which a probe can check."""
    has_steps: bool = False
    """Whether it has steps of its own, so that a failure is that of one of them."""
    asks: bool = False
    """Whether a user answers it."""

    @property
    def has_jobs(self) -> bool:
        """Whether vcjobs run for it: it creates an object."""
        return self.resource is not None


WORK: Mapping[WorkKind, Work] = {
    WorkKind.JOB: Work("job", resource=JOBS, has_template=True, has_pods=True),
    WorkKind.FLOW: Work("flow", word="flow", resource=JOBFLOWS, has_steps=True),
    WorkKind.APPROVAL: Work("approval", word="approval", asks=True),
}


def work_of(step: Step, case: Case | None = None) -> Work:
    """Return the facts of what a step runs in a case of its `switch`."""
    return WORK[step.kind_of(case)]


def works_of(step: Step) -> Iterator[Work]:
    """Yield the facts of all that a step may run."""
    return map(WORK.__getitem__, step.kinds)


def is_asked(step: Step) -> bool:
    """Return whether a step waits for the answer of a user."""
    return any(work.asks for work in works_of(step))


def may_run_steps(step: Step) -> bool:
    """Return whether a step, or a case of its `switch`, runs a flow."""
    return any(work.has_steps for work in works_of(step))
