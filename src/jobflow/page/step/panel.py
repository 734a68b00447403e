"""The panel of the selected step: why it waits or failed, and its other sections."""

import shlex
from collections.abc import Iterator
from functools import partial
from typing import Any
from urllib.parse import urlencode

from msgspec.structs import replace

from jobflow.api.flow.status import ENDED_STEP_PHASES
from jobflow.core.explain.explain import Explanation, explain_step, list_queued_jobs
from jobflow.core.explain.scheduling import NO_FACTS
from jobflow.core.names import stored_condition
from jobflow.core.planning.flow import by_hand
from jobflow.core.reasons import StepReason
from jobflow.core.spec.step_commands import StepCommand, find_place
from jobflow.core.text import format_command, format_count, to_sentence
from jobflow.core.work import ends_in_status, is_asked
from jobflow.page.action_forms import ACTIONS, BY_HAND_VERBS
from jobflow.page.flow_view import FlowView, SelectedStep
from jobflow.page.step.approval import approval
from jobflow.page.step.pods import events, pods
from jobflow.page.step.runs import attempts, child, items
from jobflow.page.step.values import values
from jobflow.page.web.fragments import Fragment

MAX_TARGETS = 8
"""Steps that are named as those a step waits for; the others are counted."""
_ID = "step"


def step_panel(view: FlowView) -> Fragment:
    """Return the panel of the selected step, an empty one if there is none."""
    selected = SelectedStep.of(view)
    if selected is None:
        return Fragment(_ID, "empty.html", None)
    found, lines = None, [to_sentence(selected.unknown)]
    # an item that does not exist has nothing to show
    if not selected.unknown:
        flow, now, choice, readings = selected.flow, view.now, selected.choice, view.page.readings
        step, index, facts = choice.step, choice.index, NO_FACTS
        if readings is not None and list_queued_jobs(flow, step, index=index, now=now):
            facts = readings.facts  # else the jobs have started since they were read
        # as `jobflow why` gives it, but for what the page shows beside it
        found = explain_step(flow, step, index=index, now=now, facts=facts, on_page=True)
        children = readings.children if readings is not None else ()
        lines = [*found.sentences, *(each for each in children if each not in found.sentences)]
    why = Fragment("step-why", "step-why.html", {"lines": lines})
    sections = [_head(selected, found), why]
    if found is not None:
        sections += filter(None, _sections(selected))
    return Fragment(_ID, "step.html", {"name": str(selected.choice)}, sections)


def _sections(selected: SelectedStep) -> Iterator[Fragment | None]:
    meta, job = selected.flow.metadata, selected.run.job
    # the browser makes addresses of it
    address = {"namespace": meta.namespace, "flow": meta.name}
    if is_asked(selected.step):
        yield approval(selected)
    elif not ends_in_status(selected.step):
        yield child(selected)
        name = str(selected.choice)
        logs = {**address, "step": name, "query": urlencode({"step": name})}
        yield Fragment("step-logs", "step-logs.html", logs)  # static/logs.js fills it
    yield _steer(selected)
    yield from items(selected)
    yield attempts(selected)
    yield pods(selected)
    yield values(selected)
    yield events(selected)
    if job and not selected.has_many_runs:
        # the browser loads the job when it is opened
        yield Fragment("step-job", "step-job.html", {**address, "job": job})
    yield _commands(selected)


def _head(selected: SelectedStep, found: Explanation | None) -> Fragment:
    after = selected.step.depends_on
    targets = list(after.targets or ()) if after is not None else []
    left = len(targets) - MAX_TARGETS
    is_reused, reuse = selected.run.reason == StepReason.REUSED, selected.flow.spec.reuse
    shown = {
        "step": selected.choice.step,
        "index": selected.choice.index,
        "phase": found.phase if found is not None else "",
        "since": found.since if found is not None else None,
        "has_ended": found is not None and found.phase in ENDED_STEP_PHASES,
        "namespace": selected.flow.metadata.namespace,
        "child": selected.run.flow,
        "reused_from": reuse.flow if is_reused and reuse is not None else "",
        "targets": targets[:MAX_TARGETS],
        "more": format_count(left, "more step") if left > 0 else "",
    }
    return Fragment("step-head", "step-head.html", shown)


def _steer(selected: SelectedStep) -> Fragment | None:
    """Return the buttons that make sense for the step as it is now; None if none does."""
    # such Commands name the path from the outermost flow
    outermost, path = selected.view.page.flow.outermost()
    buttons = [*_buttons(selected, outermost)] if outermost else []
    shown = {"step": f"{path}{selected.choice}", "buttons": buttons}
    return Fragment("step-by-hand", "step-by-hand.html", shown) if buttons else None


def _buttons(selected: SelectedStep, outermost: str) -> Iterator[dict[str, Any]]:
    flow, path = selected.flow, str(selected.choice)
    for name, verb in BY_HAND_VERBS.items():
        kind = verb.verb.action
        place = find_place(flow, path, kind)
        if isinstance(place, str) or place.below or by_hand.refuse_flow(flow, kind):
            continue
        find = partial(stored_condition, flow)
        refuse = partial(by_hand.refuse, flow, StepCommand(kind, (path,), ""), place, find)
        if not refuse():
            action = ACTIONS[name]
            yield {
                "name": name,
                "label": action.label,
                "command": action.command(flow.metadata.namespace, outermost),
                "refusal": refuse(ends=by_hand.why_it_ends(flow)),
            }


def _commands(selected: SelectedStep) -> Fragment:
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
        child_flow = replace(meta, name=run.flow)
        lines.append(format_command("jobflow get", child_flow).strip("`"))
    return Fragment("step-commands", "step-commands.html", lines)
