"""Resources of vcjobs: quantities, the requests of all pods, and the requested hours. A value that
is not a quantity counts as nothing, because the API server has checked the pod templates."""

import re
from collections.abc import Iterable, Mapping
from datetime import timedelta
from math import isfinite
from typing import Any, NamedTuple

from jobflow.api.flow.status import RequestedHours
from jobflow.api.volcano.job import ContainerOutline, ContainerResources, JobOutline

_NUMBER = re.compile(
    r"([0-9]{1,40}(?:\.[0-9]{0,40})?|\.[0-9]{1,40})([A-Za-z]{0,2}|[eE][-+]?[0-9]{1,3})"
)
"""A quantity (k8s.io/apimachinery/pkg/api/resource): a decimal number and a suffix or exponent. It
has no sign, because the API server refuses negative requests."""
_SUFFIXES: Mapping[str, float] = {
    "n": 1e-9, "u": 1e-6, "m": 1e-3, "": 1.0,
    "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18,
    "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50, "Ei": 2.0**60,
}  # fmt: skip
_MAX_QUANTITY = 1e18
"""Larger quantities are ignored: no node has as much, and hours must stay finite."""
_MAX_PODS = 2**31 - 1
_GIB = 2.0**30
_HOUR = timedelta(hours=1)
_NOT_A_COUNT = ("mem", "core", "percent")
"""Words in names of device plugins that count parts of a GPU, not GPUs."""


class Requests(NamedTuple):
    """Requests of one or more pods: cores, bytes, GPUs."""

    cpu: float = 0.0
    memory: float = 0.0
    gpu: float = 0.0


NOTHING = Requests()


def parse_quantity(value: Any) -> float | None:
    """Return a Kubernetes quantity (`500m`, `1Gi`, `2`, `1e3`, 1.5) as a number, or None."""
    # for Python, true is a number
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return float(value) if 0 <= value <= _MAX_QUANTITY else None
    match = _NUMBER.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return None
    number, suffix = match.groups()
    scale = _SUFFIXES.get(suffix)
    # an exponent instead of a suffix
    if scale is None:
        if suffix[:1] not in ("e", "E") or len(suffix) < 2 or suffix[1:].isalpha():
            return None
        scale = float(f"1{suffix}")
    found = float(number) * scale
    return found if isfinite(found) and found <= _MAX_QUANTITY else None


def sum_requests(spec: JobOutline) -> Requests:
    total = NOTHING
    for task in spec.tasks or ():
        # a pod requests the sum of its containers, or the most that an init container requests, for
        # each resource, as in the scheduler
        together = _sum(map(_sum_container, task.pod.asking))
        alone = map(_sum_container, task.pod.asking_first)
        # hours must stay finite
        pods = min(max(task.replicas or 0, 0), _MAX_PODS)
        of_task = (max(amounts) * pods for amounts in zip(together, *alone, strict=True))
        total = _sum([total, Requests(*of_task)])
    return total


def add_hours(
    asked: Requests, ran: timedelta, before: RequestedHours | None
) -> RequestedHours | None:
    """Return `before` plus the requests times the time that a job ran, or None if that is zero."""
    # texts, because the conventions of Kubernetes have no floats
    past = _parse_hours(before)
    time = max(ran / _HOUR, 0.0)
    return _make_hours(
        past.cpu + asked.cpu * time,
        past.memory + asked.memory / _GIB * time,
        past.gpu + asked.gpu * time,
    )


def replace_hours(
    total: RequestedHours | None, before: RequestedHours | None, after: RequestedHours | None
) -> RequestedHours | None:
    """Return `total` with `after` instead of its part `before`, or None if that is zero."""
    parts = zip(_parse_hours(total), _parse_hours(before), _parse_hours(after), strict=True)
    return _make_hours(*(max(amount - old + new, 0.0) for amount, old, new in parts))


def _make_hours(cpu: float, memory: float, gpu: float) -> RequestedHours | None:
    hours = RequestedHours(cpu=_to_text(cpu), memory=_to_text(memory), gpu=_to_text(gpu))
    return hours if hours != RequestedHours() else None


def _parse_hours(before: RequestedHours | None) -> Requests:
    if before is None:
        return NOTHING
    texts = (before.cpu, before.memory, before.gpu)
    return Requests(*(parse_quantity(text) or 0.0 for text in texts))


def _to_text(number: float) -> str:
    text = f"{number:.4f}".rstrip("0").rstrip(".")
    return "" if text == "0" else text


def _sum_container(container: ContainerOutline) -> Requests:
    """Return the requests of a container. A limit without a request counts as one, which is the
    default of the API server."""
    resources = container.resources
    if not isinstance(resources, ContainerResources):
        return NOTHING
    asked: dict[str, Any] = {}
    # in this order, so that requests win
    for each in (resources.limits, resources.requests):
        asked |= each if isinstance(each, dict) else {}
    gpus = 0.0
    for name, amount in asked.items():
        # such as nvidia.com/gpu or volcano.sh/vgpu-number
        _, slash, device = name.lower().rpartition("/")
        if slash and "gpu" in device and not any(word in device for word in _NOT_A_COUNT):
            gpus += parse_quantity(amount) or 0.0
    return Requests(
        cpu=parse_quantity(asked.get("cpu")) or 0.0,
        memory=parse_quantity(asked.get("memory")) or 0.0,
        gpu=gpus,
    )


def _sum(parts: Iterable[Requests]) -> Requests:
    return Requests(*map(sum, zip(*parts, strict=True)))
