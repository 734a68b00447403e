"""The page of a flow: header, failures, one tab, and the selected step."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from jobflow.api import labels
from jobflow.api.flow.cronjobflow import CronJobFlow
from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import FlowPhase, StepPhase
from jobflow.client.conditions import condition_of
from jobflow.core.explain.progress import message_of
from jobflow.core.names import format_place
from jobflow.core.planning.cron import why_held
from jobflow.core.reasons import FlowReason, StepReason
from jobflow.core.spec.step_commands import QUESTION, asks
from jobflow.core.text import format_count
from jobflow.core.timelines.spans import runs_of
from jobflow.core.work import is_asked
from jobflow.page.actions import list_offers
from jobflow.page.flow_view import FlowQuery, FlowView, notice
from jobflow.page.panels.graph import graph
from jobflow.page.panels.scrubber import scrubber
from jobflow.page.panels.table import table_view
from jobflow.page.panels.timeline import estimate, timeline_view
from jobflow.page.step.panel import step_panel
from jobflow.page.watches.step import LivePage
from jobflow.page.web.fragments import Fragment

MAX_LISTED = 5
"""Failed steps, and approvals, at the top of the page; the others are counted."""
_SAID = (FlowReason.STEP_FAILED, FlowReason.NAME_CONFLICT, StepReason.WAITING_FOR_APPROVAL)
"""Reasons of a flow that the lists below its header tell."""
TABS: Mapping[str, tuple[str, Callable[[FlowView], Fragment]]] = {
    "graph": ("Graph", graph),
    "timeline": ("Timeline", timeline_view),
    "table": ("Table", table_view),
}
"""Title and panel of each view of all steps, by its name in the address. The page shows one at a
time: the first one if the address names none."""
_PARTS = ("actions", "problems", "approvals", "tabs", "step")
"""The parts of the page below the header."""


@dataclass(frozen=True, slots=True)
class _TabBar:
    current: str
    titles: Sequence[tuple[str, str]]
    q: str = field(compare=False)
    """The text in the search field, which the browser itself keeps up to date."""


def flow_fragments(page: LivePage, query: FlowQuery) -> list[Fragment]:
    live = page.flow
    flow = live.flow
    if flow is None:
        missing = {
            "namespace": live.namespace,
            "name": live.name,
            "is_known": live.cache.synced,  # else the cluster has not answered yet
        }
        return [
            notice(live),
            Fragment("header", "missing.html", missing),
            *(Fragment(name, "empty.html", None) for name in _PARTS),
        ]
    view = FlowView.of(flow, query, page)
    then = view.as_of()
    offers = list_offers(flow, live.children(), datetime.now(UTC), is_deleted=live.is_deleted)
    deleted = f"JobFlow {flow.metadata.name} was deleted. You see its last state."
    # a link of another version may name another view
    tab = query.view if query.view in TABS else next(iter(TABS))
    bar = _TabBar(tab, [(name, title) for name, (title, _) in TABS.items()], query.q)
    draw = TABS[tab][1]
    return [
        notice(live, deleted if live.is_deleted else ""),
        Fragment("header", "header.html", _header(view)),
        Fragment("actions", "actions.html", offers),
        Fragment("problems", "problems.html", _problems(view)),
        Fragment("approvals", "approvals.html", _questions(view)),
        Fragment("tabs", "tabs.html", bar, [scrubber(view, then), draw(then)]),
        step_panel(view),
    ]


def _header(view: FlowView) -> dict[str, Any]:
    flow = view.flow
    meta, status = flow.metadata, flow.status
    is_said = status.state.reason in _SAID
    ended, _, total = status.progress.partition("/")
    # a flow without a status shows its steps as not finished
    steps = len(flow.all_steps) or len(status.conditions or {})
    # the label of a long name is a hash, the owner is not
    parent = meta.controller.name if flow.is_child and meta.controller else ""
    return {
        "namespace": meta.namespace,
        "name": meta.name,
        "phase": status.state.phase or FlowPhase.PENDING,
        "reason": "" if is_said else status.state.reason,
        "message": "" if is_said else status.state.message,
        "is_suspended": status.suspended_at is not None,
        "ended": int(ended) if ended.isdecimal() else 0,
        "total": int(total) if total.isdecimal() else steps,
        "start": status.start_time,
        "end": status.completion_time if flow.final else None,
        "created": meta.creation_timestamp,
        "awaited": _awaited(view.page.flow.awaited_by(), flow),
        "estimate": left if (left := estimate(view)) is not None and left.high else None,
        "others": [
            {"are": are, "names": names[:MAX_LISTED], "more": max(0, len(names) - MAX_LISTED)}
            for are, names in (
                ("part of", [parent or (meta.labels or {}).get(labels.PARENT, "")]),
                ("reuses", [flow.spec.reuse.flow if flow.spec.reuse is not None else ""]),
                ("reused by", view.page.flow.reused_by()),
            )
            if any(names)
        ],
    }


def _awaited(cron: CronJobFlow | None, flow: JobFlow) -> str:
    """Return what a CronJobFlow waits for; "" if it waits for nothing here."""
    if cron is None:
        return ""
    why = why_held(cron, flow) if flow.final else "the next flow starts after the end of this one"
    return f"CronJobFlow {cron.metadata.name}: {why}" if why else ""


def _problems(view: FlowView) -> dict[str, Any]:
    failed = [
        (step.name, condition)
        for step in view.flow.all_steps
        if (condition := condition_of(view.flow, step.name)).phase == StepPhase.FAILED
    ]
    shown = []
    for step, each in failed[:MAX_LISTED]:
        # the panel of the selected step says why it failed
        is_said = view.query.selects(step)
        reason, message = ("", "") if is_said else (each.reason, message_of(each))
        shown.append({"step": step, "reason": reason, "message": message})
    more = len(failed) - len(shown)
    return {"shown": shown, "more": f"{format_count(more, 'more step')} failed" if more else ""}


def _questions(view: FlowView) -> dict[str, Any]:
    waiting = [
        (format_place(step.name, run.index), run.message)
        for step in view.flow.all_steps
        if is_asked(step) and not view.flow.final
        for run in runs_of(condition_of(view.flow, step.name))
        if asks(run)
    ]
    # the panel of the selected step has the question itself
    shown = [
        {"step": step, "text": "" if step == view.query.step or text == QUESTION else text}
        for step, text in waiting[:MAX_LISTED]
    ]
    more = len(waiting) - len(shown)
    return {"shown": shown, "more": format_count(more, "more approval") if more else ""}
