"""The panel of the selected step, whose sections change on their own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlencode

from jobflow.core.work import is_asked
from jobflow.page.panels.flow_view import FlowView
from jobflow.page.panels.step.approval import approval
from jobflow.page.panels.step.job import commands, job_file
from jobflow.page.panels.step.pods import events, pods
from jobflow.page.panels.step.runs import attempts, child, items
from jobflow.page.panels.step.selected import SelectedStep
from jobflow.page.panels.step.values import values
from jobflow.page.panels.step.why import explain_selected, head, why
from jobflow.page.web.fragments import Fragment

_ID = "step"


@dataclass(frozen=True, slots=True)
class StepFrame:
    """The state that stays while a step is selected."""

    name: str


@dataclass(frozen=True, slots=True)
class LogsFrame:
    """The pane of logs, which static/logs.js fills."""

    namespace: str
    flow: str
    step: str
    """`STEP` or `STEP/INDEX`."""
    query: str
    """The query of the addresses of its logs."""


def step_panel(view: FlowView) -> Fragment:
    """Return the panel of the selected step, an empty one if there is none."""
    selected = SelectedStep.of(view)
    if selected is None:
        return Fragment(_ID, "empty.html", None)
    found = explain_selected(selected)
    sections = [head(selected, found), why(selected, found)]
    if not selected.unknown:
        sections += filter(None, _sections(selected))
    return Fragment(_ID, "step.html", StepFrame(str(selected.choice)), sections)


def _sections(selected: SelectedStep) -> Iterator[Fragment | None]:
    if is_asked(selected.step):
        yield approval(selected)
    else:
        yield child(selected)
        yield _logs(selected)
    yield from items(selected)
    yield attempts(selected)
    yield pods(selected)
    yield values(selected)
    yield events(selected)
    yield job_file(selected)
    yield commands(selected)


def _logs(selected: SelectedStep) -> Fragment:
    meta, name = selected.flow.metadata, str(selected.choice)
    frame = LogsFrame(meta.namespace, meta.name, name, urlencode({"step": name}))
    return Fragment("step-logs", "step-logs.html", frame)
