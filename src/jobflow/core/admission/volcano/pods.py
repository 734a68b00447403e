"""Volcano's rules of admission for the pods of tasks.

Source: pkg/webhooks/admission/jobs/validate/admit_job.go (validateTaskTemplate,
validateTaskTopoPolicy). The API server checks pod templates in a dry run. Only their containers are
checked here, because a patch easily breaks them; `generated_names` checks the names of pods.
"""

from collections.abc import Iterator

from jobflow.core.admission.object_names import DNS_LABEL, word_violations
from jobflow.core.admission.volcano.job_view import JobView, TaskView, elements, mapping, text
from jobflow.core.pods.resources import parse_quantity
from jobflow.core.violations import Reason, Violation

TOPOLOGY_POLICIES = ("none", "best-effort", "restricted", "single-numa-node")

_CONTAINER_LISTS = ("initContainers", "containers")


def pod_violations(job: JobView) -> Iterator[Violation]:
    for task in job.tasks:
        yield from _containers(task)
        policy = text(task.raw, "topologyPolicy")
        yield from word_violations(f"{task.path}.topologyPolicy", policy, TOPOLOGY_POLICIES)
        if policy not in TOPOLOGY_POLICIES or policy == "none":
            continue
        for key in _CONTAINER_LISTS:
            for index, container in elements(task.pod_spec, key):
                resources = mapping(container, "resources")
                cpu = (mapping(resources, "requests") or mapping(resources, "limits")).get("cpu")
                amount = parse_quantity(cpu.removeprefix("+") if isinstance(cpu, str) else cpu)
                # the API server refuses what is no quantity, and reads nine decimals of others
                cores = 1.0 if amount is None else round(amount, 9)
                if cpu is None or cores <= 0 or not cores.is_integer():
                    at = f"{task.path}.template.spec.{key}[{index}].resources.requests.cpu"
                    detail = f"with topologyPolicy {policy} each container requests whole CPUs"
                    yield Violation(at, Reason.INVALID, cpu, detail)


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
