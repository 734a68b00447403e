"""What a vcjob does, and which one made a result, as flows that reuse others compare them.

Compared are images, commands, arguments, variables, volumes and all other fields that decide what a
job computes, with the values of their references. Not compared are metadata, and where, when and
how often the job runs: the fields with the mark `NOT_COMPARED`, and those listed here for pods. A
field that nobody has judged is compared, so that a new one never makes an old result count.
"""

from base64 import urlsafe_b64encode
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from typing import Any, get_args, get_type_hints

import msgspec

from jobflow.api import labels
from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import RunCondition
from jobflow.api.flow.traits import fields_of
from jobflow.api.volcano.job import NOT_COMPARED, JobSpec, Task
from jobflow.core.json_values import maps
from jobflow.core.names import format_latest_name
from jobflow.core.reasons import StepReason

NOT_COMPARED_IN_PODS = frozenset(
    {
        "activeDeadlineSeconds", "affinity", "nodeName", "nodeSelector", "overhead",
        "preemptionPolicy", "priority", "priorityClassName", "resourceClaims", "resources",
        "schedulerName", "schedulingGates", "terminationGracePeriodSeconds", "tolerations",
        "topologySpreadConstraints",
    }
)  # fmt: skip
NOT_COMPARED_IN_CONTAINERS = frozenset({"resizePolicy", "resources", "terminationMessagePolicy"})
CONTAINER_LISTS = ("containers", "initContainers", "ephemeralContainers")


def _not_compared(struct: type[msgspec.Struct]) -> frozenset[str]:
    hints = get_type_hints(struct, include_extras=True)
    marked = {name for name, hint in hints.items() if NOT_COMPARED in get_args(hint)}
    return frozenset(each.json for each in fields_of(struct) if each.name in marked)


_IN_JOBS, _IN_TASKS = _not_compared(JobSpec), _not_compared(Task)


def digest(value: object) -> str:
    """Return the SHA-256 of JSON, whatever the order of its keys, as 22 characters of base64url."""
    made = sha256(msgspec.json.encode(value, order="sorted")).digest()
    return urlsafe_b64encode(made)[:22].decode()


def identity_of(run: RunCondition, key: str, flow: JobFlow) -> str:
    """Return the identity of the job that made the result of a run: that of its flow and its name.
    `key`: the name of the first vcjob of its step."""
    if run.origin:
        return run.origin
    bound = flow.status.reuse
    if run.reason == StepReason.REUSED and bound is not None:
        return digest([bound.uid, run.job])
    first = key if run.index is None else f"{key}-{run.index}"
    name = run.job or run.flow or format_latest_name(first, run.attempts)
    return digest([flow.metadata.uid, name])


def ends_of(runs: Iterable[RunCondition], key: str, flow: JobFlow, *, has_jobs: bool) -> list[Any]:
    """Return what stands for runs of a step: the identities of their jobs; the ends and the outputs
    of those without. `key`: as in `identity_of`."""
    return [
        identity_of(run, key, flow) if has_jobs and run.has_attempt else [run.phase, run.outputs]
        for run in runs
    ]


def what_it_does(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the part of a vcjob's spec that is compared. Shares content with `spec`."""
    found = _without(spec, _IN_JOBS)
    if not isinstance(tasks := spec.get("tasks"), list):
        return found
    return {**found, "tasks": [_task(each) if isinstance(each, dict) else each for each in tasks]}


def _without(value: Mapping[str, Any], keys: frozenset[str]) -> Mapping[str, Any]:
    # most have none of them
    if keys.isdisjoint(value):
        return value
    return {key: each for key, each in value.items() if key not in keys}


def _task(task: Mapping[str, Any]) -> Mapping[str, Any]:
    found = _without(task, _IN_TASKS)
    if not isinstance(template := task.get("template"), dict):
        return found
    template = {key: value for key, value in template.items() if key != "metadata"}
    if isinstance(pod := template.get("spec"), dict):
        compared = dict(_without(pod, NOT_COMPARED_IN_PODS))
        for field in CONTAINER_LISTS:
            if isinstance(containers := pod.get(field), list):
                compared[field] = [_container(c) if isinstance(c, dict) else c for c in containers]
        template["spec"] = compared
    return {**found, "template": template}


def _container(container: Mapping[str, Any]) -> Mapping[str, Any]:
    found = _without(container, NOT_COMPARED_IN_CONTAINERS)
    for field in ("command", "args"):
        if isinstance(words := found.get(field), list):
            compared = [word for word in words if not _is_marked(word)]
            if len(compared) < len(words):
                found = {**found, field: compared}
    return found


def _is_marked(word: object) -> bool:
    return isinstance(word, str) and word.startswith(labels.NOT_COMPARED)


def find_differences(old: Any, new: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield the places in which two specs differ, with both values; None: there is none. Tasks,
    containers and variables with names are compared by name."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in dict.fromkeys((*old, *new)):
            yield from find_differences(
                old.get(key), new.get(key), f"{path}.{key}" if path else str(key)
            )
    elif isinstance(old, list) and isinstance(new, list):
        names = [[each.get("name") for each in maps(side)] for side in (old, new)]
        if all(len(set(each)) == len(side) for each, side in zip(names, (old, new), strict=True)):
            olds, news = ({each["name"]: each for each in maps(side)} for side in (old, new))
            for name in dict.fromkeys((*olds, *news)):
                yield from find_differences(olds.get(name), news.get(name), f"{path}[{name}]")
            return
        for i in range(max(len(old), len(new))):
            before, after = (side[i] if i < len(side) else None for side in (old, new))
            yield from find_differences(before, after, f"{path}[{i}]")
    elif old != new:
        yield path, old, new
