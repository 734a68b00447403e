"""The logs that a pane shows, as its address names them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

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


def read_selection(params: Mapping[str, str], choice: StepChoice | None) -> LogSelection:
    """Return the selection of an address."""
    tail = params.get("tail", "")
    lines = int(tail) if tail.isascii() and tail.isdigit() and len(tail) < 6 else TAIL
    return LogSelection(
        step=choice.step if choice is not None else None,
        index=choice.index if choice is not None else None,
        tail=min(lines, MAX_LINES),
        task=params.get("task") or None,
        pod=params.get("pod") or None,
        container=params.get("container") or None,
        attempt=params.get("attempt") or None,
    )


def share_of(tail: int, sources: int) -> int:
    """Return with how many lines each of so many containers begins."""
    return max(min(tail, MAX_LINES // max(sources, 1)), MIN_TAIL)


@dataclass(frozen=True, slots=True)
class Choices:
    """The names from which a user can choose, in order."""

    task: tuple[str, ...] = ()
    pod: tuple[str, ...] = ()
    container: tuple[str, ...] = ()
    attempt: tuple[str, ...] = ()

    @classmethod
    def of(cls, pods: Iterable[Pod]) -> Choices:
        """Return the choices among these pods."""
        listed = list(pods)
        names = (name for pod in listed for name in containers_of(pod))
        attempts = {attempt_of(pod) for pod in listed}
        return cls(
            task=_first(pod.task for pod in listed),
            pod=_first(sorted(pod.metadata.name for pod in listed)),
            container=_first(names),
            attempt=_first(sorted(attempts, key=lambda each: (len(each), each))),
        )


def _first(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(name for name in dict.fromkeys(names) if name)[:MAX_CHOICES]


_ORDER = (PodPhase.FAILED, PodPhase.RUNNING, PodPhase.PENDING)


def most_telling(targets: Iterable[LogTarget]) -> list[LogTarget]:
    """Return at most MAX_SOURCES containers: those of pods that failed first, then those that run;
    of each the ones that started last."""
    listed = list(targets)[::-1]
    listed.sort(key=lambda each: _rank(each.pod))
    return listed[:MAX_SOURCES]


def _rank(pod: Pod) -> int:
    return _ORDER.index(PodPhase(pod.phase)) if pod.phase in _ORDER else len(_ORDER)
