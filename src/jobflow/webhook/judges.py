"""Which of the core's rules a request is held against, by kind and operation; no rule is here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol, TypeVar

import msgspec

from jobflow.api.jobflow import JobFlow, JobFlowSpec
from jobflow.api.jobtemplate import JobTemplate
from jobflow.core.schema import schema_violations
from jobflow.core.validate import (
    Known,
    validate_flow,
    validate_flow_delete,
    validate_flow_update,
    validate_template,
    validate_template_delete,
    validate_template_update,
)
from jobflow.core.violations import Verdict, Violation

T = TypeVar("T", JobFlow, JobTemplate)

PASS = Verdict()


class Cluster(Protocol):
    """What the webhook knows of the cluster (`webhook.cluster`)."""

    def unfit(self) -> str:
        """Why nothing may be judged at present; empty where it may."""

    def follows(self, namespace: str) -> bool:
        """Whether this process looks after the flows of the namespace."""

    def knows(self, namespace: str) -> bool:
        """Whether it does and has read them; until then absence means nothing."""

    def templates(self, namespace: str) -> Mapping[str, JobTemplate]:
        """The templates of a namespace by name."""

    def queues(self) -> Mapping[str, str] | None:
        """Queue name to state; None where the kind is not served."""

    def flows_using(self, namespace: str, template: str) -> Iterable[JobFlow]:
        """The flows of a namespace with a step that runs this template."""

    async def namespace_terminating(self, name: str) -> bool:
        """Whether the namespace is being deleted; False where that cannot be read."""


class NotReady(Exception):
    """The question needs knowledge of the cluster that is not there yet."""


class Judge(Protocol[T]):
    """The verdicts on one kind."""

    kind: str
    object_type: type[T]

    def create(self, new: T) -> Verdict: ...

    def update(self, old: T, new: T) -> Verdict: ...

    async def delete(self, old: T) -> Verdict: ...

    def changed(self, new: T) -> Verdict:
        """An update of the spec of an object whose old form no type fits."""


class FlowJudge:
    """JobFlow: CREATE by all rules, UPDATE keeps the spec, DELETE only when it is final."""

    kind = "JobFlow"
    object_type = JobFlow

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def create(self, new: JobFlow) -> Verdict:
        return validate_flow(new, known(self._cluster, new.metadata.namespace))

    def update(self, old: JobFlow, new: JobFlow) -> Verdict:
        if new.metadata.deletion_timestamp is not None:
            return PASS
        return validate_flow_update(old, new)

    def changed(self, new: JobFlow) -> Verdict:
        return self.update(JobFlow(metadata=new.metadata, spec=JobFlowSpec()), new)

    async def delete(self, old: JobFlow) -> Verdict:
        verdict = validate_flow_delete(old, namespace_terminating=False)
        if not verdict.violations:
            return verdict
        if not await self._cluster.namespace_terminating(old.metadata.namespace):
            return verdict
        return validate_flow_delete(old, namespace_terminating=True)


class TemplateJudge:
    """JobTemplate: CREATE and a changed spec by all rules, DELETE only when no flow needs it."""

    kind = "JobTemplate"
    object_type = JobTemplate

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def create(self, new: JobTemplate) -> Verdict:
        if misfits := _misfits(new):
            return Verdict(misfits)
        return validate_template(new, known(self._cluster, new.metadata.namespace))

    def update(self, old: JobTemplate, new: JobTemplate) -> Verdict:
        if new.metadata.deletion_timestamp is not None:
            return PASS
        if new.spec != old.spec and (misfits := _misfits(new)):
            return Verdict(misfits)
        return validate_template_update(old, new, known(self._cluster, new.metadata.namespace))

    def changed(self, new: JobTemplate) -> Verdict:
        return self.create(new)

    async def delete(self, old: JobTemplate) -> Verdict:
        namespace = old.metadata.namespace
        if not self._cluster.follows(namespace):
            return PASS
        if not self._cluster.knows(namespace):
            raise NotReady("which flows use it is still being read")
        flows = list(self._cluster.flows_using(namespace, old.metadata.name))
        verdict = validate_template_delete(old, flows, namespace_terminating=False)
        if not verdict.violations:
            return verdict
        if not await self._cluster.namespace_terminating(namespace):
            return verdict
        return validate_template_delete(old, flows, namespace_terminating=True)


def _misfits(template: JobTemplate) -> tuple[Violation, ...]:
    """Where the spec, which decoding leaves as it is, has another shape than the CRD says."""
    try:
        template.typed_spec()
    except msgspec.ValidationError:
        spec = {"spec": template.spec}
        return tuple(schema_violations(TemplateJudge.kind, spec, strict=False))
    return ()


def known(cluster: Cluster, namespace: str) -> Known:
    """What rules may know of the cluster; nothing of what has not been read."""
    if not cluster.knows(namespace):
        return Known()
    return Known(templates=cluster.templates(namespace), queues=cluster.queues())
