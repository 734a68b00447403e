"""Places of expressions and references in a flow, and the variables of each place."""

from collections.abc import Mapping
from dataclasses import dataclass

from jobflow.api.flow.step import Step
from jobflow.api.flow.traits import Stage
from jobflow.core.cel.scope import RUN_FIELDS

COMMON_VARIABLES = ("params", "flow", "steps")
"""Variables of every place."""
_OF_RUNS = frozenset(
    {Stage.VARS, Stage.JOB, Stage.RETRY, Stage.QUESTION, Stage.RUN_END, Stage.ATTEMPT_END}
)
_OF_ENDED_RUNS = frozenset({Stage.RUN_END, Stage.ATTEMPT_END})
_OF_ATTEMPTS: Mapping[Stage, tuple[str, ...]] = {
    Stage.ATTEMPT_END: ("failure", "attempt", "retries"),
    Stage.RETRY: ("failure", "attempt", "retries"),
    Stage.JOB: ("attempt", "retries"),
    Stage.VARS: ("failure", "attempt", "retries"),
}
"""Variables of an attempt."""
VARS = "vars"
"""The variable with the vars of a step."""
WITH_VARS = frozenset({Stage.JOB, Stage.RETRY})
_ONLY_OF_ATTEMPTS = (
    "only the patch, vars and the retry.when have the numbers of an attempt; for another step "
    'write steps["NAME"].attempts'
)
OTHER_PLACES: Mapping[str, str] = {
    "item": "only the patch, vars and the retry.when of a step with forEach have an item",
    "index": (
        "only the patch, vars, the retry.when and the repeat.until of a step with forEach or "
        "repeat have an index"
    ),
    "failure": (
        "only vars, retry.when and retry.patch have failure, of the last attempt; for another step "
        'write steps["NAME"].failure'
    ),
    **dict.fromkeys(("attempt", "retries"), _ONLY_OF_ATTEMPTS),
    "last": "only the patch, vars, the retry and the until of a step with repeat have last",
    VARS: "expressions have no vars; env, patch and so on refer to them as $(vars.NAME)",
}
"""Faults of variables that other places have."""


@dataclass(frozen=True, slots=True)
class ExpressionPlace:
    """The place of an expression or a reference."""

    position: int
    """Position of its step."""
    stage: Stage

    @property
    def is_of_flow(self) -> bool:
        """Whether it is an output of the flow, which no step holds; its position is behind all
        steps."""
        return self.stage is Stage.FLOW_END


NO_STEP = ExpressionPlace(-1, Stage.JOB)
"""The place of a reference that belongs to the flow as a whole, and so to no step."""


def variables_of(place: ExpressionPlace, step: Step | None) -> list[str]:
    """Return the variables of a place. `step`: its step, None for an output of the flow."""
    names = [*COMMON_VARIABLES]
    if step is None:
        return names
    if place.stage in _OF_RUNS and step.for_each is not None:
        names.append("item")
    if place.stage in _OF_RUNS and (step.for_each or step.repeat) is not None:
        names.append("index")
    if place.stage in _OF_RUNS and step.repeat is not None:
        names.append("last")
    if place.stage in _OF_ENDED_RUNS:
        names += RUN_FIELDS
    if place.stage in WITH_VARS and step.vars:
        names.append(VARS)
    return [*names, *_OF_ATTEMPTS.get(place.stage, ())]
