"""Decisions of steps (when, switch, items), the values of expressions, and names of vcjobs."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from jobflow.api.flow.control import Case, ForEach, Patch, to_number
from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.step import Step
from jobflow.api.labels import SCHEDULED_TIME
from model.books import SKIPPED_BY_USER, Attempt, Run, State
from model.child_flows import STEP_OF_CHILD
from model.matching import has_items, takes_items
from model.words import NoValue, evaluate, items, substitute, truth

if TYPE_CHECKING:
    from model.reference import Reference

EXPRESSION_ERROR = "ExpressionError"


class Deciding:
    def __init__(self, reference: Reference) -> None:
        self.reference = reference

    def decide(self, state: State) -> None:
        if state.decided:
            return
        step, context = state.step, self.context(state)
        try:
            taken = step.when is None or truth(step.when, context)
            if taken and step.switch:
                whens = (case.when for case in step.switch)
                holds = (n for n, w in enumerate(whens) if w is None or truth(w, context))
                state.case = next(holds, None)
                taken = state.case is not None
            if taken and has_items(step):
                state.items = self.items(state, context)
        except NoValue:
            state.end("Failed", EXPRESSION_ERROR, now=self.reference.now)
            return
        state.decided = True
        if step.when or step.switch or takes_items(step) or (step.for_each and step.for_each.from_):
            state.decided_at, state.decided_in = self.reference.now, self.reference.batch
        if not taken:
            self.reference.unstarted.skip(state, "NotTaken")

    def items(self, state: State, context: dict[str, Any]) -> list[Any]:
        for_each = state.step.for_each
        if takes_items(state.step):
            return [*self.reference.matching.given(state)]
        assert for_each is not None
        if for_each.from_ is not None:
            return items(for_each.from_, context)
        if for_each.count is not None:
            return list(range(to_number(for_each.count) or 0))
        return list(for_each.items or ())

    def not_taken(self, state: State) -> bool:
        return state.step.switch is not None and state.case is None

    def work(self, state: State) -> Step | Case:
        """Return the step, or the case that it takes, whichever says what runs."""
        step = state.step
        case = step.switch[state.case] if step.switch and state.case is not None else None
        says = case is not None and (case.template or case.job_spec or case.container)
        return case if case is not None and says else step

    def template(self, state: State) -> str:
        """Return the name of the template that runs; "" if it is a jobSpec or a container."""
        work = self.work(state)
        others = work.job_spec or work.container or state.step.flow
        return "" if others else work.template or state.step.name

    # ------------------------------------------------------------------------ values

    def context(self, state: State) -> dict[str, Any]:
        """Return the values for expressions and references of a step."""
        flow, reference = self.reference.flow, self.reference
        params = {param.name: param.value for param in flow.spec.params or ()}
        info: dict[str, Any] = {"name": flow.metadata.name, "namespace": flow.metadata.namespace}
        annotations = flow.metadata.annotations or {}
        if SCHEDULED_TIME in annotations:
            info["scheduledTime"] = annotations[SCHEDULED_TIME]
        info["claims"] = {
            name: f"{flow.metadata.name}-{name}" for name in flow.spec.volume_claims or ()
        }
        if state.finally_:
            others = [s for s in reference.states.values() if not s.finally_]
            broken = reference.ending or any(other.broken for other in others)
            info["phase"] = "Failed" if broken else "Succeed"
            info["failures"] = [
                {
                    "step": failed_step(other),
                    "reason": self.reference.seen.steps[other.name].reason,
                }
                for other in others
                if other.phase == "Failed"
            ]
        steps = {other.name: self.step_values(other) for other in reference.states.values()}
        return {"params": params, "flow": info, "steps": steps}

    def outputs(self, phase: str) -> tuple[dict[str, Any], bool]:
        """Return the outputs of a flow that ends so, and whether one has no value."""
        found: dict[str, Any] = {}
        missing = False
        steps = {s.name: self.step_values(s) for s in self.reference.states.values()}
        for name, text in (self.reference.flow.spec.outputs or {}).items():
            try:
                found[name] = evaluate(text, {"flow": {"phase": phase}, "steps": steps})
            except NoValue:
                missing = True
        return found, missing

    def step_values(self, state: State) -> dict[str, Any]:
        status = self.reference.seen.steps[state.name]
        data: dict[str, Any] = {
            "phase": state.phase,
            "reason": (state.reason or status.reason).replace("Reused", ""),
            "attempts": state.attempts_so_far,
        }
        if has_items(state.step):
            each = state.step.for_each or ForEach()
            decided = state.items if status.lists_items else None
            known = decided or each.items or range(to_number(each.count) or 0)
            runs = [state.run(index) for index in range(len(known))]
            data["items"] = [self.run_values(run) if run else {"phase": "Skipped"} for run in runs]
        elif state.reason == SKIPPED_BY_USER:
            order = state.order()
            data["outputs"] = order.outputs if order is not None else None
        elif state.runs:
            data["outputs"] = state.runs[-1].outputs
        data["failure"] = failure_facts(failed_attempt(state))
        step = state.step
        runs_jobs = self.reference.own_work(state) is None and not step.flow
        has_one_job = runs_jobs and not (step.for_each or step.repeat)
        if has_one_job and state.attempts_so_far:
            flow = self.reference.flow
            data["job"] = expected_name(flow, state.step, None, state.attempts_so_far)
            if state.runs and state.runs[-1].reason == "Reused" and state.runs[-1].last:
                data["job"] = state.runs[-1].last.vcjob.name
        return data

    def run_values(self, run: Run) -> dict[str, Any]:
        """Return the values of a run that has just ended, for `until` and `retry.when`."""
        return {
            "phase": run.phase,
            "reason": run.reason,
            "outputs": run.outputs,
            "failure": failure_facts(run.last),
        }

    def values(self, state: State, index: int | None) -> dict[str, Any]:
        """Return the values for references in the job of the next attempt of a run."""
        run = state.run(index)
        number = {"attempt": state.number(index) + 1, "retries": run.failures if run else 0}
        values = self.values_at_turn(state, index) | number
        values |= self.last_values(state, index)
        attempts = [each for each in run.attempts if not each.suspended] if run else []
        values["failure"] = failure_facts(attempts[-1] if attempts else None)
        vars_ = (state.step.vars or {}).items()
        return values | {"vars": {name: evaluate(text, values) for name, text in vars_}}

    def timeout(self, state: State, index: int | None) -> str | None:
        """Return the timeout of the next attempt of a run."""
        text = state.step.timeout
        if text is None or "$(vars." not in text:
            return text
        value = substitute(text, self.values(state, index))
        value = f"{value}s" if type(value) is int else value
        if not isinstance(value, str) or not re.fullmatch(r"[1-9]\d*s", value):
            raise NoValue(f"{value} is no timeout")
        return value

    def values_at_turn(self, state: State, index: int | None) -> dict[str, Any]:
        """Return the values for the decision about an item, which its job has too."""
        values = self.context(state) | self.item_values(state, index)
        for target in self.reference.matching.upstream(state):
            item = self.matched_item(target, index or 0)
            values["steps"][target.name] = {**values["steps"][target.name], "item": item}
        return values

    def takes(self, state: State, index: int | None) -> bool:
        """Whether a run may start by `forEach.when`."""
        each = state.step.for_each
        if index is None or each is None or each.when is None:
            return True
        try:
            return truth(each.when, self.values_at_turn(state, index))
        except NoValue:
            return False

    def take_turns(self, state: State) -> None:
        """End the items that the status shows as not taken, or as failed in their decision."""
        each = state.step.for_each
        if each is None or each.when is None:
            return
        shown = self.reference.seen.steps[state.name].runs
        for index in range(len(state.items or ())):
            if state.run(index) is not None or not self.reference.matching.may_start(state, index):
                continue
            try:
                taken = truth(each.when, self.values_at_turn(state, index))
            except NoValue:
                if shown.get(index) == ("Failed", EXPRESSION_ERROR):
                    self.reference.running.no_vcjob(state, index, EXPRESSION_ERROR)
                continue
            if not taken and shown.get(index) == ("Skipped", "NotTaken"):
                state.skip_item(index, "NotTaken")

    def matched_item(self, target: State, index: int) -> dict[str, Any]:
        """Return the values of the item of a target that has the index of the run."""
        run = target.run(index)
        if run is not None:
            return self.run_values(run)
        exists = index < len(self.reference.matching.list_of(target) or ())
        return {"phase": "Skipped" if exists else "", "outputs": {}}

    def last_values(self, state: State, index: int | None) -> dict[str, Any]:
        """Return the values of the repeat before this one."""
        if state.step.repeat is None:
            return {}
        before = state.run(index - 1) if index else None
        if before is None:
            return {"last": {}}
        return {"last": {"outputs": before.outputs or {}, "index": before.index}}

    def item_values(self, state: State, index: int | None) -> dict[str, Any]:
        if index is None:
            return {}
        if state.items is None:
            return {"index": index}
        return {"index": index, "item": state.items[index]}


def failed_attempt(state: State) -> Attempt | None:
    """Return the attempt for which a step failed."""
    return next((run.last for run in state.runs if run.phase == "Failed"), None)


def failed_step(state: State) -> str:
    """Return the name of a failed step, or the path of the step that failed in its child flow."""
    attempt = failed_attempt(state)
    inside = state.step.flow is not None and attempt is not None and attempt.failed_by_itself
    return f"{state.name}/{STEP_OF_CHILD}" if inside else state.name


def failure_facts(attempt: Attempt | None) -> dict[str, Any]:
    """Return the facts of the pod of an attempt that failed by itself, or of one without pods."""
    if attempt is None or not (attempt.failed_by_itself and attempt.vcjob.has_pods):
        reason = "" if attempt is None else attempt.ran_out_of
        return {"exitCode": -1, "reason": reason, "node": "", "disruption": False}
    node = attempt.vcjob.script.node
    if attempt.disrupted:
        return {"exitCode": -1, "reason": "Evicted", "node": node, "disruption": True}
    return {"exitCode": 1, "reason": "Error", "node": node, "disruption": False}


def expected_name(flow: JobFlow, step: Step, index: int | None, number: int) -> str:
    """`number` counts attempts from 1."""
    name = f"{flow.metadata.name}-{step.name}"
    if index is not None:
        name += f"-{index}"
    return name if number == 1 else f"{name}-r{number - 1}"


def expected_spec(reference: Reference, state: State, index: int | None) -> dict[str, Any]:
    """Return the top-level fields of a vcjob: jobDefaults < template, jobSpec or container < patch
    < patch of the case < patch of the retry."""
    defaults, step = reference.flow.spec.job_defaults, state.step
    if step.flow is not None:
        params = substitute(step.flow.get("params") or {}, reference.deciding.values(state, index))
        listed = [{"name": name, "value": value} for name, value in params.items()]
        return {"params": listed or None}
    spec: dict[str, Any] = {}
    if defaults is not None and defaults.queue is not None:
        spec["queue"] = defaults.queue
    if defaults is not None and defaults.priority_class_name is not None:
        spec["priorityClassName"] = defaults.priority_class_name
    case = step.switch[state.case] if step.switch and state.case is not None else None
    context = reference.deciding.values(state, index)
    name, work = reference.deciding.template(state), reference.deciding.work(state)
    base = reference.templates[name] if name else substitute(work.job_spec or {}, context)
    spec |= {key: value for key, value in base.items() if key != "tasks"}
    for patch in (step.patch, case.patch if case else None):
        spec |= substitute(patched_fields(patch), context)
    if step.retry is not None and context["retries"]:
        spec |= substitute(patched_fields(step.retry.patch), context)
    return spec


def expected_env(reference: Reference, state: State, index: int | None) -> list[dict[str, Any]]:
    """Return the variables of the only container, which has no others: by name, as texts."""
    context = reference.deciding.values(state, index)
    env = substitute(state.step.env or {}, context)
    texts = {
        name: value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
        for name, value in env.items()
        if value is not None
    }
    return [{"name": name, "value": texts[name]} for name in sorted(texts)]


def patched_fields(patch: Patch | None) -> dict[str, Any]:
    return (patch.job_spec or patch.spec or {}) if patch is not None else {}
