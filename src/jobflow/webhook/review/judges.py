"""Which of the core's rules a request is held against, by kind and operation; no rule is here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeVar

import msgspec

from jobflow.api.jobflow import JobFlow, JobFlowSpec
from jobflow.api.jobtemplate import JobTemplate
from jobflow.core.admission.analysis.effort import effort_of_json, exceeds
from jobflow.core.admission.analysis.flow_facts import FlowFacts
from jobflow.core.admission.changes import Need
from jobflow.core.admission.rules.depth import depth_violations
from jobflow.core.admission.validate import (
    Known,
    validate_facts,
    validate_flow_delete,
    validate_flow_update,
    validate_template,
    validate_template_delete,
    validate_template_update,
)
from jobflow.core.json_values import is_same_json
from jobflow.core.manifests.crd_schema import schema_violations
from jobflow.core.violations import Verdict, Violation
from jobflow.webhook.dry_run.patched_pods import flow_in_depth, patched_pods
from jobflow.webhook.dry_run.template_pods import MOST_TRIED, DryRun, in_depth, pod_templates
from jobflow.webhook.review.envelope import UserInfo

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

    async def needed_by(self, namespace: str, template: str) -> Sequence[Need]:
        """The flows of a namespace that still need this template."""

    async def namespace_terminating(self, name: str) -> bool:
        """Whether the namespace is being deleted; False where that cannot be read."""

    async def dry_run(self, namespace: str, templates: Sequence[bytes]) -> Sequence[DryRun | None]:
        """What the API server says of each of these pod templates, in JSON, within seconds; None
        of those that it has not answered by then."""


class Rights(Protocol):
    """What users may do (`webhook.rights`)."""

    async def lacking(self, user: UserInfo, namespace: str) -> str:
        """Why the user may not create vcjobs in the namespace; empty if they may. Raises
        NotReady."""


class TooMuch(Exception):
    """Judging this takes more work than the judge may do."""


class NotJudged(Exception):
    """There is no verdict; the text is for whoever sent the object."""

    code = 500
    reason = "InternalError"
    retry_after: int | None = None
    """Seconds after which the client asks again by itself."""


class NotReady(NotJudged):
    """The question needs knowledge of the cluster that is not there yet."""

    code = 503
    reason = "ServiceUnavailable"

    def __str__(self) -> str:
        return f"{super().__str__()}; try again"


class Denied(NotJudged):
    """The user may not have this done."""

    code = 403
    reason = "Forbidden"


class Judge(Protocol[T]):
    """The verdicts on one kind. The creation of a flow waits for nothing but the dry run of pod
    templates that its patches make.

    A creation or a change that is more work than the judge may do raises TooMuch.
    """

    kind: str
    object_type: type[T]

    async def create(self, new: T, user: UserInfo) -> Verdict: ...

    async def update(self, old: T, new: T, user: UserInfo) -> Verdict: ...

    async def delete(self, old: T) -> Verdict: ...

    async def changed(self, new: T, user: UserInfo) -> Verdict:
        """An update of the spec of an object whose old form no type fits."""


class FlowJudge:
    """JobFlow: CREATE by all rules, UPDATE keeps the spec, DELETE only when it is final."""

    kind = "JobFlow"
    object_type = JobFlow

    def __init__(self, cluster: Cluster, rights: Rights | None, most: float) -> None:
        self._cluster = cluster
        self._rights = rights
        self._most = most

    async def create(self, new: JobFlow, user: UserInfo) -> Verdict:
        facts = FlowFacts(new, known(self._cluster, new.metadata.namespace))
        if exceeds(facts, self._most):
            raise TooMuch
        verdict = validate_facts(facts)
        if verdict.violations:
            return verdict
        if self._rights is not None:
            await _check_rights(self._rights, user, new)
        return await self._in_depth(facts, verdict) if facts.changes else verdict

    async def update(self, old: JobFlow, new: JobFlow, user: UserInfo) -> Verdict:
        if new.metadata.deletion_timestamp is not None:
            return PASS  # nothing is started from it any more
        return validate_flow_update(old, new)

    async def changed(self, new: JobFlow, user: UserInfo) -> Verdict:
        return await self.update(JobFlow(metadata=new.metadata, spec=JobFlowSpec()), new, user)

    async def _in_depth(self, facts: FlowFacts, verdict: Verdict) -> Verdict:
        """With what the API server finds in the pod templates that patches make."""
        namespace = facts.flow.metadata.namespace
        if not (tried := patched_pods(facts)):
            return verdict
        first = [each.template for each in tried[:MOST_TRIED]]
        answers = await self._cluster.dry_run(namespace, first)
        return flow_in_depth(verdict, tried, answers)

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

    def __init__(self, cluster: Cluster, rights: Rights | None, most: float) -> None:
        self._cluster = cluster
        self._rights = rights
        self._most = most

    async def create(self, new: JobTemplate, user: UserInfo) -> Verdict:
        self._is_little(new)
        if misfits := _misfits(new):
            return Verdict(misfits)
        verdict = validate_template(new, known(self._cluster, new.metadata.namespace))
        return await self._allowed(new, user, verdict)

    async def update(self, old: JobTemplate, new: JobTemplate, user: UserInfo) -> Verdict:
        if new.metadata.deletion_timestamp is not None or is_same_json(old.spec, new.spec):
            return PASS
        self._is_little(new)
        if misfits := _misfits(new):
            return Verdict(misfits)
        verdict = validate_template_update(old, new, known(self._cluster, new.metadata.namespace))
        return await self._allowed(new, user, verdict)

    async def changed(self, new: JobTemplate, user: UserInfo) -> Verdict:
        return await self.create(new, user)

    async def delete(self, old: JobTemplate) -> Verdict:
        namespace = old.metadata.namespace
        if not self._cluster.follows(namespace):
            return PASS
        if not self._cluster.knows(namespace):
            raise NotReady("which flows use it is still being read")
        needed_by = await self._cluster.needed_by(namespace, old.metadata.name)
        verdict = validate_template_delete(old, needed_by, namespace_terminating=False)
        if not verdict.violations:
            return verdict
        if not await self._cluster.namespace_terminating(namespace):
            return verdict
        return validate_template_delete(old, needed_by, namespace_terminating=True)

    def _is_little(self, new: JobTemplate) -> None:
        if effort_of_json(new.spec) > self._most:
            raise TooMuch

    async def _allowed(self, new: JobTemplate, user: UserInfo, verdict: Verdict) -> Verdict:
        """The verdict with what the API server finds. Raises Denied: whoever changes a template
        decides what flows of others run from it."""
        if self._rights is not None and not verdict.violations:
            await _check_rights(self._rights, user, new)
        return await self._in_depth(new, verdict)

    async def _in_depth(self, new: JobTemplate, verdict: Verdict) -> Verdict:
        """With what the API server finds in the pod templates."""
        namespace = new.metadata.namespace
        tried = pod_templates(new.spec)
        if not tried or not self._cluster.follows(namespace):
            return verdict
        first = [each.template for each in tried[:MOST_TRIED]]
        answers = await self._cluster.dry_run(namespace, first)
        return in_depth(verdict, tried, answers)


def _misfits(template: JobTemplate) -> tuple[Violation, ...]:
    """Where the spec, which decoding leaves as it is, is nested too deeply or has another shape
    than the CRD says."""
    if too_deep := tuple(depth_violations(template.spec, "spec")):
        return too_deep
    try:
        template.typed_spec()
    except msgspec.ValidationError:
        spec = {"spec": template.spec}
        return tuple(schema_violations(TemplateJudge.kind, spec, strict=False))
    return ()


async def _check_rights(rights: Rights, user: UserInfo, new: JobFlow | JobTemplate) -> None:
    """Raise Denied if the user may not have vcjobs made in the object's namespace."""
    if why := await rights.lacking(user, new.metadata.namespace):
        raise Denied(why)


def known(cluster: Cluster, namespace: str) -> Known:
    """What rules may know of the cluster; nothing of what has not been read."""
    if not cluster.knows(namespace):
        return Known()
    return Known(templates=cluster.templates(namespace), queues=cluster.queues())
