"""The pods of a step, and the events of its jobs, PodGroups and pods."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from jobflow.api.volcano.pod import ContainerStatus, Pod, PodPhase
from jobflow.core.text import format_count
from jobflow.kube.client import ApiError
from jobflow.page.flow_view import SelectedStep
from jobflow.page.watches.readings import EventLine
from jobflow.page.web.fragments import Fragment

MAX_PODS = 50
_ORDER = (PodPhase.FAILED, PodPhase.PENDING, PodPhase.UNKNOWN, PodPhase.RUNNING)


@dataclass(frozen=True, slots=True)
class PodRow:
    """A pod."""

    name: str
    phase: str
    reason: str
    exit_code: int | None
    restarts: int
    node: str
    start: datetime | None


@dataclass(frozen=True, slots=True)
class Pods:
    """The pods that tell most, failed ones first."""

    rows: tuple[PodRow, ...]
    total: int
    more: str
    problem: str
    """The right that is missing to read them."""


@dataclass(frozen=True, slots=True)
class Events:
    """Events, the newest first."""

    lines: tuple[EventLine, ...]
    problem: str


def pods(selected: SelectedStep) -> Fragment | None:
    """Return the pods; None if there is none."""
    found = sorted(selected.pods, key=lambda pod: (_rank(pod), pod.metadata.name))
    rows = tuple(map(_row, found[:MAX_PODS]))
    problem = _refusal(selected)
    if not rows and not problem:
        return None
    more = len(found) - len(rows)
    hint = f"{format_count(more, 'more pod')}; select an item to see its pods" if more else ""
    return Fragment("step-pods", "step-pods.html", Pods(rows, len(found), hint, problem))


def _rank(pod: Pod) -> int:
    return _ORDER.index(PodPhase(pod.phase)) if pod.phase in _ORDER else len(_ORDER)


def _row(pod: Pod) -> PodRow:
    status = pod.status
    containers = (*(status.init_container_statuses or ()), *(status.container_statuses or ()))
    telling = next(filter(_tells, containers), None)
    reason, code = status.reason, None
    if telling is not None:
        ended, waiting = telling.state.terminated, telling.state.waiting
        if ended is not None:
            reason, code = reason or ended.reason, ended.exit_code
        elif waiting is not None:
            reason = ": ".join(filter(None, (waiting.reason, waiting.message)))
    if not reason:
        reason = next(
            (
                ": ".join(filter(None, (each.reason, each.message)))
                for each in status.conditions or ()
                if each.type == "PodScheduled" and each.status == "False"
            ),
            status.message,
        )
    restarts = sum(each.restart_count for each in containers)
    node = pod.spec.node_name
    return PodRow(pod.metadata.name, pod.phase, reason, code, restarts, node, status.start_time)


def _tells(status: ContainerStatus) -> bool:
    """Whether the container has failed, or cannot start."""
    ended = status.state.terminated
    return status.state.waiting is not None or (ended is not None and ended.exit_code != 0)


def _refusal(selected: SelectedStep) -> str:
    step = selected.view.step
    for live in step.lives if step is not None else ():
        error = live.reflector.error
        if live.cache.served is False and isinstance(error, ApiError):
            kind, where = live.resource.qualified, f'in namespace "{live.namespace}"'
            return f"You may not list and watch {kind} {where}: {error.message}"
    return ""


def events(selected: SelectedStep) -> Fragment | None:
    """Return the events; None if there is none."""
    readings = selected.view.readings
    lines: Sequence[EventLine] = readings.events if readings is not None else ()
    problem = readings.problem if readings is not None else ""
    if not lines and not problem:
        return None
    return Fragment("step-events", "step-events.html", Events(tuple(lines), problem))
