"""`flow.volcano.sh/v1alpha1` JobTemplate: a vcjob spec that steps of flows run."""

from typing import Annotated, Any

import msgspec

from jobflow.api.meta import Doc, ObjectMeta, Struct


class JobTemplateStatus(Struct, frozen=True, kw_only=True):
    """Status of the template."""

    job_depends_on_list: Annotated[
        list[str] | None,
        Doc(
            "Names of existing Volcano jobs of this template, newest first, at most 100. Updated "
            "at most every 30 s."
        ),
    ] = None


class JobTemplate(Struct, frozen=True, kw_only=True):
    """A Volcano job specification from which steps of JobFlows create jobs.

    `spec` stays as it was written, so that fields which this version does not know reach the job.
    """

    api_version: str = "flow.volcano.sh/v1alpha1"
    kind: str = "JobTemplate"
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: dict[str, Any] = {}
    status: JobTemplateStatus = JobTemplateStatus()
