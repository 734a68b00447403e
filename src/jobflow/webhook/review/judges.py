"""Judges: the core's rules that apply to a request, by kind and operation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeVar

import msgspec

from jobflow.api.jobflow import JobFlow, JobFlowSpec
from jobflow.api.jobtemplate import JobTemplate
from jobflow.api.kinds import FlowObject
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
from jobflow.core.json_values import is_same
from jobflow.core.manifests.crd_schema import schema_violations
from jobflow.core.violations import Verdict, Violation
from jobflow.webhook.dry_run.patched_pods import add_patched_pod_faults, patched_pods
from jobflow.webhook.dry_run.template_pods import MOST_TRIED, DryRun, add_pod_faults, pod_templates
from jobflow.webhook.review.envelope import UserInfo

T_contra = TypeVar("T_contra", bound=FlowObject, contravariant=True)

PASS = Verdict()


class Cluster(Protocol):
    """The webhook's knowledge of the cluster (`webhook.cluster`)."""

    def unfit(self) -> str:
        """Return why nothing may be judged at present, or ""."""

    def follows(self, namespace: str) -> bool:
        """Return whether this process follows the flows of the namespace."""

    def knows(self, namespace: str) -> bool:
        """Return whether it has also read them; until then absence means nothing."""

    def templates(self, namespace: str) -> Mapping[str, JobTemplate]:
        """Return the templates of a namespace by name."""

    def queues(self) -> Mapping[str, str] | None:
        """Return states by queue name; None if the kind is not served."""

    async def needed_by(self, namespace: str, template: str) -> Sequence[Need]:
        """Return the flows of a namespace that still need this template."""

    async def namespace_terminating(self, name: str) -> bool:
        """Return whether the namespace is being deleted; False if it cannot be read."""

    async def dry_run(self, namespace: str, templates: Sequence[bytes]) -> Sequence[DryRun | None]:
        """Return the API server's answer to each of these pod templates (JSON); None for a template
        that was not answered in time."""


class Rights(Protocol):
    """Check of users' rights (`webhook.access_rights`)."""

    async def lacking(self, user: UserInfo, namespace: str) -> str:
        """Return why the user may not create vcjobs in the namespace, or "". Raises NotReady."""


class TooMuch(Exception):
    """The request takes more effort than this judge may spend."""


class NotJudged(Exception):
    """No verdict is possible; the text is for the user who sent the object."""

    code, reason = 500, "InternalError"
    retry_after: int | None = None
    """Seconds after which a client retries by itself."""


class NotReady(NotJudged):
    """The verdict needs knowledge of the cluster that was not read yet."""

    code, reason = 503, "ServiceUnavailable"

    def __str__(self) -> str:
        return f"{super().__str__()}; try again"


class Denied(NotJudged):
    """The user has no right to this."""

    code, reason = 403, "Forbidden"


class Judge(Protocol[T_contra]):
    """Judges requests for objects of one kind.

    `create`, `update` and `changed` raise TooMuch if they take more effort than the judge may
    spend. The creation of a flow waits only for dry runs of the pod templates that it patches.
    """

    kind: str

    async def create(self, new: T_contra, user: UserInfo) -> Verdict: ...

    async def update(self, old: T_contra, new: T_contra, user: UserInfo) -> Verdict: ...

    async def delete(self, old: T_contra) -> Verdict: ...

    async def changed(self, new: T_contra, user: UserInfo) -> Verdict:
        """Judge a change of an object whose old form does not fit the type."""


class FlowJudge:
    """CREATE by all rules, UPDATE only without a change of the spec, DELETE only if final."""

    kind = "JobFlow"

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
        return await self._dry_run(facts, verdict) if facts.changes else verdict

    async def update(self, old: JobFlow, new: JobFlow, user: UserInfo) -> Verdict:
        if new.metadata.deletion_timestamp is not None:
            return PASS  # nothing starts from it any more
        return validate_flow_update(old, new)

    async def changed(self, new: JobFlow, user: UserInfo) -> Verdict:
        return await self.update(JobFlow(metadata=new.metadata, spec=JobFlowSpec()), new, user)

    async def _dry_run(self, facts: FlowFacts, verdict: Verdict) -> Verdict:
        """Add the faults that the API server finds in pod templates that patches produce."""
        namespace = facts.flow.metadata.namespace
        if not (tried := patched_pods(facts)):
            return verdict
        first = [each.template for each in tried[:MOST_TRIED]]
        answers = await self._cluster.dry_run(namespace, first)
        return add_patched_pod_faults(verdict, tried, answers)

    async def delete(self, old: JobFlow) -> Verdict:
        verdict = validate_flow_delete(old, namespace_terminating=False)
        if not verdict.violations:
            return verdict
        if not await self._cluster.namespace_terminating(old.metadata.namespace):
            return verdict
        return validate_flow_delete(old, namespace_terminating=True)


class TemplateJudge:
    """CREATE and a changed spec by all rules, DELETE only if no flow needs the template."""

    kind = "JobTemplate"

    def __init__(self, cluster: Cluster, rights: Rights | None, most: float) -> None:
        self._cluster = cluster
        self._rights = rights
        self._most = most

    async def create(self, new: JobTemplate, user: UserInfo) -> Verdict:
        self._check_effort(new)
        if misfits := _misfits(new):
            return Verdict(misfits)
        verdict = validate_template(new, known(self._cluster, new.metadata.namespace))
        return await self._allowed(new, user, verdict)

    async def update(self, old: JobTemplate, new: JobTemplate, user: UserInfo) -> Verdict:
        if new.metadata.deletion_timestamp is not None or is_same(old.spec, new.spec):
            return PASS
        self._check_effort(new)
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

    def _check_effort(self, new: JobTemplate) -> None:
        if effort_of_json(new.spec) > self._most:
            raise TooMuch

    async def _allowed(self, new: JobTemplate, user: UserInfo, verdict: Verdict) -> Verdict:
        """Check the user's rights, because flows of other users run what the template says, then
        add the faults that the API server finds in the pod templates. Raises Denied."""
        if self._rights is not None and not verdict.violations:
            await _check_rights(self._rights, user, new)
        namespace = new.metadata.namespace
        tried = pod_templates(new.spec)
        if not tried or not self._cluster.follows(namespace):
            return verdict
        first = [each.template for each in tried[:MOST_TRIED]]
        answers = await self._cluster.dry_run(namespace, first)
        return add_pod_faults(verdict, tried, answers)


def _misfits(template: JobTemplate) -> tuple[Violation, ...]:
    """Violations of the maximum depth or of the CRD's schema; decoding does not check the spec."""
    if too_deep := tuple(depth_violations(template.spec, "spec")):
        return too_deep
    try:
        template.typed_spec()
    except msgspec.ValidationError:
        spec = {"spec": template.spec}
        return tuple(schema_violations(TemplateJudge.kind, spec, strict=False))
    return ()


async def _check_rights(rights: Rights, user: UserInfo, new: FlowObject) -> None:
    if reason := await rights.lacking(user, new.metadata.namespace):
        raise Denied(reason)


def known(cluster: Cluster, namespace: str) -> Known:
    """Return what rules may know of the cluster: nothing until the namespace was read."""
    if not cluster.knows(namespace):
        return Known()
    return Known(templates=cluster.templates(namespace), queues=cluster.queues())
