"""The Commands that the controller makes for Volcano, as objects. Sends nothing.

Volcano acts when it sees one come, by the target's name, and deletes it first
(pkg/controllers/job, processNextCommand).
"""

from __future__ import annotations

from jobflow.api.command import Action, Command
from jobflow.api.jobflow import JobFlow
from jobflow.api.meta import ObjectMeta, OwnerReference
from jobflow.api.resources import JOBS
from jobflow.core.planning.actions import AbortJob


def abort_command(flow: JobFlow, action: AbortJob) -> Command:
    """`<vcjob>-abort`. One name a vcjob, so that they never pile up where Volcano is away; owned by
    the vcjob, so that none outlives it."""
    job = OwnerReference(
        api_version=JOBS.api_version, kind=JOBS.kind, name=action.name, uid=action.uid
    )
    return Command(
        metadata=ObjectMeta(
            name=f"{action.name}-abort",
            namespace=flow.metadata.namespace,
            owner_references=[job],
        ),
        action=Action.ABORT_JOB,
        target=job,
        reason="JobFlow",
        message=f"by the JobFlow {flow.metadata.name}",
    )
