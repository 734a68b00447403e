"""Places of expressions and references in a flow, and the variables of each place."""

from collections.abc import Mapping
from dataclasses import dataclass

from jobflow.api.flow.step import Step
from jobflow.core.cel.scope import RUN_FIELDS
from jobflow.core.spec.expressions import VARS

COMMON_VARIABLES = ("params", "flow", "steps")
"""Variables of every place."""
_FIELDS_OF_ENDED_RUNS = frozenset({"repeat.until", "retry.when"})
_FIELDS_OF_RUNS = frozenset({*_FIELDS_OF_ENDED_RUNS, "patch", "retry.patch", "approval", VARS})
_FIELDS_OF_ATTEMPTS: Mapping[str, tuple[str, ...]] = {
    "retry.when": ("failure", "attempt", "retries"),
    "retry.patch": ("failure", "attempt", "retries"),
    "patch": ("attempt", "retries"),
    VARS: ("failure", "attempt", "retries"),
}
"""Variables of an attempt, by the fields that have them."""
FIELDS_WITH_VARS = frozenset({"patch", "retry.patch"})
_OF_ATTEMPTS = (
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
    **dict.fromkeys(("attempt", "retries"), _OF_ATTEMPTS),
    "last": "only the patch, vars, the retry and the until of a step with repeat have last",
    VARS: "expressions have no vars; env, patch and so on refer to them as $(vars.NAME)",
}
"""Faults of variables that other places have."""
OUTPUTS = "outputs"
"""Field of the place of an output of the flow."""


@dataclass(frozen=True, slots=True)
class ExpressionPlace:
    """The place of an expression or a reference."""

    position: int
    """Position of its step."""
    field: str
    """`when`, `switch`, `forEach.from`, `repeat.until`, `retry.when`, `vars`, `patch` or
    `outputs`."""

    @property
    def is_of_flow(self) -> bool:
        """Whether it is an output of the flow, which no step holds; its position is behind all
        steps."""
        return self.field == OUTPUTS


NO_STEP = ExpressionPlace(-1, "patch")
"""The place of a reference that belongs to the flow as a whole, and so to no step."""


def variables_of(place: ExpressionPlace, step: Step | None) -> list[str]:
    """Return the variables of a place. `step`: its step, None for an output of the flow."""
    names = [*COMMON_VARIABLES]
    if step is None:
        return names
    if place.field in _FIELDS_OF_RUNS and step.for_each is not None:
        names.append("item")
    if place.field in _FIELDS_OF_RUNS and (step.for_each or step.repeat) is not None:
        names.append("index")
    if place.field in _FIELDS_OF_RUNS and step.repeat is not None:
        names.append("last")
    if place.field in _FIELDS_OF_ENDED_RUNS:
        names += RUN_FIELDS
    if place.field in FIELDS_WITH_VARS and step.vars:
        names.append(VARS)
    return [*names, *_FIELDS_OF_ATTEMPTS.get(place.field, ())]
