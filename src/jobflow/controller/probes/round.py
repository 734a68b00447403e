"""What one round of a probe asks, and whether it can be asked at all. Asks nobody itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from jobflow.api.pod import Pod, PodPhase
from jobflow.core.planning.actions import Check, Probe

PATH_SHOWN = 60
"""Characters of a path that a message shows."""

Standing = Mapping[str, frozenset[tuple[str, str, str, str, bool]]]
"""By task: of each pod its name, UID, IP, phase, and whether it is being deleted. As long as it is
the same, nothing has happened to the pods that a probe would care for."""


@dataclass(frozen=True, slots=True)
class Ask:
    """A check of one pod."""

    pod: Pod
    check: Check

    @property
    def key(self) -> tuple[str, Check]:
        """What it is, whichever pod has the name now."""
        return (self.pod.metadata.name, self.check)

    def sentence(self, said: str) -> str:
        """What was seen, in a sentence: `10.0.0.7:80/x of pod f-web-0 answers 503`."""
        path = self.check.path or ""
        if len(path) > PATH_SHOWN:
            path = f"{path[:PATH_SHOWN]}…"
        where = f"{host(self.pod.status.pod_ip)}:{self.check.port}{path}"
        return f"{where} of pod {self.pod.metadata.name} {said}"


def host(ip: str) -> str:
    """An IP as it stands before a port: an IPv6 literal in brackets."""
    return f"[{ip}]" if ":" in ip else ip


def obstacle(probe: Probe, pods: Mapping[str, Pod], answered: str = "") -> str:
    """Why no round can pass as the pods stand, in a sentence; empty: it is worth asking.

    `answered`: what the last round saw. It says more than that a pod has ended since.
    """
    for _, name, pod in _places(probe, pods):
        if pod is not None and pod.ended and answered:
            return f"{answered}; then pod {name} ended {pod.phase}"
        if said := _hindrance(name, pod):
            return said
    return ""


def asks(probe: Probe, pods: Mapping[str, Pod]) -> Sequence[Ask]:
    """Every check of every pod; what stands twice is asked once."""
    found = (Ask(pod, check) for check, _, pod in _places(probe, pods) if pod is not None)
    return list({ask.key: ask for ask in found}.values())


def standing(pods: Mapping[str, Pod]) -> Standing:
    """Where the pods of a vcjob stand."""
    found: dict[str, set[tuple[str, str, str, str, bool]]] = {}
    for pod in pods.values():
        meta, status = pod.metadata, pod.status
        row = (meta.name, meta.uid, status.pod_ip, pod.phase, meta.deletion_timestamp is not None)
        found.setdefault(pod.task, set()).add(row)
    return {task: frozenset(rows) for task, rows in found.items()}


def _places(probe: Probe, pods: Mapping[str, Pod]) -> Iterator[tuple[Check, str, Pod | None]]:
    """Each check with each pod that its task has to have: the pod's name, and the pod if it is
    there. A pod that does not belong to the vcjob is none."""
    own = {(pod.task, pod.index): pod for pod in pods.values() if pod.owner == probe.uid}
    for check in probe.checks:
        for index in range(check.pods):
            pod = own.get((check.task, index))
            name = pod.metadata.name if pod else f"{probe.job}-{check.task}-{index}"
            yield check, name, pod


def _hindrance(name: str, pod: Pod | None) -> str:
    if pod is None:
        return f"pod {name} is not there yet"
    if pod.ended:
        return f"pod {name} has ended {pod.phase}, so it cannot answer"
    if pod.metadata.deletion_timestamp is not None:
        return f"pod {name} is being deleted"
    if pod.phase == PodPhase.PENDING:
        return f"pod {name} is Pending"
    if not pod.status.pod_ip:
        return f"pod {name} has no IP yet"
    return ""
