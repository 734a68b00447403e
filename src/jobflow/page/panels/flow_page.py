"""The page of a flow: header, failures, one tab, and the selected step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from jobflow.api import labels
from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import FlowPhase, StepPhase
from jobflow.core.explain.progress import message_of
from jobflow.core.names import format_job_name
from jobflow.core.reasons import FlowReason, StepReason
from jobflow.core.spec.approvals import QUESTION, asks
from jobflow.core.text import format_count
from jobflow.core.timelines.spans import runs_of
from jobflow.core.work import is_asked
from jobflow.page.actions.offers import Offers, list_offers
from jobflow.page.flow_view import FlowQuery, FlowView, Panel
from jobflow.page.panels.graph import graph
from jobflow.page.panels.notice import notice
from jobflow.page.panels.scrubber import scrubber
from jobflow.page.panels.table import table_view
from jobflow.page.panels.time_spent import Estimate, estimate
from jobflow.page.panels.timeline import timeline_view
from jobflow.page.step.panel import step_panel
from jobflow.page.watches.flows import LiveFlow
from jobflow.page.watches.step import LivePage
from jobflow.page.web.fragments import Fragment

MAX_LISTED = 5
"""Failed steps, and approvals, at the top of the page; the others are counted."""
_SAID = (FlowReason.STEP_FAILED, FlowReason.NAME_CONFLICT, StepReason.WAITING_FOR_APPROVAL)
"""Reasons of a flow that the lists below its header tell."""


@dataclass(frozen=True, slots=True)
class Tab:
    """A view of all steps, of which the page shows one at a time."""

    title: str
    draw: Panel


TABS: Mapping[str, Tab] = {
    "graph": Tab("Graph", graph),
    "timeline": Tab("Timeline", timeline_view),
    "table": Tab("Table", table_view),
}
"""By the name in the address. The first one is shown if the address names none."""


_PARTS = ("actions", "problems", "approvals", "tabs", "step")
"""The parts of the page below the header."""


@dataclass(frozen=True, slots=True)
class Header:
    """The state of a flow."""

    namespace: str
    name: str
    phase: str
    reason: str
    message: str
    is_suspended: bool
    ended: int
    total: int
    start: datetime | None
    end: datetime | None
    created: datetime | None
    estimate: Estimate | None
    """When it will end; None if nobody knows."""
    parent: str
    """The flow that this one belongs to; "" for an outermost one."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A failed step."""

    step: str
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class Problems:
    """The failed steps, which stand first."""

    shown: tuple[Problem, ...] = ()
    more: str = ""


@dataclass(frozen=True, slots=True)
class Question:
    """An approval that waits for an answer."""

    step: str
    """`STEP` or `STEP/INDEX`."""
    text: str
    """"" if the selected step says it."""


@dataclass(frozen=True, slots=True)
class Questions:
    """The approvals that wait."""

    shown: tuple[Question, ...] = ()
    more: str = ""


@dataclass(frozen=True, slots=True)
class _TabBar:
    current: str
    titles: tuple[tuple[str, str], ...]
    q: str = field(compare=False)
    """The text in the search field, which the browser itself keeps up to date."""


@dataclass(frozen=True, slots=True)
class _Missing:
    namespace: str
    name: str
    is_known: bool
    """Whether the cluster has answered."""


def flow_fragments(page: LivePage, query: FlowQuery) -> list[Fragment]:
    """Return the fragments of a flow's page."""
    live = page.flow
    flow = live.flow
    if flow is None:
        missing = _Missing(live.namespace, live.name, live.cache.synced)
        return [
            notice(live),
            Fragment("header", "missing.html", missing),
            *(Fragment(name, "empty.html", None) for name in _PARTS),
        ]
    view = FlowView.of(flow, query, page)
    then = view.as_of()
    deleted = f"JobFlow {flow.metadata.name} was deleted. You see its last state."
    tab = query.view if query.view in TABS else next(iter(TABS))
    titles = tuple((name, each.title) for name, each in TABS.items())
    return [
        notice(live, deleted if live.is_deleted else ""),
        Fragment("header", "header.html", _header(view)),
        Fragment("actions", "actions.html", _offers(live, flow)),
        Fragment("problems", "problems.html", _problems(view)),
        Fragment("approvals", "approvals.html", _questions(view)),
        Fragment(
            "tabs",
            "tabs.html",
            _TabBar(tab, titles, query.q),
            [scrubber(view, then), TABS[tab].draw(then)],
        ),
        step_panel(view),
    ]


def _offers(live: LiveFlow, flow: JobFlow) -> Offers:
    return list_offers(flow, live.children(), datetime.now(UTC), is_deleted=live.is_deleted)


def _header(view: FlowView) -> Header:
    flow = view.flow
    meta, status = flow.metadata, flow.status
    is_said = status.state.reason in _SAID
    conditions = status.conditions or {}
    ended, _, total = status.progress.partition("/")
    parent = meta.controller.name if flow.is_child and meta.controller else ""
    return Header(
        namespace=meta.namespace,
        name=meta.name,
        phase=status.state.phase or FlowPhase.PENDING,
        reason="" if is_said else status.state.reason,
        message="" if is_said else status.state.message,
        is_suspended=status.suspended_at is not None,
        ended=int(ended) if ended.isdecimal() else 0,
        total=int(total) if total.isdecimal() else len(flow.all_steps) or len(conditions),
        start=status.start_time,
        end=status.completion_time if flow.final else None,
        created=meta.creation_timestamp,
        estimate=left if (left := estimate(view)) is not None and left.high else None,
        parent=parent or (meta.labels or {}).get(labels.PARENT, ""),
    )


def _problems(view: FlowView) -> Problems:
    conditions = view.flow.status.conditions or {}
    name = view.flow.metadata.name
    failed = [
        (step.name, condition)
        for step in view.flow.all_steps
        if (condition := conditions.get(format_job_name(name, step.name)))
        and condition.phase == StepPhase.FAILED
    ]
    shown = [
        Problem(step)
        if view.query.selects(step)  # its panel says why
        else Problem(step, each.reason, message_of(each))
        for step, each in failed[:MAX_LISTED]
    ]
    more = len(failed) - len(shown)
    return Problems(tuple(shown), f"{format_count(more, 'more step')} failed" if more else "")


def _questions(view: FlowView) -> Questions:
    """Return the approvals that wait, also of items."""
    if view.flow.final:
        return Questions()
    waiting = [
        (step.name if run.index is None else f"{step.name}/{run.index}", run.message)
        for step in view.flow.all_steps
        if is_asked(step)
        for run in runs_of(view.condition(step.name))
        if asks(run)
    ]
    shown = [
        Question(step, "" if step == view.query.step or text == QUESTION else text)
        for step, text in waiting[:MAX_LISTED]
    ]
    more = len(waiting) - len(shown)
    return Questions(tuple(shown), format_count(more, "more approval") if more else "")
