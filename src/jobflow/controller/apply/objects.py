"""The table of the kinds of work whose attempts are objects: where each is sent, read and kept."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.traits import WorkKind
from jobflow.api.resources import JOBFLOWS, JOBS, Resource
from jobflow.api.volcano.job import Job
from jobflow.controller.apply.live_reads import LiveReads
from jobflow.core.planning.observed.child_flow import observe
from jobflow.kube.cache import Cache
from jobflow.store import Store


class ObjectKind(NamedTuple):
    """The objects of one kind of work."""

    resource: Resource
    """Where they are created and deleted."""
    type: type[Any]
    """The type that an answer is decoded to."""
    cache: Callable[[Store], Cache[Any]]
    """The copy that their reflector fills (`store/feeds.py`)."""
    read: Callable[[LiveReads, JobFlow, str], Awaitable[Any]]
    """Read one live, by the flow and its name."""
    observe: Callable[[Any], Job]
    """Make it what plans read."""


OBJECTS: Mapping[WorkKind, ObjectKind] = {
    WorkKind.JOB: ObjectKind(JOBS, Job, lambda store: store.jobs, LiveReads.job, lambda job: job),
    WorkKind.FLOW: ObjectKind(
        JOBFLOWS, JobFlow, lambda store: store.flows, LiveReads.child, observe
    ),
}
