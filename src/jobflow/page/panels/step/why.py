"""Head and explanation of the selected step: why it waits, runs or failed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from jobflow.api.flow.status import ENDED_STEP_PHASES
from jobflow.core.explain.explain import Explanation, explain_step, list_queued_jobs
from jobflow.core.explain.scheduling import NO_FACTS
from jobflow.core.text import format_count
from jobflow.page.panels.step.selected import SelectedStep
from jobflow.page.web.fragments import Fragment

MAX_TARGETS = 8
"""Steps that are named as those a step waits for; the others are counted."""


@dataclass(frozen=True, slots=True)
class StepHead:
    """Name and phase of a step or an item."""

    step: str
    index: int | None
    phase: str
    since: datetime | None
    has_ended: bool
    namespace: str
    child: str
    """The child flow of its current or last run; "" if it runs none."""
    targets: tuple[str, ...] = ()
    """The first steps that it waits for."""
    more: str = ""
    """`3 more steps`; "" if there are no more."""


@dataclass(frozen=True, slots=True)
class Sentences:
    """The explanation, as `jobflow why` prints it but for what the page shows beside it."""

    lines: tuple[str, ...]


def head(selected: SelectedStep, found: Explanation | None) -> Fragment:
    """Return the head of the panel. `found`: see `explain_selected`."""
    choice = selected.choice
    phase, since = "", None
    if found is not None:
        phase, since = found.phase, found.since
    namespace, child = selected.flow.metadata.namespace, selected.run.flow
    has_ended = phase in ENDED_STEP_PHASES
    after = selected.step.depends_on
    targets = tuple(after.targets or ()) if after is not None else ()
    left = len(targets) - MAX_TARGETS
    shown = StepHead(
        choice.step,
        choice.index,
        phase,
        since,
        has_ended,
        namespace,
        child,
        targets[:MAX_TARGETS],
        format_count(left, "more step") if left > 0 else "",
    )
    return Fragment("step-head", "step-head.html", shown)


def why(selected: SelectedStep, found: Explanation | None) -> Fragment:
    """Return the sentences that explain the step, or that there is no such item."""
    if found is None:
        text = selected.unknown
        lines: tuple[str, ...] = (f"{text[:1].upper()}{text[1:]}.",)
    else:
        lines = found.sentences
        readings = selected.view.readings
        if readings is not None:
            lines += tuple(each for each in readings.children if each not in lines)
    return Fragment("step-why", "step-why.html", Sentences(lines))


def explain_selected(selected: SelectedStep) -> Explanation | None:
    """Return the explanation as `jobflow why` gives it; None if there is no such item."""
    if selected.unknown:
        return None
    view, choice, facts = selected.view, selected.choice, NO_FACTS
    flow, now = view.flow, view.now
    if view.readings is not None:
        if list_queued_jobs(flow, choice.step, index=choice.index, now=now):
            facts = view.readings.facts  # else the jobs have started since they were read
    return explain_step(flow, choice.step, index=choice.index, now=now, facts=facts, on_page=True)
