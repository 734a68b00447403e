"""Capacity of a queue in virtual time, and what the pods of a vcjob request of it. As in Volcano's
gang scheduling, the first `minAvailable` pods start together or not at all, others one by one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from jobflow.api.volcano.job import JobSpec, Task
from jobflow.core.pods.resources import parse_quantity

Amounts = Mapping[str, float]

_PRECISION = 1e-9
_EXAMPLE = "write it like cpu=64,memory=256Gi,nvidia.com/gpu=8"


def parse_capacity(text: str) -> dict[str, float]:
    """Return the amounts of `cpu=64,nvidia.com/gpu=8`. Raises ValueError with all faults."""
    found: dict[str, float] = {}
    faults = []
    for part in text.split(","):
        name, _, value = (word.strip() for word in part.partition("="))
        amount = parse_quantity(value)
        if not name or amount is None:
            faults.append(f'"{part.strip()}" is not a resource and a quantity: {_EXAMPLE}')
        elif name in found:
            faults.append(f"{name} is given twice: remove one of them")
        else:
            found[name] = amount
    if faults:
        raise ValueError("\n".join(faults))
    return found


def pod_requests(task: Task) -> dict[str, float]:
    """Return the requests of one pod of a task: the sum of its containers, or the most of an init
    container if that is more."""
    spec = (task.template or {}).get("spec") or {}
    total: dict[str, float] = {}
    for container in spec.get("containers") or ():
        for name, amount in _container_requests(container):
            total[name] = total.get(name, 0.0) + amount
    for container in spec.get("initContainers") or ():
        for name, amount in _container_requests(container):
            total[name] = max(total.get(name, 0.0), amount)
    return total


def _container_requests(container: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    resources = container.get("resources") or {}
    # A limit without a request counts as the request: the default of the API server.
    asked = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    for name, value in asked.items():
        yield name, parse_quantity(value) or 0.0


def gang_requests(spec: JobSpec) -> dict[str, float]:
    """Return the requests of the pods that must start together: `minAvailable` of the job, first
    those that its tasks require."""
    replicas = [(task, task.replicas or 0) for task in spec.tasks or ()]
    required = [(task, min(task.min_available or 0, most)) for task, most in replicas]
    others = [(task, max(most - (task.min_available or 0), 0)) for task, most in replicas]
    left, total = spec.min_available or 0, dict[str, float]()
    for task, count in (*required, *others):
        pods = min(count, left)
        left -= pods
        for name, amount in pod_requests(task).items():
            total[name] = total.get(name, 0.0) + amount * pods
    return total


class Room:
    """The free part of a capacity. Resources that the capacity does not name are unlimited."""

    def __init__(self, capacity: Amounts) -> None:
        self.capacity = dict(capacity)
        self._used = dict.fromkeys(capacity, 0.0)

    def excess(self, asked: Amounts) -> list[str]:
        """Return the resources of which `asked` is more than the whole capacity."""
        return [
            name
            for name, most in self.capacity.items()
            if asked.get(name, 0.0) > most * (1 + _PRECISION)
        ]

    def fits(self, asked: Amounts) -> bool:
        return all(
            self._used[name] + asked.get(name, 0.0) <= most * (1 + _PRECISION)
            for name, most in self.capacity.items()
        )

    def take(self, asked: Amounts) -> None:
        for name in self.capacity:
            self._used[name] += asked.get(name, 0.0)

    def give_back(self, asked: Amounts) -> None:
        for name in self.capacity:
            self._used[name] -= asked.get(name, 0.0)
