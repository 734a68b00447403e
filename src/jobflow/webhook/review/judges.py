"""Judges: the core's rules that apply to a request, by kind and operation."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from jobflow.api.flow.control import Concurrency, ConcurrencyPolicy
from jobflow.api.flow.cronjobflow import CronJobFlow
from jobflow.api.flow.jobflow import JobFlow, JobFlowSpec, JobTemplate
from jobflow.api.kinds import FlowObject
from jobflow.api.resources import CRONJOBFLOWS, JOBFLOWS, JOBS, ObjectMeta, OwnerReference, Resource
from jobflow.core.admission.analysis.flow_facts import FlowFacts
from jobflow.core.admission.analysis.tree_budget import TreeBudget
from jobflow.core.admission.changes import Need
from jobflow.core.admission.rules.size_limits import depth_violations
from jobflow.core.admission.validate import (
    PASS,
    Known,
    facts_of_cron,
    validate_cron_delete,
    validate_facts,
    validate_flow_delete,
    validate_flow_update,
    validate_template,
    validate_template_delete,
    verdict_of_cron,
    verdict_of_flow,
)
from jobflow.core.json_values import is_same_json
from jobflow.core.manifests.crd_schema import job_spec_violations, schema_violations
from jobflow.core.manifests.volume_claims import with_placeholders
from jobflow.core.spec.concurrency import GroupName
from jobflow.core.spec.reuse import Obstacle, find_obstacle
from jobflow.core.violations import Reason, Verdict, Violation
from jobflow.webhook import tried_pods
from jobflow.webhook.review.envelope import Forbidden, NotReady, UserInfo
from jobflow.webhook.tried_pods import DryRun

T = TypeVar("T", bound=FlowObject)


class Cluster(Protocol):
    """The webhook's knowledge of the cluster (`webhook.cluster`)."""

    def unfit(self) -> str | None:
        """Return why nothing may be judged at present, or None."""

    def outdated(self) -> str | None:
        """Return why what was read may be too old to judge by, or None."""

    def follows(self, namespace: str) -> bool:
        """Return whether this process follows the flows of the namespace."""

    def knows(self, namespace: str) -> bool:
        """Return whether it has also read them; until then absence means nothing."""

    def templates(self, namespace: str) -> Mapping[str, JobTemplate]:
        """Return the templates of a namespace by name."""

    def queues(self) -> Mapping[str, str] | None:
        """Return states by queue name; None if the kind is not served."""

    def limits(self, namespace: str, group: GroupName) -> Collection[int]:
        """Return the limits that the flows of a namespace have for a concurrency group."""

    async def needed_by(self, namespace: str, template: str) -> Sequence[Need]:
        """Return the flows of a namespace that still need this template."""

    async def namespace_terminating(self, name: str) -> bool:
        """Return whether the namespace is being deleted; False if it cannot be read."""

    async def flow_is_gone(self, namespace: str, name: str, uid: str) -> bool:
        """Return whether a flow is gone or being deleted; False if it cannot be read."""

    async def flow(self, namespace: str, name: str) -> JobFlow | None:
        """Return a flow; None if it does not exist. Raises NotReady if it cannot be read."""

    def why_spent(self, namespace: str, name: str) -> str:
        """Return which flow has the volume claims of a flow (`why_spent`), as far as known."""

    def reused_by(self, namespace: str, name: str, uid: str) -> Sequence[str]:
        """Return the names of the flows that have not ended and reuse a flow, as far as known."""

    async def dry_run(self, namespace: str, templates: Sequence[bytes]) -> Sequence[DryRun | None]:
        """Return the API server's answer to each pod template (JSON); None if it came too late."""


class Right(NamedTuple):
    verb: str
    resource: Resource
    namespace: str
    name: str = ""
    """The object; "" for all."""
    need: str = ""
    """Why the request needs it, as the end of a sentence: `, and JobFlow …`."""

    def __str__(self) -> str:
        """Return `create jobs.batch.volcano.sh in namespace "team"`."""
        name = f' "{self.name}"' if self.name else ""
        return f'{self.verb} {self.resource.qualified}{name} in namespace "{self.namespace}"'


class Rights(Protocol):
    """Checks of the user of a request (`webhook.access_rights`)."""

    async def lacking(self, user: UserInfo, right: Right) -> str | None:
        """Return why the user lacks a right, or None. Raises NotReady."""

    async def is_controller(self, user: UserInfo) -> bool:
        """Return whether the user is JobFlow's controller. Raises NotReady."""


class Unchecked:
    """`Rights` of a webhook that checks no users."""

    async def lacking(self, user: UserInfo, right: Right) -> str | None:
        return None

    async def is_controller(self, user: UserInfo) -> bool:
        return True


UNCHECKED = Unchecked()


class Judge(ABC, Generic[T]):
    """Judges requests for objects of one kind. `create`, `update` and `changed` raise TooMuchEffort
    if they take more than `most`. Creation waits only for dry runs of patched pod templates."""

    kind: str

    def __init__(self, cluster: Cluster, rights: Rights, most: float) -> None:
        self._cluster = cluster
        self._rights = rights
        self._most = most

    @abstractmethod
    async def create(self, new: T, user: UserInfo) -> Verdict: ...

    @abstractmethod
    async def update(self, old: T, new: T, user: UserInfo) -> Verdict: ...

    async def changed(self, new: T, user: UserInfo) -> Verdict:
        # the old form does not fit the type
        return await self.create(new, user)

    async def check_owners(self, old: ObjectMeta | None, new: ObjectMeta, user: UserInfo) -> None:
        """Check the owner references that a request adds or removes; `old` is None for a new
        object. Raises NotJudged."""

    @abstractmethod
    async def delete(self, old: T) -> Verdict: ...

    async def _try_pods(self, facts: FlowFacts, verdict: Verdict) -> Verdict:
        """Add the API server's faults of patched pod templates to the verdict on a new flow."""
        if not (tried := tried_pods.patched_pods(facts)):
            return verdict
        first = [each.template for each in tried[: tried_pods.MOST_TRIED]]
        answers = await self._cluster.dry_run(facts.flow.metadata.namespace, first)
        return tried_pods.add_patched_pod_faults(verdict, tried, answers)

    async def _check_rights(self, user: UserInfo, new: T) -> None:
        need = ", and JobFlow creates such jobs for its users"
        await self._require(user, Right("create", JOBS, new.metadata.namespace, need=need))

    async def _check_replacement(
        self, user: UserInfo, namespace: str, concurrency: Concurrency
    ) -> None:
        """Who creates flows that cancel others needs the right to cancel them."""
        if concurrency.policy != ConcurrencyPolicy.REPLACE:
            return
        if not await self._rights.is_controller(user):
            need = ", which concurrency policy Replace needs because it cancels other flows"
            await self._require(user, Right("update", JOBFLOWS, namespace, need=need))

    async def _require(self, user: UserInfo, right: Right) -> None:
        if reason := await self._rights.lacking(user, right):
            raise Forbidden(reason)

    async def _unless_terminating(self, old: T, verdict: Verdict) -> Verdict:
        """Return the verdict on a deletion, which PASSes with that of the namespace."""
        namespace = old.metadata.namespace
        if verdict.violations and await self._cluster.namespace_terminating(namespace):
            return PASS
        return verdict


_Owners = Mapping[tuple[str, str], OwnerReference]


def _owners(references: Sequence[OwnerReference] | None, kind: str) -> _Owners:
    """Return the owners of a kind, in any API group, by name and UID."""
    found = [ref for ref in references or () if ref.kind == kind]
    # the last one of a key wins
    found.sort(key=lambda ref: bool(ref.controller))
    return {(ref.name, ref.uid): ref for ref in found}


def _added(before: _Owners, after: _Owners) -> Sequence[OwnerReference]:
    """Return the owners that were added, or have become the controller."""
    return [
        ref
        for key, ref in after.items()
        if key not in before or (ref.controller and not before[key].controller)
    ]


class FlowJudge(Judge[JobFlow]):
    """CREATE by all rules, UPDATE only without a change of the spec, DELETE only if final."""

    kind = "JobFlow"

    async def create(self, new: JobFlow, user: UserInfo) -> Verdict:
        of_cluster = known(self._cluster, new.metadata.namespace)
        facts = FlowFacts(new, of_cluster, budget=TreeBudget(self._most))
        verdict = verdict_of_flow(new, validate_facts(facts))
        if verdict.violations:
            return verdict
        # the API server is asked last, and not about flows that are refused anyway
        if new.metadata.owner_references:
            await self.check_owners(None, new.metadata, user)
        if new.spec.concurrency is not None:
            await self._check_replacement(user, new.metadata.namespace, new.spec.concurrency)
        # the controller makes child flows, and binds each to what there is
        if new.spec.reuse is not None and not new.is_child:
            name = new.spec.reuse.flow
            if obstacle := await self._find_obstacle(new, name, user):
                found = (Violation("spec.reuse.flow", Reason.INVALID, name, str(obstacle)),)
                return replace(verdict, violations=found)
        await self._check_rights(user, new)
        return await self._try_pods(facts, verdict)

    async def _find_obstacle(self, new: JobFlow, name: str, user: UserInfo) -> Obstacle | None:
        """Return why a flow cannot reuse the one of this name, or None. Who creates it needs the
        rights to read what it takes, and to change what loses its volume claims."""
        namespace, spent = new.metadata.namespace, ""
        need = ", which is needed to reuse that flow (spec.reuse)"
        await self._require(user, Right("get", JOBFLOWS, namespace, name, need=need))
        source = await self._cluster.flow(namespace, name)
        if source is not None and (source.spec.volume_claims or source.status.volume_claims):
            need = ", which is needed to reuse that flow (spec.reuse) because it loses its claims"
            await self._require(user, Right("update", JOBFLOWS, namespace, name, need=need))
            spent = self._cluster.why_spent(namespace, name)
        return find_obstacle(new, source, spent)

    async def update(self, old: JobFlow, new: JobFlow, user: UserInfo) -> Verdict:
        await self.check_owners(old.metadata, new.metadata, user)
        if new.metadata.deletion_timestamp is not None:
            return PASS  # nothing starts from it any more
        return validate_flow_update(old, new)

    async def changed(self, new: JobFlow, user: UserInfo) -> Verdict:
        return await self.update(JobFlow(metadata=new.metadata, spec=JobFlowSpec()), new, user)

    async def check_owners(self, old: ObjectMeta | None, new: ObjectMeta, user: UserInfo) -> None:
        """Only the controller makes child flows, and takes them from a parent that still exists.
        Who adds a flow to a CronJobFlow needs the right to update it."""
        had, has = None if old is None else old.owner_references, new.owner_references
        # nearly every update; `blockOwnerDeletion`, which the garbage collector edits, never counts
        if had == has:
            return
        # a plan takes a child flow for what a step has run, and a schedule counts and deletes its
        # flows (docs/decisions/child-flows.md, docs/decisions/schedules.md)
        old_parents, new_parents = _owners(had, JOBFLOWS.kind), _owners(has, JOBFLOWS.kind)
        parents, lost_parents = _added(old_parents, new_parents), _added(new_parents, old_parents)
        crons = _added(_owners(had, CRONJOBFLOWS.kind), _owners(has, CRONJOBFLOWS.kind))
        if not (parents or lost_parents or crons) or await self._rights.is_controller(user):
            return
        if parents:
            raise Forbidden(
                f'user "{user.username}" may not make this flow a child of JobFlow '
                f"{parents[0].name}: only JobFlow's controller makes child flows; remove "
                "the owner reference or, if this user is the controller, start the replicas with "
                f"--controller-user={user.username}"
            )
        for parent in lost_parents:
            if not await self._cluster.flow_is_gone(new.namespace, parent.name, parent.uid):
                raise Forbidden(
                    f'user "{user.username}" may not remove the owner reference to JobFlow '
                    f"{parent.name}, whose step runs this flow; delete that flow first"
                )
        need = ", which is needed to make this flow one of its flows (owner reference)"
        for cron in crons:
            right = Right("update", CRONJOBFLOWS, new.namespace, cron.name, need=need)
            await self._require(user, right)

    async def delete(self, old: JobFlow) -> Verdict:
        """A child flow that runs or is reused is deleted only with its parent, by the garbage
        collector."""
        namespace, name, uid = old.metadata.namespace, old.metadata.name, old.metadata.uid
        reused_by = self._cluster.reused_by(namespace, name, uid) if old.final else ()
        parent = old.metadata.controller if old.is_child else None
        if parent is not None and (reused_by or not old.final):
            if await self._cluster.flow_is_gone(namespace, parent.name, parent.uid):
                return PASS  # the garbage collector deletes what its parent has left
        return await self._unless_terminating(old, validate_flow_delete(old, reused_by))


class TemplateJudge(Judge[JobTemplate]):
    """CREATE and a changed spec by all rules, DELETE only if no flow needs the template."""

    kind = "JobTemplate"

    async def create(self, new: JobTemplate, user: UserInfo) -> Verdict:
        # the user needs the right to create vcjobs: flows of other users run the template
        TreeBudget(self._most).spend_on_template(new.spec)
        # decoding does not check the spec
        if too_deep := tuple(depth_violations(new.spec, "spec")):
            return Verdict(too_deep)
        # the quick check first, because nearly every template fits
        if next(job_spec_violations(new.spec, "spec"), None) is not None:
            misfits = tuple(schema_violations(self.kind, {"spec": new.spec}, strict=False))
            if misfits:
                return Verdict(misfits)
        namespace = new.metadata.namespace
        # queues matter only to warnings
        queues = self._cluster.queues() if self._cluster.knows(namespace) else None
        verdict = validate_template(new, Known(queues=queues))
        if not verdict.violations:
            await self._check_rights(user, new)
        tried = tried_pods.pod_templates(with_placeholders(new.spec))
        # without rights in the namespace every dry run would be refused
        if not tried or not self._cluster.follows(namespace):
            return verdict
        first = [each.template for each in tried[: tried_pods.MOST_TRIED]]
        answers = await self._cluster.dry_run(namespace, first)
        return tried_pods.add_pod_faults(verdict, tried, answers)

    async def update(self, old: JobTemplate, new: JobTemplate, user: UserInfo) -> Verdict:
        if new.metadata.deletion_timestamp is not None or is_same_json(old.spec, new.spec):
            return PASS  # a stored template may break a newer rule, and its metadata must change
        return await self.create(new, user)

    async def delete(self, old: JobTemplate) -> Verdict:
        namespace = old.metadata.namespace
        if not self._cluster.follows(namespace):
            return PASS
        if not self._cluster.knows(namespace):
            raise NotReady("which flows use it is still being read")
        _require_current(self._cluster)
        needed_by = await self._cluster.needed_by(namespace, old.metadata.name)
        return await self._unless_terminating(old, validate_template_delete(old, needed_by))


def known(cluster: Cluster, namespace: str) -> Known:
    """Return what rules may know of the cluster: nothing until the namespace was read. Raises
    NotReady if that was too long ago."""
    if not cluster.knows(namespace):
        return Known()
    _require_current(cluster)
    return Known(cluster.templates(namespace), cluster.queues(), partial(cluster.limits, namespace))


def _require_current(cluster: Cluster) -> None:
    if why := cluster.outdated():
        raise NotReady(why)


class CronJudge(Judge[CronJobFlow]):
    """CREATE and a changed spec by all rules, also those of flows, DELETE without active flows."""

    kind = "CronJobFlow"

    async def create(self, new: CronJobFlow, user: UserInfo) -> Verdict:
        return await self._judge(new, user, replaces=True)

    async def update(self, old: CronJobFlow, new: CronJobFlow, user: UserInfo) -> Verdict:
        if new.metadata.deletion_timestamp is not None or is_same_json(old.spec, new.spec):
            return PASS
        other_flows = not is_same_json(old.flow_spec, new.flow_spec)
        return await self._judge(new, user, replaces=other_flows)

    async def _judge(self, new: CronJobFlow, user: UserInfo, *, replaces: bool) -> Verdict:
        """The user needs the right to create vcjobs, because the controller creates the flows, and
        for flows that cancel others, unless they were allowed before, the right to do so."""
        facts = facts_of_cron(new, known(self._cluster, new.metadata.namespace), self._most)
        if facts is None:
            return verdict_of_cron(new, PASS)
        of_flow = validate_facts(facts)
        verdict = verdict_of_cron(new, of_flow)
        if verdict.violations:
            return verdict
        if replaces and (concurrency := new.flow_spec.concurrency) is not None:
            await self._check_replacement(user, new.metadata.namespace, concurrency)
        await self._check_rights(user, new)
        return verdict_of_cron(new, await self._try_pods(facts, of_flow))

    async def delete(self, old: CronJobFlow) -> Verdict:
        return await self._unless_terminating(old, validate_cron_delete(old))


JUDGES: tuple[type[Judge[Any]], ...] = (FlowJudge, TemplateJudge, CronJudge)
