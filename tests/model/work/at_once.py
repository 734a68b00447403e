"""Steps without a job: values and gates, decided where they start (docs/reference.md)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec
from hypothesis import strategies as st

from jobflow.api.flow.step import DependsOn, Step
from model.acting import Script
from model.books import Attempt, Run, State
from model.deciding import EXPRESSION_ERROR
from model.matching import has_items
from model.words import NoValue, evaluate, substitute
from model.work.own_work import OwnAttempt, OwnWork

if TYPE_CHECKING:
    from model.random_steps import StepDrawing


class AtOnce(OwnWork):
    at_once = True

    def begin_ready(self, state: State) -> None:
        """Decide the ready runs that have an end in the status. If the flow stops at this moment,
        others may be too late; else all must have one (`check`)."""
        shown = self.reference.seen.steps[state.name]
        ended = {i for i, (phase, _) in shown.runs.items() if phase in ("Completed", "Failed")}
        for index in list(self.reference.running.ready(state, strict=False)):
            if index in ended:
                self.begin(state, index)

    def begin(self, state: State, index: int | None) -> None:
        output: dict[str, Any] | None = None
        try:
            output = self.values(state.step, self.reference.deciding.values(state, index))
            end, reason = ("Failed", self.fails) if self.fails else ("Completed", "")
        except NoValue:
            end, reason = "Failed", EXPRESSION_ERROR
        now, number = self.reference.now, state.number(index) + 1
        attempt = OwnAttempt("", "", Script(end=end, output=output), now, phase=end, number=number)
        run = state.run(index)
        if run is None:
            run = Run(index)
            state.runs = sorted([*state.runs, run], key=lambda run: run.index or 0)
        run.attempts.append(Attempt(attempt))
        attempt.reason = run.reason = reason
        attempt.ran = None if reason else now
        run.ended_at = now
        run.phase, run.again_at, state.phase = end, None, "Running"

    def values(self, step: Step, context: dict[str, Any]) -> dict[str, Any] | None:
        """Return the outputs of a step, or None; raises NoValue."""
        raise NotImplementedError


class Values(AtOnce):
    @staticmethod
    def draw(drawing: StepDrawing, name: str, depends_on: DependsOn | None, *, last: bool) -> Step:
        texts = ["1", '["x", "y"]', *(["params.n"] if drawing.params else [])]
        texts += [f'steps["{other}"].outputs.n' for other in drawing.plain_before(name)]
        step = _drawn(drawing, name, depends_on)
        texts += ["index", "item"] if has_items(step) else []
        outputs = {key: drawing.draw(st.sampled_from(texts)) for key in ("n", "l")}
        return msgspec.structs.replace(step, compute=outputs)

    def values(self, step: Step, context: dict[str, Any]) -> dict[str, Any]:
        found = {key: evaluate(text, context) for key, text in (step.compute or {}).items()}
        if len(json.dumps(found)) > 4096:
            raise NoValue("too large")
        return found


class Gates(AtOnce):
    fails = "FailStep"

    @staticmethod
    def draw(drawing: StepDrawing, name: str, depends_on: DependsOn | None, *, last: bool) -> Step:
        step = _drawn(drawing, name, depends_on)
        others = [f"$(steps.{other}.outputs.n)!" for other in drawing.plain_before(name)]
        text = drawing.draw(st.sampled_from(["no", "$(flow.name) failed", *others]))
        return msgspec.structs.replace(step, fail=text)

    def values(self, step: Step, context: dict[str, Any]) -> None:
        substitute(step.fail, context)


def _drawn(drawing: StepDrawing, name: str, depends_on: DependsOn | None) -> Step:
    """Draw the fields that both kinds have."""
    for_each = None
    if depends_on is not None and depends_on.items is not None:
        for_each = drawing.matching_for_each(name, depends_on)
    elif drawing.has("forEach", 3):
        for_each = drawing.for_each(name)
    return Step(
        name=name,
        depends_on=depends_on,
        when=drawing.condition(name) if drawing.has("when", 2) else None,
        for_each=for_each,
        continue_on_failure=True if drawing.has("continueOnFailure", 3) else None,
    )
