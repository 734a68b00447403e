"""Decisions of steps (when, switch, items), the values of expressions, and names of vcjobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jobflow.api.control import Patch
from jobflow.api.jobflow import JobFlow, Step
from model.books import Run, State
from model.words import NoValue, items, substitute, truth

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
            if taken and step.for_each:
                state.items = self.items(state, context)
        except NoValue:
            state.end("Failed", EXPRESSION_ERROR, now=self.reference.now)
            return
        state.decided = True
        if step.when or step.switch or (step.for_each and step.for_each.from_):
            state.decided_at = self.reference.now
        if not taken:
            self.reference.skip(state, "NotTaken")

    def items(self, state: State, context: dict[str, Any]) -> list[Any]:
        for_each = state.step.for_each
        assert for_each is not None
        if for_each.from_ is not None:
            return items(for_each.from_, context)
        if for_each.count is not None:
            return list(range(for_each.count))
        return list(for_each.items or ())

    def not_taken(self, state: State) -> bool:
        return state.step.switch is not None and state.case is None

    def template(self, state: State) -> str:
        step = state.step
        if step.switch and state.case is not None:
            return step.switch[state.case].template or step.template_name
        return step.template_name

    # ------------------------------------------------------------------------ values

    def context(self, state: State) -> dict[str, Any]:
        """Return the values for expressions and references of a step."""
        flow, reference = self.reference.flow, self.reference
        params = {param.name: param.value for param in flow.spec.params or ()}
        info: dict[str, Any] = {"name": flow.metadata.name, "namespace": flow.metadata.namespace}
        if state.finally_:
            others = (s for s in reference.states.values() if not s.finally_)
            broken = reference.ending or any(other.broken for other in others)
            info["phase"] = "Failed" if broken else "Succeed"
        steps = {other.name: self.step_values(other) for other in reference.states.values()}
        return {"params": params, "flow": info, "steps": steps}

    def step_values(self, state: State) -> dict[str, Any]:
        status = self.reference.seen.steps[state.name]
        data: dict[str, Any] = {
            "phase": state.phase,
            "reason": state.reason or status.reason,
            "attempts": state.attempts_so_far,
        }
        if state.step.for_each:
            items = state.step.for_each.items or range(state.step.for_each.count or 0)
            count = len(items if state.items is None else state.items)
            runs = [state.run(index) for index in range(count)]
            data["items"] = [self.run_values(run) if run else {"phase": "Skipped"} for run in runs]
        elif state.runs:
            data["outputs"] = state.runs[-1].outputs
        return data

    def run_values(self, run: Run) -> dict[str, Any]:
        """Return the values of a run that has just ended, for `until` and `retry.when`."""
        return {"phase": run.phase, "reason": run.reason, "outputs": run.outputs}

    def item_values(self, state: State, index: int | None) -> dict[str, Any]:
        if index is None:
            return {}
        if state.items is None:
            return {"index": index}
        return {"index": index, "item": state.items[index]}


def expected_name(flow: JobFlow, step: Step, index: int | None, number: int) -> str:
    """`number` counts attempts from 1."""
    name = f"{flow.metadata.name}-{step.name}"
    if index is not None:
        name += f"-{index}"
    return name if number == 1 else f"{name}-r{number - 1}"


def expected_spec(reference: Reference, state: State, index: int | None) -> dict[str, Any]:
    """Return the top-level fields of a vcjob: jobDefaults < template < patch < patch of the
    case."""
    defaults, step = reference.flow.spec.job_defaults, state.step
    spec: dict[str, Any] = {}
    if defaults is not None and defaults.queue is not None:
        spec["queue"] = defaults.queue
    if defaults is not None and defaults.priority_class_name is not None:
        spec["priorityClassName"] = defaults.priority_class_name
    template = reference.templates[reference.deciding.template(state)]
    spec |= {key: value for key, value in template.items() if key != "tasks"}
    case = step.switch[state.case] if step.switch and state.case is not None else None
    context = reference.deciding.context(state) | reference.deciding.item_values(state, index)
    for patch in (step.patch, case.patch if case else None):
        spec |= substitute(patched_fields(patch), context)
    return spec


def patched_fields(patch: Patch | None) -> dict[str, Any]:
    return (patch.job_spec or patch.spec or {}) if patch is not None else {}
