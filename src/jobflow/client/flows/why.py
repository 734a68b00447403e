"""Explanations of flows, from all that a cluster knows about them."""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeVar

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import ENDED_STEP_PHASES, StepPhase
from jobflow.api.labels import CREATED_BY_FLOW, INDEX, STEP
from jobflow.api.resources import EVENTS, JOBFLOWS, POD_GROUPS, PODS, QUEUES, Resource
from jobflow.api.volcano.pod import JOB_NAME, Pod
from jobflow.api.volcano.scheduling import QUEUE_NAME, PodGroup, Queue
from jobflow.client.errors import CommandError
from jobflow.client.flows.find_flow import find_item, find_outermost, to_flow
from jobflow.core.explain import scheduling
from jobflow.core.explain.explain import Explanation, explain, explain_step, list_queued_jobs
from jobflow.core.names import format_job_name, qualify_name, to_label_value
from jobflow.core.spec.concurrency import Group, GroupName, get_shares
from jobflow.core.text import MAX_NAMES, format_command
from jobflow.kube.answers import ItemList, RawList
from jobflow.kube.client import ApiError, Client
from jobflow.kube.events import find_warning, list_events
from jobflow.runtime.event_loop import all_of

T = TypeVar("T", Pod, PodGroup)
_CHILDREN = 2
"""Child flows of a flow that are explained too."""


async def explain_flow(
    client: Client, flow: JobFlow, text: str | None = None, *, with_namespace: bool = False
) -> dict[str, Any]:
    """Return the answer as JSON, with what Volcano says about jobs that wait. Raises CommandError
    if the flow has no such step or item."""
    step, index = None, None
    if text is not None:
        found, index = find_item(flow, text)
        step = found.name
    facts = await read_facts(client, flow, step, index)
    now, groups = datetime.now(UTC), await _read_groups(client, flow)
    above = await _read_path(client, flow)
    if step is None:
        explanation = explain(
            flow, now=now, facts=facts, groups=groups, above=above, with_namespace=with_namespace
        )
    else:
        explanation = explain_step(
            flow, step, index=index, now=now, facts=facts, groups=groups, above=above
        )
    since = explanation.since
    children = await explain_children(client, flow, explanation, step, index)
    jobs = list_queued_jobs(flow, step, index=index, now=now)
    return {
        "namespace": flow.metadata.namespace,
        "flow": flow.metadata.name,
        "step": step,
        **({} if index is None else {"index": index}),
        "phase": explanation.phase,
        "reason": explanation.reason,
        "since": since.strftime("%Y-%m-%dT%H:%M:%SZ") if since else None,
        "causes": list(explanation.causes),
        "sentences": [*explanation.sentences, *children],
        **({"scheduling": facts.by_step} if jobs else {}),
    }


async def _read_path(client: Client, flow: JobFlow) -> str:
    """Return the path from the outermost flow to the steps of a flow."""
    try:
        return (await find_outermost(client, flow))[1]
    except CommandError:  # a flow above cannot be read
        return "PATH/"


async def read_facts(
    client: Client, flow: JobFlow, step: str | None, index: int | None
) -> scheduling.SchedulingFacts:
    """Return what Volcano says about the first MAX_JOBS jobs that wait of a flow, of a step or of
    an item, with at most six requests for each (and a further one for each 500 pods)."""
    jobs = list_queued_jobs(flow, step, index=index, now=datetime.now(UTC))
    shown, namespace = jobs[: scheduling.MAX_JOBS], flow.metadata.namespace
    # one for all jobs, so that each missing right is named once
    reader = _SchedulingReader(client, namespace)
    owner = to_label_value(qualify_name(namespace, flow.metadata.name))
    found = await all_of(*(reader.read(job, owner) for job in shown))
    by_step: dict[str, list[str]] = {}
    for job, objects in zip(shown, found, strict=True):
        look = f"`kubectl describe vcjob -n {namespace} {job.name}`"
        sentences = scheduling.describe_scheduling(job, objects, look=look)
        by_step.setdefault(job.step, []).extend(sentences)
    notes = [*reader.refused.values()]
    if more := len(jobs) - len(shown):
        are = "job also waits" if more == 1 else "jobs also wait"
        each = format_command("jobflow why", flow.metadata, " STEP")
        notes.append(f"{more:,} more {are} for Volcano" + ("." if step else f"; see {each}."))
    return scheduling.SchedulingFacts({step: told for step, told in by_step.items() if told}, notes)


@dataclass
class _SchedulingReader:
    """Reads the PodGroups, pods and queue of one job after the other. A user needs three rights for
    all of it: what may not be read is left out and named."""

    client: Client
    namespace: str
    refused: dict[str, str] = field(default_factory=dict)
    """A sentence for each plural that cannot be read."""

    async def read(self, job: scheduling.QueuedJob, owner: str) -> scheduling.Scheduling:
        """Return the objects of a job; `owner` is the flow as a label of the job names it."""
        # a PodGroup is named after the UID of its job, but has the labels of the job
        labels = {CREATED_BY_FLOW: owner, STEP: to_label_value(job.step)}
        if job.index is not None:
            labels[INDEX] = str(job.index)
        groups = await self._list(POD_GROUPS, ItemList[PodGroup], job, labels)
        pods = await self._list(PODS, ItemList[Pod], job, {JOB_NAME: job.name})
        queue = next((scheduling.queue_of(group) for group in groups or ()), "")
        # a PodGroup that was never scheduled may not be there yet
        if not queue and pods:
            queue = (pods[0].metadata.labels or {}).get(QUEUE_NAME, "")
        found = await self._queue(queue) if queue else None
        names = scheduling.find_starting(pods or ())[:MAX_NAMES]
        told = dict(zip(names, await all_of(*map(self._warning, names)), strict=True))
        return scheduling.Scheduling(groups, found, pods, told)

    async def _warning(self, pod: str) -> str:
        """Return the last warning about a pod that has a node, such as `FailedMount: …`, or ""."""
        try:
            events = await list_events(self.client, self.namespace, PODS.kind, pod)
        except ApiError as error:
            self._note(EVENTS, "list", error)
            return ""
        return find_warning(events)

    async def _list(
        self,
        resource: Resource,
        page: type[ItemList[T]],
        job: scheduling.QueuedJob,
        labels: dict[str, str],
    ) -> list[T] | None:
        query = [("labelSelector", ",".join(f"{key}={value}" for key, value in labels.items()))]
        pages = self.client.list(resource, page, namespace=self.namespace, query=query)
        try:
            return scheduling.select_own(
                job, [each async for page in pages for each in page.items or ()]
            )
        except ApiError as error:
            self._note(resource, "list", error)
        return None

    async def _queue(self, name: str) -> list[Queue] | None:
        """Return the queue, or nothing if it does not exist."""
        try:
            return [await self.client.get(QUEUES, "", name, Queue)]
        except ApiError as error:
            # the queue is missing, not the kind
            if error.not_found and error.status.details and error.status.details.name:
                return []
            self._note(QUEUES, "get", error)
        return None

    def _note(self, resource: Resource, verb: str, error: ApiError) -> None:
        if error.code == 403:
            why = f"reading them needs the right to {verb} {resource.qualified}"
        elif error.not_found:
            why = f"this cluster does not serve {resource.qualified}"
        else:
            why = f"they could not be read: {error.message}"
        self.refused[resource.plural] = f"{resource.kind}s are left out: {why}."


async def explain_children(
    client: Client, flow: JobFlow, explanation: Explanation, step: str | None, index: int | None
) -> list[str]:
    """Return the sentences about the child flows that explain the flow, the step or the item, but
    for those that its explanation has too."""
    names = dict.fromkeys((*((step,) if step is not None else ()), *explanation.causes))
    conditions = flow.status.conditions or {}
    runs = [
        run
        for name in names
        if (each := conditions.get(format_job_name(flow.metadata.name, name))) is not None
        for run in each.runs or (each,)
        if run.flow and (index is None or name != step or run.index == index)
    ]
    # a failed flow explains more than one that still runs
    failed = [run.flow for run in runs if run.phase == StepPhase.FAILED]
    causes = failed or [run.flow for run in runs if run.phase not in ENDED_STEP_PHASES]
    said = dict.fromkeys(explanation.sentences)
    own = len(said)
    for name in causes[:_CHILDREN]:
        try:
            child = await client.get(JOBFLOWS, flow.metadata.namespace, name, JobFlow)
            inner = await explain_flow(client, child)
        except (ApiError, CommandError):  # it is gone: its parent knows how it ended
            continue
        said |= dict.fromkeys(inner["sentences"])
    return [*said][own:]


async def _read_groups(client: Client, flow: JobFlow) -> dict[GroupName, Group]:
    """Return the concurrency groups in which a flow or a step of it waits; none if the other flows
    cannot be read."""
    waits = [] if flow.final else [n for n, share in get_shares(flow).items() if share.waits]
    if not waits:
        return {}
    from jobflow.store.groups import Groups

    flows: dict[str, JobFlow] = {}
    try:
        async for page in client.list(JOBFLOWS, RawList, namespace=flow.metadata.namespace):
            for raw in page.items or ():
                each = to_flow(raw)
                flows[each.metadata.uid] = each
    except ApiError:
        return {}

    def find_parent(child: JobFlow) -> JobFlow | None:
        owner = child.metadata.controller
        return None if owner is None else flows.get(owner.uid)

    # the controller decides by the same index
    groups = Groups(find_parent)
    for each in flows.values():
        groups.update(None, each)
    return {name: groups.of(flow, name) for name in waits}
