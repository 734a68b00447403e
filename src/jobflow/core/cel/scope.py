"""The values of variables at one place of a flow, and of expressions and references there.

Only the variables that an expression mentions are built, so its cost does not depend on the size of
the flow. Admission decides which ones it may mention (`admission/rules/expressions.py`).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from itertools import islice
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET

from jobflow.api.flow import status as api
from jobflow.api.flow.control import ForEach, to_number
from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.step import Step
from jobflow.api.labels import SCHEDULED_TIME
from jobflow.api.volcano.pod import PodPhase
from jobflow.core.cel import references
from jobflow.core.cel.budget import Budget, CelError
from jobflow.core.cel.expression import (
    EvaluationFailure,
    ExpressionFault,
    explain_failure,
    parse_expression,
)
from jobflow.core.cel.language.tree import Mention
from jobflow.core.cel.language.values import describe_type
from jobflow.core.cel.references import Fields, Reference
from jobflow.core.limits import MAX_RUNS
from jobflow.core.names import claim_names, format_job_name, format_latest_name
from jobflow.core.pods.failure import FACTS, read_facts
from jobflow.core.reasons import StepReason
from jobflow.core.text import shorten
from jobflow.core.work import may_run_steps

MAX_ITEMS_SIZE = 32_768
"""Bytes of the items of forEach as JSON, because the status stores them."""
POD_PHASES = tuple(str(phase) for phase in PodPhase)
"""Phases of a task's pods, also those without a pod."""
MAX_PARAMS = 256
"""Params of a flow, all of which are read for each mention."""
TOO_LARGE = (
    f"the values of its references have more than {references.MAX_SIZE:,} bytes; use smaller values"
)
_MAX_SHOWN = 100
"""Characters of an expression in a message."""

FLOW_FAILURE_FIELDS = ("step", "index", "reason", "message", "failure")
"""Fields of an entry of `flow.failures`."""
_FACTS_OF_A_STEP = len(FLOW_FAILURE_FIELDS) + len(FACTS)

StepAndCondition = tuple[Step, api.StepCondition]


class AttemptFacts(NamedTuple):
    """An attempt of a run."""

    number: int = 1
    """Its number in the run, from 1."""
    retries: int = 0
    """Failures of the run before it that count."""
    failure: api.StepFailure | None = None
    """In retry.when its own, else that of the attempt before."""
    of_child: bool = False
    """Whether its step may run a flow."""


class EvaluationScope(msgspec.Struct, frozen=True):
    """The values that are visible at one place of a flow, at one moment."""

    flow: JobFlow
    get_step: Callable[[str], StepAndCondition | None]
    """Return a step of `spec.flows` and its condition by name, or None if it does not exist."""
    list_failures: Callable[[], list[dict[str, Any]]] = list
    """Return `flow.failures`, which has a value where `flow_phase` has one."""
    flow_phase: api.FlowPhase | None = None
    """In finally: Succeed or Failed, by the other steps of the flow."""
    index: int | None = None
    """Index of the run, with forEach and repeat."""
    item: Any = UNSET
    """Item of the run, with forEach."""
    run: api.RunCondition | None = None
    """In until and retry.when: the run that has just finished, as it is recorded."""
    attempt: AttemptFacts | None = None
    """In retry.when the attempt that has just failed, in vars and patches that which is created."""
    vars: Mapping[str, Any] = msgspec.field(default_factory=dict)
    """In patches: the values of `vars`."""
    items: Any = UNSET
    """In forEach.until: the items that have ended (`list_ended_items`)."""
    last: Any = UNSET
    """With repeat: outputs and index of the run before, an empty map in the first."""
    names_steps: bool = False
    """Whether the job of a step has the name of the step: for a comparison of jobs of two flows."""
    budget: Budget = msgspec.field(default_factory=Budget)
    """Shared by all expressions that are evaluated here."""


def evaluate_condition(field: str, text: str, scope: EvaluationScope) -> bool | EvaluationFailure:
    """Return whether an expression holds, or a failure as in `evaluate`."""
    value: bool | EvaluationFailure = evaluate(field, text, scope, find_condition_fault)
    return value


def find_condition_fault(value: Any) -> str | None:
    """Return a clause that says why a condition may not have this value, or None."""
    return None if isinstance(value, bool) else f"gives {describe_type(value)}, not true or false"


def evaluate_all(
    field: str, texts: Mapping[str, str], scope: EvaluationScope
) -> dict[str, Any] | EvaluationFailure:
    """Return the values of the expressions in a field by name, or the first failure."""
    values: dict[str, Any] = {}
    for name, text in texts.items():
        value = evaluate(f"{field}.{name}", text, scope)
        if isinstance(value, EvaluationFailure):
            return value
        values[name] = value
    return values


def evaluate_items(field: str, text: str, scope: EvaluationScope) -> list[Any] | EvaluationFailure:
    """Return the items of forEach.from, or a failure as in `evaluate`."""
    value: list[Any] | EvaluationFailure = evaluate(field, text, scope, find_items_fault)
    return value


def find_items_fault(value: Any) -> str | None:
    """Return a clause that says why forEach cannot run for this value, or None."""
    if not isinstance(value, list):
        return f"gives {describe_type(value)}, not a list"
    if len(value) > MAX_RUNS:
        return f"gives {len(value):,} items; at most {MAX_RUNS:,} are allowed"
    # the status stores the items
    if (size := len(msgspec.json.encode(value))) > MAX_ITEMS_SIZE:
        return f"gives items of {size:,} bytes; at most {MAX_ITEMS_SIZE:,} are allowed"
    return None


def evaluate(
    field: str,
    text: str,
    scope: EvaluationScope,
    find_fault: Callable[[Any], str | None] = lambda value: None,
) -> Any:
    """Return the value of an expression, or an EvaluationFailure that names `field` and the
    expression. `find_fault` returns a clause if the field may not have a value."""
    expression = parse_expression(text)
    if isinstance(expression, ExpressionFault):
        fault: str | None = expression.message
    else:
        variables = build_variables(expression.mentions, scope)
        # building them is paid for: items, params and failures
        of_steps = variables.get("steps", {}).values()
        items = sum([len(fields.get("items", ())) for fields in of_steps])
        items += len(variables.get("items", ()))
        params = min(len(scope.flow.spec.params or ()), MAX_PARAMS) if "params" in variables else 0
        failures = len(variables.get("flow", {}).get("failures", ()))
        paid = 2 * items + len(expression.mentions) * params // 4 + _FACTS_OF_A_STEP * failures
        # not `spend`: the evaluation reports a spent budget as a failure
        scope.budget.steps -= paid
        value = expression.evaluate(variables, scope.budget)
        if isinstance(value, EvaluationFailure):
            fault = explain_failure(value, expression.mentions, variables)
        else:
            fault = find_fault(value)
        if fault is None:
            return value
    return EvaluationFailure(f"{field} `{shorten(text, _MAX_SHOWN)}`: {fault}")


def build_variables(mentions: Sequence[Mention], scope: EvaluationScope) -> dict[str, Any]:
    """Return the JSON of each variable that is mentioned, as far as it exists."""
    variables: dict[str, Any] = {}
    for mention in mentions:
        root, names = mention.root, mention.keys[:1]
        if root == "params":
            params = variables.setdefault("params", {})
            for param in islice(scope.flow.spec.params or (), MAX_PARAMS):
                if not names or param.name == names[0]:
                    params.setdefault(param.name, param.value)
        elif root == "flow":
            _add_flow_field(variables, names, scope)
        elif root == "steps":
            steps = variables.setdefault("steps", {})
            # without a key, the name of the step is computed, which admission refuses
            step = scope.get_step(names[0]) if names else None
            if step is not None:
                fields = steps.setdefault(names[0], {})
                for key in mention.keys[1:2] or STEP_FIELDS:
                    if key == "item" and scope.index is not None:
                        fields[key] = _item(*step, scope)
                    elif key in STEP_FIELDS and key not in fields:
                        value = STEP_FIELDS[key](scope.flow, *step)
                        if value is not UNSET:
                            is_name = key == "job" and scope.names_steps
                            fields[key] = names[0] if is_name else value
        elif (value := _variable_of_run(root, scope)) is not UNSET:
            variables[root] = value
    return variables


def _add_flow_field(
    variables: dict[str, Any], names: Sequence[str], scope: EvaluationScope
) -> None:
    meta = scope.flow.metadata
    flow = variables.setdefault("flow", {"name": meta.name, "namespace": meta.namespace})
    if (scheduled := (meta.annotations or {}).get(SCHEDULED_TIME)) is not None:
        flow["scheduledTime"] = scheduled
    if names == ("claims",):
        flow["claims"] = claim_names(scope.flow)
    if scope.flow_phase is not None:
        flow["phase"] = str(scope.flow_phase)
        if names == ("failures",):
            flow["failures"] = scope.list_failures()


def _variable_of_run(root: str, scope: EvaluationScope) -> Any:
    if root in ("vars", "item", "items", "last"):
        return getattr(scope, root)
    if root == "index" and scope.index is not None:
        return scope.index
    if scope.run is not None and root in RUN_FIELDS:
        return RUN_FIELDS[root](scope.run)
    if scope.attempt is not None and root in ATTEMPT_FIELDS:
        return ATTEMPT_FIELDS[root](scope.attempt)
    return UNSET


def _last_run(step: Step, condition: api.StepCondition) -> api.RunCondition:
    """Return the last run of a step with repeat, the condition of another step itself."""
    return (condition.last_run if step.repeat is not None else None) or condition


def _job(flow: JobFlow, step: Step, condition: api.StepCondition) -> Any:
    """Return the name of the last vcjob; UNSET before the first, and with forEach."""
    run = _last_run(step, condition)
    if step.for_each is not None or not run.attempts:
        return UNSET
    # the name of a first job may not be stored
    first = format_job_name(flow.metadata.name, step.name, index=run.index)
    return run.job or format_latest_name(first, run.attempts)  # dropped for the status's size


def _items(flow: JobFlow, step: Step, condition: api.StepCondition) -> Any:
    """Return an entry for each item, in order, or UNSET without forEach."""
    if step.for_each is None:
        return UNSET
    not_started = {"phase": _phase_before_start(condition), "outputs": {}}
    entries: list[dict[str, Any]] = [not_started] * _count_items(step.for_each, condition)
    for run in condition.runs or ():
        # others can write a status too
        if run.index is not None and 0 <= run.index < len(entries):
            entries[run.index] = {"phase": str(run.phase), "outputs": run.outputs or {}}
    return entries


def _count_items(each: ForEach, condition: api.StepCondition) -> int:
    items = each.items
    if items is None and condition.decisions is not None:
        items = condition.decisions.items
    count = len(items) if items is not None else to_number(each.count) or 0
    return max(0, min(count, MAX_RUNS))


def _phase_before_start(condition: api.StepCondition) -> str:
    """Return the phase of an item that has not started."""
    finished = condition.phase in api.ENDED_STEP_PHASES
    return (api.StepPhase.SKIPPED if finished else api.StepPhase.WAITING).value


def _item(step: Step, condition: api.StepCondition, scope: EvaluationScope) -> dict[str, Any]:
    """Return the item of a matched target that has the index of the run. It does not exist if the
    target counts as a whole."""
    index = scope.index or 0
    run = condition.run_at(index)
    if run is None:
        if step.for_each is None or index >= _count_items(step.for_each, condition):
            return {"phase": "", "job": "", "outputs": {}, "failure": {}}
        run = api.RunCondition(phase=_phase_before_start(condition))
    job = step.name if run.attempts and scope.names_steps else run.job
    if run.attempts and not job:
        first = format_job_name(scope.flow.metadata.name, step.name, index=index)
        job = format_latest_name(first, run.attempts)
    return {
        "phase": str(run.phase),
        "job": job,
        "outputs": run.outputs or {},
        "failure": read_facts(run.failure, of_child=may_run_steps(step)),
    }


def list_failures(steps: Iterable[StepAndCondition]) -> list[dict[str, Any]]:
    """Return `flow.failures`: an entry for each Failed step, in their order."""
    failures = []
    for step, condition in steps:
        if condition.phase != api.StepPhase.FAILED:
            continue
        inner = condition.failure.step if condition.failure is not None else ""
        failed = (run for run in condition.runs or () if run.phase == api.StepPhase.FAILED)
        index = next((run.index for run in failed if run.reason == condition.reason), None)
        failures.append(
            {
                # `train`, or `train/fit` for the step that failed in a child flow
                "step": f"{step.name}/{inner}" if inner else step.name,
                "index": -1 if index is None else index,
                "reason": str(condition.reason),
                "message": condition.message,
                # all entries have all keys
                "failure": read_facts(condition.failure, of_child=True),
            }
        )
    return failures


LAST_FIELDS = ("outputs", "index")
ITEM_FIELDS = ("phase", "job", "outputs", "failure")
"""Fields of `steps["x"].item`."""

STEP_FIELDS: Mapping[str, Callable[[JobFlow, Step, api.StepCondition], Any]] = {
    "phase": lambda flow, step, condition: str(condition.phase or api.StepPhase.WAITING),
    # a reused result is like one of a job that ran here
    "reason": lambda flow, step, condition: (
        "" if condition.reason == StepReason.REUSED else str(condition.reason)
    ),
    "job": _job,
    "attempts": lambda flow, step, condition: condition.attempts,
    "failure": lambda flow, step, condition: read_facts(
        condition.failure, of_child=may_run_steps(step)
    ),
    # a step with repeat has outputs of its own only after its last run
    "outputs": lambda flow, step, condition: (
        condition.outputs or _last_run(step, condition).outputs or {}
    ),
    "tasks": lambda flow, step, condition: {
        task: dict.fromkeys(POD_PHASES, 0) | (state.phase or {})
        for task, state in (condition.task_status_count or {}).items()
    },
    "items": _items,
}
"""Fields of `steps["x"]`."""

RUN_FIELDS: Mapping[str, Callable[[api.RunCondition], Any]] = {
    "phase": lambda run: str(run.phase),
    "reason": lambda run: str(run.reason),
    "outputs": lambda run: run.outputs or {},
}
"""Variables of the run that has just finished, except its index."""

ATTEMPT_FIELDS: Mapping[str, Callable[[AttemptFacts], Any]] = {
    "failure": lambda attempt: read_facts(attempt.failure, of_child=attempt.of_child),
    "attempt": lambda attempt: attempt.number,
    "retries": lambda attempt: attempt.retries,
}


def resolve_text(field: str, text: str, scope: EvaluationScope) -> str | EvaluationFailure:
    """Return a text with the values of its references, or a failure that names the field."""
    value = resolve_references(text, scope)
    if isinstance(value, EvaluationFailure):
        return EvaluationFailure(f"{field}: {value.message}", missing=value.missing)
    # a text that is one reference has its value
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def resolve_references(value: Any, scope: EvaluationScope, expanded: Fields | None = None) -> Any:
    """Return JSON with the values of all references, or a failure if one has none. `expanded`: the
    fields of the value that the kubelet expands."""
    # a patch may name one output a thousand times
    build = cache(lambda root, keys: build_variables([Mention(root, keys, 0)], scope))

    def look_up(reference: Reference) -> Any:
        root, keys = reference.root, reference.keys
        if root == "steps":
            keys = references.as_item(keys, lambda name: scope.get_step(name) is not None)
        value = variables = build(root, keys[: 2 if root == "steps" else 1])
        for at, key in enumerate(path := (root, *keys)):
            value = references.get_entry(value, key)
            # the first run of a step with repeat has no run before
            if value is UNSET and root == "last" and scope.last is not UNSET:
                return references.LEFT_OUT
            if value is UNSET:
                place = f" in {'.'.join(path[:at])}" if at else ""
                why = f"$({reference.path}) has no value: there is no {key!r}{place}"
                failure = EvaluationFailure(why, missing=True)
                raise CelError(explain_failure(failure, [Mention(root, keys, 0)], variables))
        return value

    try:
        return references.replace_references(value, look_up, expanded=expanded)
    except CelError as error:
        return EvaluationFailure(error.message, missing=True)
    except references.ReferencesTooLargeError:
        return EvaluationFailure(TOO_LARGE)
