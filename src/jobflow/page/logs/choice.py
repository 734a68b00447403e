"""The logs that a pane shows, as its address names them."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

from jobflow.api.volcano.pod import Pod, PodPhase
from jobflow.client.logs.selection import LogSelection, LogTarget, attempt_of, containers_of
from jobflow.page.watches.step import StepChoice

MAX_SOURCES = 20
"""Containers whose logs are followed at once."""
MAX_LINES = 5000
"""Lines that a pane shows."""
TAIL = 500
"""Lines of each container with which a pane begins, unless it asks for more."""
MIN_TAIL = 50
MAX_CHOICES = 500
"""Names of a list to choose from."""
_ORDER: tuple[str, ...] = (PodPhase.FAILED, PodPhase.RUNNING, PodPhase.PENDING)


def read_selection(params: Mapping[str, str], choice: StepChoice | None) -> LogSelection:
    """Return the selection of an address."""
    tail = params.get("tail", "")
    lines = int(tail) if tail.isascii() and tail.isdigit() and len(tail) < 6 else TAIL
    return LogSelection(
        step=choice.step if choice is not None else None,
        index=choice.index if choice is not None else None,
        # the browser keeps no more
        tail=min(lines, MAX_LINES),
        task=params.get("task") or None,
        pod=params.get("pod") or None,
        container=params.get("container") or None,
        attempt=params.get("attempt") or None,
    )


def share_of(tail: int, sources: int) -> int:
    """Return with how many lines each of so many containers begins."""
    return max(min(tail, MAX_LINES // max(sources, 1)), MIN_TAIL)


def list_choices(pods: Sequence[Pod]) -> dict[str, list[str]]:
    """Return the names of tasks, pods, containers and attempts from which a user can choose."""
    # as numbers: `10` after `9`
    attempts = sorted(map(attempt_of, pods), key=lambda each: (len(each), each))
    names = {
        "task": [pod.task for pod in pods],
        "pod": sorted(pod.metadata.name for pod in pods),
        "container": [name for pod in pods for name in containers_of(pod)],
        "attempt": attempts,
    }
    unique = {kind: filter(None, dict.fromkeys(each)) for kind, each in names.items()}
    return {kind: [*islice(each, MAX_CHOICES)] for kind, each in unique.items()}


def most_telling(targets: Iterable[LogTarget]) -> list[LogTarget]:
    """Return at most MAX_SOURCES containers: those of pods that failed first, then those that run;
    of each the ones that started last."""

    def rank(target: LogTarget) -> int:
        phase = target.pod.phase
        return _ORDER.index(phase) if phase in _ORDER else len(_ORDER)

    # sorting keeps this order among pods of one rank
    newest = [*targets][::-1]
    newest.sort(key=rank)
    return newest[:MAX_SOURCES]
