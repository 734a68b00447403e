"""Volcano's rules of admission for the pods of tasks.

Source: pkg/webhooks/admission/jobs/validate/admit_job.go (validateTaskTemplate,
validateTaskTopoPolicy, validateK8sPodNameLength). The API server checks pod
templates in a dry run. Only their containers are checked here, because a patch easily breaks them.
"""

import re
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from jobflow.core.admission.object_names import DNS_LABEL, word_violations
from jobflow.core.admission.volcano.job_view import JobView, TaskView, elements, mapping, text
from jobflow.core.names import MAX_NAME, predict_pod_names
from jobflow.core.violations import Reason, Violation

TOPOLOGY_POLICIES = ("none", "best-effort", "restricted", "single-numa-node")

_CONTAINER_LISTS = ("initContainers", "containers")
_QUANTITY = re.compile(
    r"\+?([0-9]{1,30}(?:\.[0-9]{0,30})?|\.[0-9]{1,30})(?:[eE]([-+]?[0-9]{1,2})|(.*))"
)
_SUFFIXES = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "": Fraction(1),
    "k": Fraction(1000),
    "Ki": Fraction(1024),
}


def pod_violations(job: JobView) -> Iterator[Violation]:
    """Yield the faults of the pods of all tasks."""
    for task in job.tasks:
        yield from _containers(task)
        if task.raw.get("topologyPolicy") is not None:
            yield from _topology_policy(task)
    if job.job_name and job.tasks:
        pod = job.job_name + predict_pod_names(job.raw).longest
        if (more := len(pod) - MAX_NAME) > 0:
            detail = (
                f"its pod {pod} would have {len(pod)} characters, {more} too many: shorten the "
                "name of the flow, the step or the task"
            )
            yield Violation(f"{job.path}.tasks", Reason.INVALID, job.job_name, detail)


def _containers(task: TaskView) -> Iterator[Violation]:
    pod, pod_path = task.pod_spec, f"{task.path}.template.spec"
    if not pod.get("containers"):
        detail = "a pod has at least one container"
        yield Violation(f"{pod_path}.containers", Reason.REQUIRED, None, detail)
    seen: dict[str, str] = {}
    for key in _CONTAINER_LISTS:
        for index, container in elements(pod, key):
            path, name = f"{pod_path}.{key}[{index}]", container.get("name")
            if not name:
                yield Violation(f"{path}.name", Reason.REQUIRED, name, "a container has a name")
            elif isinstance(name, str):
                if not DNS_LABEL.fullmatch(name):
                    detail = 'lower-case letters, digits and "-", at most 63, as in "main"'
                    yield Violation(f"{path}.name", Reason.INVALID, name, detail)
                # init containers share the names of the others
                if (first := seen.setdefault(name, path)) != path:
                    detail = f"{first} already has this name"
                    yield Violation(f"{path}.name", Reason.DUPLICATE, name, detail)
            if not container.get("image"):
                detail = "a container has an image"
                yield Violation(f"{path}.image", Reason.REQUIRED, None, detail)


def _topology_policy(task: TaskView) -> Iterator[Violation]:
    policy = text(task.raw, "topologyPolicy")
    path = f"{task.path}.topologyPolicy"
    if policy is None or policy == "none":
        return
    if policy not in TOPOLOGY_POLICIES:
        yield from word_violations(path, policy, TOPOLOGY_POLICIES)
        return
    for key in _CONTAINER_LISTS:
        for index, container in elements(task.pod_spec, key):
            resources = mapping(container, "resources")
            cpu = (mapping(resources, "requests") or mapping(resources, "limits")).get("cpu")
            if not _whole_cpus(cpu):
                at = f"{task.path}.template.spec.{key}[{index}].resources.requests.cpu"
                detail = f"with topologyPolicy {policy} each container requests whole CPUs"
                yield Violation(at, Reason.INVALID, cpu, detail)


def _whole_cpus(quantity: Any) -> bool:
    """Whether a quantity is an integer above 0; the API server refuses a value that is none."""
    if quantity is None:
        return False
    if isinstance(quantity, (int, float)):
        quantity = str(quantity)
    match = _QUANTITY.fullmatch(quantity) if isinstance(quantity, str) else None
    if match is None or (match[3] or "") not in _SUFFIXES:
        return True
    value = Fraction(match[1]) * Fraction(10) ** int(match[2] or 0) * _SUFFIXES[match[3] or ""]
    return value > 0 and value.denominator == 1
