"""What vcjobs ask of the cluster: quantities, a whole vcjob's requests, the hours they come to.

It never raises, whatever stands where a quantity should: what is none counts nothing, for the API
server of a cluster has checked every pod template, and nobody the lists and texts of a test.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import timedelta
from math import isfinite
from typing import Any, NamedTuple

from jobflow.api.flow_status import RequestedHours
from jobflow.api.job import ContainerOutline, ContainerResources, JobOutline, TaskOutline

_NUMBER = re.compile(
    r"([0-9]{1,40}(?:\.[0-9]{0,40})?|\.[0-9]{1,40})([A-Za-z]{0,2}|[eE][-+]?[0-9]{1,3})"
)
"""A quantity (k8s.io/apimachinery/pkg/api/resource): a decimal number and a suffix or exponent. No
sign: the API server refuses requests below zero."""
_SUFFIXES: Mapping[str, float] = {
    "n": 1e-9, "u": 1e-6, "m": 1e-3, "": 1.0,
    "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18,
    "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50, "Ei": 2.0**60,
}  # fmt: skip
_MOST = 1e18
"""More than this of anything is no request that a node could meet; hours stay finite numbers."""
_MOST_PODS = 2**31 - 1
_GIB = 2.0**30
_HOUR = timedelta(hours=1)
_NOT_A_COUNT = ("mem", "core", "percent")
"""In names of device plugins: parts of a GPU, not how many."""


class Requests(NamedTuple):
    """What is asked for at once: cores, bytes, GPUs."""

    cpu: float = 0.0
    memory: float = 0.0
    gpu: float = 0.0


NOTHING = Requests()


def parse_quantity(value: Any) -> float | None:
    """A Kubernetes quantity (`500m`, `1Gi`, `2`, `1e3`, 1.5) as a number, else None."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return float(value) if 0 <= value <= _MOST else None
    match = _NUMBER.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return None
    number, suffix = match.groups()
    scale = _SUFFIXES.get(suffix)
    if scale is None:
        if suffix[:1] not in ("e", "E") or len(suffix) < 2 or suffix[1:].isalpha():
            return None
        scale = float(f"1{suffix}")
    found = float(number) * scale
    return found if isfinite(found) and found <= _MOST else None


def sum_requests(spec: JobOutline) -> Requests:
    """What all pods of a vcjob ask for together."""
    return _sum(_of_task(task) for task in spec.tasks or ())


def add_hours(
    asked: Requests, ran: timedelta, before: RequestedHours | None
) -> RequestedHours | None:
    """`before` and what was asked for during the time it `ran`; None where that is nothing."""
    past = _past(before)
    time = max(ran / _HOUR, 0.0)
    total = RequestedHours(
        cpu=_text(past.cpu + asked.cpu * time),
        memory=_text(past.memory + asked.memory / _GIB * time),
        gpu=_text(past.gpu + asked.gpu * time),
    )
    return total if total != RequestedHours() else None


def replace_hours(
    total: RequestedHours | None, before: RequestedHours | None, after: RequestedHours | None
) -> RequestedHours | None:
    """`total` with one of its parts, `before`, exchanged for `after`."""
    parts = zip(_past(total), _past(before), _past(after), strict=True)
    cpu, memory, gpu = (_text(max(whole - old + new, 0.0)) for whole, old, new in parts)
    found = RequestedHours(cpu=cpu, memory=memory, gpu=gpu)
    return found if found != RequestedHours() else None


def _past(before: RequestedHours | None) -> Requests:
    if before is None:
        return NOTHING
    return Requests(
        *(parse_quantity(text) or 0.0 for text in (before.cpu, before.memory, before.gpu))
    )


def _text(number: float) -> str:
    """At most four decimals, no zeros at the end, nothing for nothing."""
    text = f"{number:.4f}".rstrip("0").rstrip(".")
    return "" if text == "0" else text


def _of_task(task: TaskOutline) -> Requests:
    """Of all its pods. One asks, as the scheduler counts, for what its containers ask for together
    or its greediest init container does alone, resource by resource."""
    pods = min(max(task.replicas or 0, 0), _MOST_PODS)
    together = _sum(_of_container(container) for container in task.pod.asking)
    alone = [_of_container(container) for container in task.pod.asking_first]
    return Requests(*(max(amounts) * pods for amounts in zip(together, *alone, strict=True)))


def _of_container(container: ContainerOutline) -> Requests:
    """Its requests; of what it only limits, the limit (the API server's own default)."""
    resources = container.resources
    if not isinstance(resources, ContainerResources):
        return NOTHING
    asked = {**_map(resources.limits), **_map(resources.requests)}
    return Requests(
        cpu=parse_quantity(asked.get("cpu")) or 0.0,
        memory=parse_quantity(asked.get("memory")) or 0.0,
        gpu=sum(parse_quantity(amount) or 0.0 for name, amount in asked.items() if _is_gpu(name)),
    )


def _map(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _is_gpu(resource: str) -> bool:
    """Whether it counts GPUs: `nvidia.com/gpu`, `amd.com/gpu`, `volcano.sh/vgpu-number` …"""
    _, slash, device = resource.lower().rpartition("/")
    return bool(slash) and "gpu" in device and not any(word in device for word in _NOT_A_COUNT)


def _sum(parts: Iterable[Requests]) -> Requests:
    cpu = memory = gpu = 0.0
    for part in parts:
        cpu, memory, gpu = cpu + part.cpu, memory + part.memory, gpu + part.gpu
    return Requests(cpu, memory, gpu)
