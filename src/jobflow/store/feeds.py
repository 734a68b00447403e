"""The reflectors that keep a store level with an API server: which kinds, and what of them."""

from __future__ import annotations

from jobflow.api.command import Command
from jobflow.api.job import Job
from jobflow.api.jobflow import JobFlow
from jobflow.api.jobtemplate import JobTemplate
from jobflow.api.pod import JOB_NAME, Pod
from jobflow.api.resources import COMMANDS, JOBFLOWS, JOBS, JOBTEMPLATES, PODS, QUEUES
from jobflow.kube.client import Client
from jobflow.kube.reflector import Reflector
from jobflow.store.copies import Queue, Store

OF_JOBS = [("labelSelector", JOB_NAME)]
"""Pods that belong to some vcjob."""

Feed = (
    Reflector[JobFlow]
    | Reflector[JobTemplate]
    | Reflector[Job]
    | Reflector[Command]
    | Reflector[Queue]
    | Reflector[Pod]
)


def feeds(store: Store, client: Client, *, namespace: str = "") -> list[Feed]:
    """Return the reflectors that keep the store level with the API server; each has to be `run`.

    With a `namespace` nothing outside it is asked for, so queues are not known.

    Pods come last, and only for a store that has them.
    """
    found: list[Feed] = [
        Reflector(client, JOBFLOWS, JobFlow, store.flows, namespace=namespace),
        Reflector(client, JOBTEMPLATES, JobTemplate, store.templates_cache, namespace=namespace),
        Reflector(client, JOBS, Job, store.jobs, namespace=namespace),
        Reflector(client, COMMANDS, Command, store.commands_cache, namespace=namespace),
    ]
    if namespace:
        store.queues_cache.absent()  # queues belong to no namespace
    else:
        found.append(Reflector(client, QUEUES, Queue, store.queues_cache))
    if store.has_pods:
        found.append(
            Reflector(
                client,
                PODS,
                Pod,
                store.pods.cache,
                namespace=namespace,
                query=OF_JOBS,
                after=store.wait_listed,
            )
        )
    return found
