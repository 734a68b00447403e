"""The reflectors that keep a store up to date with an API server."""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

from jobflow.api.flow.cronjobflow import CronJobFlow
from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.jobtemplate import JobTemplate
from jobflow.api.resources import (
    COMMANDS,
    CRONJOBFLOWS,
    JOBFLOWS,
    JOBS,
    JOBTEMPLATES,
    PODS,
    QUEUES,
)
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
        return (reflector for reflector in reflectors if reflector is not None)


def feeds(store: Store, client: Client, *, namespace: str = "") -> Feeds:
    """Return the reflectors that keep the store up to date. With a `namespace`, nothing outside it
    is requested, so queues are not known."""
    queues, pods = None, None
    if namespace:
        store.queues.absent()
    else:
        queues = Reflector(client, QUEUES, Queue, store.queues)
    if store.has_pods:
        pods = Reflector(
            client,
            PODS,
            Pod,
            store.pods.cache,
            namespace=namespace,
            query=PODS_OF_JOBS,
            after=store.listed.wait,
        )
    return Feeds(
        Reflector(client, JOBFLOWS, JobFlow, store.flows, namespace=namespace),
        Reflector(client, JOBTEMPLATES, JobTemplate, store.templates, namespace=namespace),
        Reflector(client, JOBS, Job, store.jobs, namespace=namespace),
        Reflector(client, COMMANDS, Command, store.commands, namespace=namespace),
        Reflector(client, CRONJOBFLOWS, CronJobFlow, store.crons, namespace=namespace),
        queues,
        pods,
    )
