"""The Command by which the controller has Volcano abort a vcjob.

Volcano finds the target by name and deletes the Command first (pkg/controllers/job,
processNextCommand).
"""

from __future__ import annotations

from jobflow.api.command import Action, Command
from jobflow.api.jobflow import JobFlow
from jobflow.api.meta import ObjectMeta, OwnerReference
from jobflow.api.resources import JOBS
from jobflow.core.planning.actions import AbortJob


def abort_command(flow: JobFlow, action: AbortJob) -> Command:
    """Return the Command `<vcjob>-abort`. Its name is fixed, so that Commands do not pile up while
    Volcano is down; the vcjob owns it, so that it is deleted with the vcjob."""
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
