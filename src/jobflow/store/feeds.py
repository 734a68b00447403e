"""The reflectors that keep a store up to date with an API server."""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import partial
from typing import Any

from jobflow.api.flow.cronjobflow import CronJobFlow
from jobflow.api.flow.jobflow import JobFlow, JobTemplate
from jobflow.api.resources import COMMANDS, CRONJOBFLOWS, JOBFLOWS, JOBS, JOBTEMPLATES, PODS, QUEUES
from jobflow.api.volcano.command import Command
from jobflow.api.volcano.job import Job
from jobflow.api.volcano.pod import JOB_NAME, Pod
from jobflow.kube.client import Client
from jobflow.kube.reflector import Reflector
from jobflow.store.copies import Queue, Store

PODS_OF_JOBS = [("labelSelector", JOB_NAME)]

Feed = Reflector[Any]
"""A reflector of any kind."""


@dataclass(frozen=True, slots=True)
class Feeds:
    """One reflector for each kind; each has to be `run`. Iterating skips None."""

    flows: Reflector[JobFlow]
    templates: Reflector[JobTemplate]
    jobs: Reflector[Job]
    commands: Reflector[Command]
    crons: Reflector[CronJobFlow]
    queues: Reflector[Queue] | None
    """None if one namespace is followed: queues belong to none."""
    pods: Reflector[Pod] | None
    """None if the store follows no pods."""

    def __iter__(self) -> Iterator[Feed]:
        reflectors = (getattr(self, field.name) for field in fields(self))
        return filter(None, reflectors)

    def outdated(self) -> list[Feed]:
        """Return the feeds whose copies are too old to rely on. Commands, queues and pods are not
        among them: plans and reviews do without them while they cannot be followed."""
        needed: tuple[Feed, ...] = (self.flows, self.templates, self.jobs, self.crons)
        return [feed for feed in needed if feed.outdated]


def feeds(
    store: Store, client: Client, *, namespace: str = "", max_age: float | None = None
) -> Feeds:
    """Return the reflectors that keep the store up to date, each copy at most `max_age` seconds old
    while the API server answers. With a `namespace`, nothing outside it is requested, so queues are
    not known."""
    here = partial(Reflector[Any], client, namespace=namespace, max_age=max_age)
    queues, pods = None, None
    if namespace:
        # a Role in one namespace cannot allow to read queues, which belong to none
        store.queues.absent()
    else:
        queues = here(QUEUES, Queue, store.queues)
    if store.has_pods:
        # pods are listed last: flows and jobs decide which of them are kept
        cache, listed = store.pods.cache, store.listed.wait
        pods = here(PODS, Pod, cache, query=PODS_OF_JOBS, after=listed)
    return Feeds(
        flows=here(JOBFLOWS, JobFlow, store.flows),
        templates=here(JOBTEMPLATES, JobTemplate, store.templates),
        jobs=here(JOBS, Job, store.jobs),
        commands=here(COMMANDS, Command, store.commands),
        crons=here(CRONJOBFLOWS, CronJobFlow, store.crons),
        queues=queues,
        pods=pods,
    )
