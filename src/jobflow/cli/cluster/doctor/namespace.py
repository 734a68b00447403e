"""Checks of a namespace: the rights of its user, the queues, its flows and JobTemplates."""

import json
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from jobflow.api import resources
from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.volcano.scheduling import QueueState
from jobflow.cli.cluster.doctor import reading
from jobflow.cli.cluster.doctor.reading import Cluster, Json, Result, fault, name_of, ok, warning
from jobflow.core.admission.applied_nulls import LAST_APPLIED
from jobflow.core.json_values import find_missing
from jobflow.core.text import join_names
from jobflow.kube.answers import find_status_writer
from jobflow.kube.client import ApiError
from jobflow.runtime.event_loop import all_of


class Right(NamedTuple):
    """A right that commands need."""

    commands: str
    verb: str
    resource: resources.Resource
    subresource: str = ""

    @property
    def text(self) -> str:
        """`list pods`, `get pods/log`."""
        below = f"/{self.subresource}" if self.subresource else ""
        plural, dot, group = self.resource.qualified.partition(".")
        return f"{self.verb} {plural}{below}{dot}{group}"


RIGHTS = (
    Right("all commands", "get", resources.JOBFLOWS),
    Right("get", "list", resources.JOBFLOWS),
    Right("get -w and wait", "watch", resources.JOBFLOWS),
    Right("submit", "create", resources.JOBFLOWS),
    Right("delete", "delete", resources.JOBFLOWS),
    Right("plan", "get", resources.JOBTEMPLATES),
    Right("submit", "create", resources.JOBTEMPLATES),
    Right("submit", "patch", resources.JOBTEMPLATES),
    Right("submit", "create", resources.CRONJOBFLOWS),
    Right("submit", "patch", resources.CRONJOBFLOWS),
    Right("trigger and backfill", "get", resources.CRONJOBFLOWS),
    Right("trigger and backfill", "update", resources.CRONJOBFLOWS),
    Right("suspend, resume, cancel and retry", "create", resources.COMMANDS),
    Right("logs and why", "list", resources.PODS),
    Right("logs", "get", resources.PODS, "log"),
    Right("why", "list", resources.POD_GROUPS),
    Right("why", "get", resources.QUEUES),
)
_GRANT = (
    "Ask for the role edit (or view) in the namespace; queues need the ClusterRole "
    "<release>-queue-viewer."
)


async def check_rights(cluster: Cluster) -> AsyncIterator[Result]:
    try:
        # at once: each answer takes a round trip
        allowed = await all_of(*(_is_allowed(cluster, right) for right in RIGHTS))
    except ApiError as error:
        reviews = resources.SELF_SUBJECT_ACCESS_REVIEWS
        raise reading.not_readable(error, "create", reviews, "") from None
    missing = [right for right, has in zip(RIGHTS, allowed, strict=True) if not has]
    for right in missing:
        place = f" in namespace {cluster.namespace}" if right.resource.namespaced else ""
        lacks = f"You have no right to {right.text}{place}, for {right.commands}."
        # without the first no command works; who lacks another may never need it
        yield fault(lacks, _GRANT) if right is RIGHTS[0] else warning(lacks, _GRANT)
    if not missing:
        yield ok(f"You have the rights for all commands in namespace {cluster.namespace}.")


async def _is_allowed(cluster: Cluster, right: Right) -> bool:
    attributes = {
        "verb": right.verb,
        "group": right.resource.group,
        "resource": right.resource.plural,
        "subresource": right.subresource,
    }
    if right.resource.namespaced:
        attributes["namespace"] = cluster.namespace
    kind = resources.SELF_SUBJECT_ACCESS_REVIEWS
    review = kind.type_meta
    body = msgspec.json.encode(review | {"spec": {"resourceAttributes": attributes}})
    answer = await cluster.client.create(kind, "", body)
    status = msgspec.json.decode(answer, type=Json).get("status") or {}
    return bool(status.get("allowed"))


async def check_queues(cluster: Cluster) -> AsyncIterator[Result]:
    """Check that queues are open; a closed one is a fault if jobs of the namespace use it."""
    queues = await cluster.read_all(resources.QUEUES)
    used: dict[str, list[str]] = {}
    for template in await cluster.read_all(resources.JOBTEMPLATES, cluster.namespace):
        queue = (template.get("spec") or {}).get("queue") or "default"
        used.setdefault(str(queue), []).append(f"JobTemplate {name_of(template)}")
    for flow in await cluster.read_all(resources.JOBFLOWS, cluster.namespace):
        for queue in queues_of_flow(flow):
            used.setdefault(queue, []).append(f"JobFlow {name_of(flow)}")
    results = [*describe_queues(queues, used)]
    for result in results or [ok("All queues are open.")]:
        yield result


def queues_of_flow(manifest: Json) -> list[str]:
    """Return the queues of the jobs without a JobTemplate of a flow that has not finished."""
    try:
        flow = msgspec.convert(manifest, JobFlow)
    except msgspec.ValidationError:  # stored under a foreign definition
        return []
    if flow.final:
        return []
    # a flow that has ended creates no job; those with a template are found by it
    defaults = flow.spec.job_defaults
    default = (defaults.queue if defaults is not None else None) or "default"
    works = [work for step in flow.all_steps for work in (step, *(step.switch or ()))]
    found = [str(work.job_spec.get("queue") or default) for work in works if work.job_spec]
    if any(work.container is not None for work in works):
        found.append(default)
    return list(dict.fromkeys(found))


def describe_queues(queues: list[Json], used: Mapping[str, list[str]]) -> Iterator[Result]:
    """Yield the queues that start no jobs, and those that are used and do not exist."""
    states = {name_of(each): (each.get("status") or {}).get("state") for each in queues}
    for name, state in states.items():
        if state in (QueueState.CLOSED, QueueState.CLOSING):
            users = f"; it is used by {join_names(used[name])}" if name in used else ""
            # a queue that nobody uses here may be closed on purpose
            judge = fault if name in used else warning
            yield judge(
                f"Queue {name} is {state}, so its jobs do not start{users}.",
                f"Open it by `vcctl queue operate -a open -n {name}`, or use another queue.",
            )
    for name in sorted(used.keys() - states.keys()):
        yield fault(
            f"Queue {name} does not exist; it is used by {join_names(used[name])}.",
            "Create the queue, or use another one.",
        )


async def check_flows(cluster: Cluster) -> AsyncIterator[Result]:
    """Check that nobody has written over the statuses of flows, and that they have all fields that
    were written: under a foreign definition, an API server drops those that it does not name."""
    found = False
    overwritten: dict[str, list[str]] = {}
    for flow in await cluster.read_all(resources.JOBFLOWS, cluster.namespace):
        # the owners of fields say who wrote the status last
        owners = json.dumps(flow["metadata"].get("managedFields") or []).encode()
        if (writer := find_status_writer(owners)) is not None and writer.after_ours:
            overwritten.setdefault(writer.name, []).append(name_of(flow))
        if lost := find_lost_fields(flow):
            found = True
            fields = join_names(lost)
            yield fault(
                f"JobFlow {name_of(flow)} lost {fields} while its definition was a foreign one.",
                "Cancel and delete the flow, and apply its manifest again.",
            )
    for name, flows in sorted(overwritten.items()):
        yield fault(
            f"{name} wrote over the status of JobFlow's flows: {join_names(sorted(flows))}.",
            "Stop this writer; if it is Volcano's controller manager, turn its "
            "jobflow-controller off.",
        )
    if not (found or overwritten):
        yield ok(f"No JobFlow of namespace {cluster.namespace} lost fields that are recorded.")


def find_lost_fields(flow: Json) -> list[str]:
    """Return the fields of the spec that were written and are not stored."""
    spec = flow.get("spec") or {}
    owned: Json = {each.removeprefix("f:"): {} for each in _owned(flow["metadata"]) if each != "."}
    # a list is owned as a whole, so only the record of `kubectl apply` has the fields of steps
    lost = [*find_missing("spec", owned, spec), *find_missing("spec", _applied(flow), spec)]
    return list(dict.fromkeys(lost))


def _owned(metadata: Json) -> list[str]:
    """Return the fields of the spec that somebody owns, as `f:NAME`."""
    owners = [each.get("fieldsV1") or {} for each in metadata.get("managedFields") or ()]
    return list(dict.fromkeys(name for each in owners for name in each.get("f:spec") or {}))


def _applied(obj: Json) -> Any:
    """Return the spec of the last `kubectl apply`, empty without one; None if it is unreadable."""
    applied = (obj["metadata"].get("annotations") or {}).get(LAST_APPLIED)
    try:
        return json.loads(applied or "{}").get("spec") or {}
    except (ValueError, AttributeError):
        return None


DEFAULTS: Mapping[str, Any] = {"queue": "default", "maxRetry": 3}
"""Defaults that Volcano's definition of JobTemplates writes into stored objects."""


async def check_templates(cluster: Cluster) -> AsyncIterator[Result]:
    """Check that templates hold no defaults that Volcano's definition has added."""
    found = False
    for template in await cluster.read_all(resources.JOBTEMPLATES, cluster.namespace):
        # a user may also have set a value that is Volcano's default
        if added := find_added_defaults(template):
            found = True
            values = join_names([f"{field}: {DEFAULTS[field]}" for field in added])
            yield warning(
                f"JobTemplate {name_of(template)} holds {values}, which its manifest does not set: "
                "Volcano's definition added it, and it wins over spec.jobDefaults of flows.",
                "Delete the JobTemplate and apply its manifest again.",
            )
    if not found:
        yield ok(f"No JobTemplate of namespace {cluster.namespace} holds an added default.")


def find_added_defaults(template: Json) -> list[str]:
    """Return the fields that have Volcano's default and that no manifest has set."""
    spec, meta = template.get("spec") or {}, template["metadata"]
    fields = [field for field, value in DEFAULTS.items() if spec.get(field) == value]
    # without the record of `kubectl apply` and owners, nobody knows who has set a value
    if LAST_APPLIED in (meta.get("annotations") or {}):
        manifest = _applied(template)
        return [] if manifest is None else [field for field in fields if field not in manifest]
    owned = _owned(meta)
    return [field for field in fields if f"f:{field}" not in owned] if owned else []
