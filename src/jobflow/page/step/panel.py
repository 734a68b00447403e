"""The panel of the selected step: why it waits or failed, and its other sections."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlencode

from jobflow.api.flow.status import ENDED_STEP_PHASES
from jobflow.core.explain.explain import Explanation, explain_step, list_queued_jobs
from jobflow.core.explain.scheduling import NO_FACTS
from jobflow.core.text import format_command, format_count
from jobflow.core.work import ends_in_status, is_asked
from jobflow.page.flow_view import FlowView, SelectedStep
from jobflow.page.step.approval import approval
from jobflow.page.step.pods import events, pods
from jobflow.page.step.runs import attempts, child, items
from jobflow.page.step.values import values
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


@dataclass(frozen=True, slots=True)
class JobFile:
    """The vcjob of a step, which the browser loads when it is asked for."""

    namespace: str
    flow: str
    job: str


def job_file(selected: SelectedStep) -> Fragment | None:
    """Return the job of a step or an item; None if it has none."""
    meta, job = selected.flow.metadata, selected.run.job
    if not job or selected.has_many_runs:
        return None
    return Fragment("step-job", "step-job.html", JobFile(meta.namespace, meta.name, job))


def commands(selected: SelectedStep) -> Fragment:
    """Return command lines to copy."""
    meta, run = selected.flow.metadata, selected.run
    step, namespace = f" {shlex.quote(str(selected.choice))}", shlex.quote(meta.namespace)
    lines = [format_command("jobflow why", meta, step).strip("`")]
    if not ends_in_status(selected.step):
        lines.append(format_command("jobflow logs", meta, f"{step} -f").strip("`"))
    if run.job and not selected.has_many_runs:
        job = shlex.quote(run.job)
        lines.append(f"kubectl describe vcjob -n {namespace} {job}")
        lines.append(f"kubectl get pods -n {namespace} -l volcano.sh/job-name={job} -o wide")
    if run.flow and not selected.has_many_runs:
        place = "" if meta.namespace in ("", "default") else f" -n {namespace}"
        lines.append(f"jobflow get {shlex.quote(run.flow)}{place}")
    return Fragment("step-commands", "step-commands.html", tuple(lines))


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
    elif not ends_in_status(selected.step):
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
