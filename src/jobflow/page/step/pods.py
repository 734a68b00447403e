"""The pods of a step, and the events of its jobs, PodGroups and pods."""

from typing import Any

from jobflow.api.volcano.pod import Pod, PodPhase
from jobflow.client.step_rows import with_reason
from jobflow.core.text import format_count
from jobflow.page.flow_view import SelectedStep
from jobflow.page.watches.readings import rank_of
from jobflow.page.web.fragments import Fragment

MAX_PODS = 50
_ORDER: tuple[str, ...] = (PodPhase.FAILED, PodPhase.PENDING, PodPhase.UNKNOWN, PodPhase.RUNNING)
"""The phases of the pods that tell most."""


def pods(selected: SelectedStep) -> Fragment | None:
    """Return the pods; None if there is none, and no right is missing to read them."""
    watches = selected.view.page.step
    problem = watches.refusal if watches is not None else ""
    # by name among pods of one phase, so that none jumps
    found = sorted(selected.pods, key=lambda pod: (rank_of(pod, _ORDER), pod.metadata.name))
    if not found and not problem:
        return None
    more = len(found) - MAX_PODS
    shown = {
        "rows": [_row(pod) for pod in found[:MAX_PODS]],
        "total": len(found),
        "more": "",
        "problem": problem,
    }
    if more > 0:
        shown["more"] = f"{format_count(more, 'more pod')}; select an item to see its pods"
    return Fragment("step-pods", "step-pods.html", shown)


def _row(pod: Pod) -> dict[str, Any]:
    status = pod.status
    reason, code = status.reason, None
    for container in pod.containers:
        ended, waiting = container.state.terminated, container.state.waiting
        if ended is not None and ended.exit_code != 0:
            reason, code = reason or ended.reason, ended.exit_code
            break
        if waiting is not None:
            reason = with_reason(waiting.reason, waiting.message)
            break
    if not reason:
        why = pod.unscheduled
        reason = status.message if why is None else with_reason(why.reason, why.message)
    return {
        "name": pod.metadata.name,
        "phase": pod.phase,
        "reason": reason,
        "exit_code": code,
        "restarts": sum(each.restart_count for each in pod.containers),
        "node": pod.spec.node_name,
        "start": status.start_time,
    }


def events(selected: SelectedStep) -> Fragment | None:
    """Return the events, the newest first; None if there is none."""
    readings = selected.view.page.readings
    if readings is None or not (readings.events or readings.problem):
        return None
    shown = {"lines": readings.events, "problem": readings.problem}
    return Fragment("step-events", "step-events.html", shown)
