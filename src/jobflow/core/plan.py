"""`plan`: what to do now about one flow. The table of contents of the rules, and none of them.

The theory. A step that has begun is judged by what its vcjob and the status say (`begun`), one
that has not by its targets (`unstarted`), in the order of the dependencies. The status is put
together from these decisions (`status`), the events are its difference from the stored one
(`events`), and what is deleted is judged by the stored one alone (`retention`). What Commands say
comes first (`orders`): one that cancels has everything decided anew, with what runs to be aborted
(`aborting`) and the rest skipped.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

import msgspec

from jobflow.api.jobflow import JobFlow
from jobflow.core.aborting import left_over, unheard_of, was_cancelled
from jobflow.core.actions import Plan, View
from jobflow.core.events import flow_events, step_events
from jobflow.core.flow_phase import is_over
from jobflow.core.orders import orders
from jobflow.core.retention import retention
from jobflow.core.runs import begun_steps
from jobflow.core.scene import Decision, Scene
from jobflow.core.status import flow_status, invalid_status, untouched
from jobflow.core.transitions import timed
from jobflow.core.unstarted import Pass
from jobflow.core.validate import Known, validate_flow


def plan(flow: JobFlow, view: View, *, now: datetime) -> Plan:
    """What to do about `flow`, as it was read, seeing `view`, at `now` (aware, UTC).

    Pure, deterministic and independent of the order of what it is given; linear in steps, targets
    and vcjobs. Planning again after a plan was carried out and its status stored does nothing.
    """
    if flow.final:
        return _final(flow, view, now)
    scene = Scene(flow, view, now)
    if not view.jobs and not scene.terminating and untouched(flow):
        if violations := validate_flow(flow, Known()).violations:
            status = invalid_status(scene, violations)
            events = tuple(flow_events(flow, status))
            return Plan(actions=(), status=status, urgent=True, events=events)
    return _carried_on(scene)


def _final(flow: JobFlow, view: View, now: datetime) -> Plan:
    """How it ended is left as it is; vcjobs may still have to go, and Commands come too late."""
    kept = retention(flow, view, now)
    given = orders(flow, view)
    status = flow.status
    if given.handled != status.handled_commands:
        status = msgspec.structs.replace(status, handled_commands=given.handled)
    strays = unheard_of(Scene(flow, view, now)) if was_cancelled(flow) else ()
    return Plan(
        actions=(*kept.deletes, *strays, *given.deletes),
        status=status,
        urgent=given.urgent,
        events=given.events,
        requeue_after=_until((kept.wake_at,), now),
    )


def _carried_on(scene: Scene) -> Plan:
    flow, now = scene.flow, scene.now
    decisions = _decide(scene)
    given = orders(flow, scene.view, over=lambda: is_over(scene, decisions))
    if given.cancel is not None:
        scene = Scene(flow, scene.view, now, cancel=given.cancel)
        decisions = _decide(scene)
    status = flow_status(scene, decisions, given.handled)
    kept = retention(flow, scene.view, now)
    made = [action for decision in decisions for action in decision.actions]
    reads = dict.fromkeys(read for decision in decisions for read in decision.reads)
    strays = left_over(scene) if was_cancelled(flow) else ()
    urgent = (
        status.state.phase != flow.status.state.phase
        or kept.urgent
        or given.urgent
        or any(decision.urgent for decision in decisions)
    )
    return Plan(
        actions=(*made, *reads, *kept.deletes, *strays, *given.deletes),
        status=status,
        urgent=urgent and status is not flow.status,
        events=(*given.events, *step_events(scene, decisions), *flow_events(flow, status)),
        requeue_after=_until((kept.wake_at, *(d.wake_at for d in decisions)), now),
        probes=tuple(probe for decision in decisions for probe in decision.probes),
    )


def _decide(scene: Scene) -> list[Decision]:
    """One decision a step, by position."""
    return timed(scene, Pass(scene, begun_steps(scene)).run())


def _until(moments: Iterable[datetime | None], now: datetime) -> timedelta | None:
    """How long it is until the first of them, at least nothing."""
    first = min((moment for moment in moments if moment is not None), default=None)
    return None if first is None else max(first - now, timedelta(0))
