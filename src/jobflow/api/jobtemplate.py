"""`flow.volcano.sh/v1alpha1` JobTemplate: a vcjob spec that is not run by itself."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from jobflow.api.job import JobSpec
from jobflow.api.meta import Doc, ListMeta, ObjectMeta, Struct


class JobTemplateStatus(Struct, frozen=True, kw_only=True):
    """What came of a template."""

    job_depends_on_list: Annotated[
        list[str] | None,
        Doc(
            "Names of the Volcano jobs made from this template that are there, the newest first; "
            "at most 100, and brought up to date at most every 30 s."
        ),
    ] = None


class JobTemplate(Struct, frozen=True, kw_only=True):
    """A Volcano job specification that is not run by itself: steps of JobFlows make jobs from it.

    `spec` stays as it was written, so that a field which this version does not know reaches the
    job; `typed_spec` reads it as the fields we know.
    """

    api_version: str = "flow.volcano.sh/v1alpha1"
    kind: str = "JobTemplate"
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: dict[str, Any] = {}
    status: JobTemplateStatus = JobTemplateStatus()

    def typed_spec(self) -> JobSpec:
        """The spec as a type. Raises msgspec.ValidationError where a field has another type."""
        return msgspec.convert(self.spec, JobSpec)


class JobTemplateList(Struct, frozen=True, kw_only=True):
    """A page of templates."""

    metadata: ListMeta = msgspec.field(default_factory=ListMeta)
    items: list[JobTemplate] = []
