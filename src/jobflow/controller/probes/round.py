"""One round of a probe: its checks, and the pods that prevent it. Sends nothing."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from jobflow.api.volcano.pod import Pod, PodPhase
from jobflow.core.planning.actions import Check, JobProbe

PATH_SHOWN = 60
"""Characters of a path in a message."""

PodStates = Mapping[str, frozenset[tuple[str, str, str, str, bool]]]
"""By task: name, UID, IP and phase of each pod, and whether it is being deleted. All changes of
pods that matter to a probe are in it."""


@dataclass(frozen=True, slots=True)
class PodCheck:
    """A check of one pod."""

    pod: Pod
    check: Check

    @property
    def key(self) -> tuple[str, Check]:
        """Key of the check for any pod of this name."""
        return (self.pod.metadata.name, self.check)

    def sentence(self, answer: str) -> str:
        """Return the answer in a sentence: `10.0.0.7:80/x of pod f-web-0 answers 503`."""
        path = self.check.path or ""
        if len(path) > PATH_SHOWN:
            path = f"{path[:PATH_SHOWN]}…"
        address = f"{host(self.pod.status.pod_ip)}:{self.check.port}{path}"
        return f"{address} of pod {self.pod.metadata.name} {answer}"


def host(ip: str) -> str:
    """Return an IP as written before a port: IPv6 in brackets."""
    return f"[{ip}]" if ":" in ip else ip


def obstacle(probe: JobProbe, pods: Mapping[str, Pod], last_failure: str = "") -> str:
    """Return why no round can pass with these pods, in a sentence; "" if one can. `last_failure`
    is added if a pod has ended since, because it says more."""
    for _, name, pod in _expected_pods(probe, pods):
        if pod is not None and pod.ended and last_failure:
            return f"{last_failure}; then pod {name} ended {pod.phase}"
        if reason := _unavailable(name, pod):
            return reason
    return ""


def pod_checks(probe: JobProbe, pods: Mapping[str, Pod]) -> Sequence[PodCheck]:
    """Return the checks of all pods, without duplicates."""
    found = (PodCheck(pod, check) for check, _, pod in _expected_pods(probe, pods) if pod)
    return list({check.key: check for check in found}.values())


def pod_states(pods: Mapping[str, Pod]) -> PodStates:
    """Return the state of a job's pods by task."""
    found: dict[str, set[tuple[str, str, str, str, bool]]] = {}
    for pod in pods.values():
        meta, status = pod.metadata, pod.status
        row = (meta.name, meta.uid, status.pod_ip, pod.phase, meta.deletion_timestamp is not None)
        found.setdefault(pod.task, set()).add(row)
    return {task: frozenset(rows) for task, rows in found.items()}


def _expected_pods(
    probe: JobProbe, pods: Mapping[str, Pod]
) -> Iterator[tuple[Check, str, Pod | None]]:
    """Yield each check with each pod that its task should have: the pod's name, and the pod if it
    exists and belongs to the job."""
    own = {(pod.task, pod.index): pod for pod in pods.values() if pod.owner == probe.uid}
    for check in probe.checks:
        for index in range(check.pods):
            pod = own.get((check.task, index))
            name = pod.metadata.name if pod else f"{probe.job}-{check.task}-{index}"
            yield check, name, pod


def _unavailable(name: str, pod: Pod | None) -> str:
    if pod is None:
        return f"pod {name} does not exist yet"
    if pod.ended:
        return f"pod {name} has ended {pod.phase}, so it cannot answer"
    if pod.metadata.deletion_timestamp is not None:
        return f"pod {name} is being deleted"
    if pod.phase == PodPhase.PENDING:
        return f"pod {name} is Pending"
    if not pod.status.pod_ip:
        return f"pod {name} has no IP yet"
    return ""
