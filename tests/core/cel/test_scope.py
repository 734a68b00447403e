"""The values that expressions and references read, and the failures of those without a value."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobflow.api.flow.control import ForEach, Param, Patch, Repeat, Retry
from jobflow.api.flow.jobflow import JobFlow, JobFlowSpec
from jobflow.api.flow.status import Decisions, RunCondition, StepCondition
from jobflow.api.flow.step import Step
from jobflow.api.resources import ObjectMeta
from jobflow.api.volcano.job import TaskState
from jobflow.core.cel.expression import EvaluationFailure, Expression, parse_expression
from jobflow.core.cel.scope import (
    MAX_ITEMS_SIZE,
    POD_PHASES,
    EvaluationScope,
    build_variables,
    evaluate_condition,
    evaluate_items,
    resolve_references,
)
from jobflow.core.spec.expressions import find_needed_outputs

TRAINED = StepCondition(
    phase="Completed",
    attempts=2,
    outputs={"acc": 0.9, "files": ["a", "b"]},
    task_status_count={"worker": TaskState(phase={"Succeeded": 3})},
)
FAILED = StepCondition(phase="Failed", reason="JobFailed", attempts=1, job="f-failed-x")
RUNS = [
    RunCondition(index=0, phase="Completed", outputs={"acc": 0.5}),
    RunCondition(index=2, phase="Failed"),
]
STEPS: dict[str, tuple[Step, StepCondition]] = {
    "train": (Step(name="train"), TRAINED),
    "failed": (Step(name="failed"), FAILED),
    "new": (Step(name="new"), StepCondition()),
    "search": (
        Step(name="search", for_each=ForEach(count=4)),
        StepCondition(phase="Running", runs=RUNS),
    ),
    "ended": (
        Step(name="ended", for_each=ForEach(items=["a", "b", "c"])),
        StepCondition(phase="Failed", runs=RUNS),
    ),
    "decided": (
        Step(name="decided", for_each=ForEach(from_="params.list")),
        StepCondition(phase="Running", decisions=Decisions(items=[1, 2])),
    ),
    "open": (Step(name="open", for_each=ForEach(from_="params.list")), StepCondition()),
    "again": (
        Step(name="again", repeat=Repeat(until="true", max=3)),
        StepCondition(
            phase="Completed",
            runs=[RUNS[0], RunCondition(index=1, attempts=1, outputs={"acc": 0.7})],
        ),
    ),
    "a.b-c": (Step(name="a.b-c"), StepCondition(phase="Completed", outputs={"x": {"y": 1}})),
}
FLOW = JobFlow(
    metadata=ObjectMeta(name="f", namespace="team", uid="u"),
    spec=JobFlowSpec(
        flows=[step for step, _ in STEPS.values()],
        params=[
            Param(name="n", value=4),
            Param(name="list", value=[1, 2]),
            Param(name="map", value={"a": {"b": [7]}}),
        ],
    ),
)


def scope(**more: Any) -> EvaluationScope:
    return EvaluationScope(FLOW, STEPS.get, **more)


def value_of(text: str, **more: Any) -> Any:
    """Return the value of an expression of any type, as the only item of forEach.from."""
    items = evaluate_items("forEach.from", f"[{text}]", scope(**more))
    assert not isinstance(items, EvaluationFailure), items.message
    [value] = items
    return value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("params.n", 4),
        ("params", {"n": 4, "list": [1, 2], "map": {"a": {"b": [7]}}}),
        ("flow", {"name": "f", "namespace": "team"}),
        ("steps.train.phase", "Completed"),
        ("steps.train.reason", ""),
        ("steps.failed.reason", "JobFailed"),
        ("steps.train.attempts", 2),
        ("steps.train.outputs.acc", 0.9),
        ("steps.failed.outputs", {}),
        ("has(steps.failed.outputs.acc)", False),
        ("steps.train.tasks", {"worker": dict.fromkeys(POD_PHASES, 0) | {"Succeeded": 3}}),
        ("steps.failed.tasks", {}),
        ("steps.train.job", "f-train-r1"),
        ("steps.failed.job", "f-failed-x"),
        ("steps.again.job", "f-again-1"),
        ("has(steps.new.job)", False),
        ("has(steps.search.job)", False),
        ("steps.new.phase", "Waiting"),
        ("steps['a.b-c'].outputs.x.y", 1),
        ("size(steps.search.items)", 4),
        ("steps.search.items.map(i, i.phase)", ["Completed", "Waiting", "Failed", "Waiting"]),
        ("steps.ended.items.map(i, i.phase)", ["Completed", "Skipped", "Failed"]),
        ("steps.search.items.map(i, i.outputs)", [{"acc": 0.5}, {}, {}, {}]),
        ("size(steps.decided.items)", 2),
        ("size(steps.open.items)", 0),
        ("steps.again.outputs.acc", 0.7),
        ("steps.train.phase == 'Completed' && steps.search.items[0].outputs.acc < 1", True),
    ],
)
def test_expressions_read_the_flow_and_its_status(text: str, value: Any) -> None:
    assert value_of(text) == value


def test_a_step_without_a_key_has_all_fields() -> None:
    assert value_of("steps.train") == {
        "phase": "Completed",
        "reason": "",
        "job": "f-train-r1",
        "attempts": 2,
        "failure": value_of("steps.train.failure"),
        "outputs": {"acc": 0.9, "files": ["a", "b"]},
        "tasks": value_of("steps.train.tasks"),
    }
    assert value_of("steps.search").keys() - value_of("steps.train").keys() == {"items"}


def test_variables_of_a_run_have_values() -> None:
    run = RunCondition(index=1, phase="Failed", reason="JobFailed", outputs={"acc": 1})
    assert value_of("item.x + index", item={"x": 1}, index=2) == 3
    assert value_of("[phase, reason, outputs, index]", run=run, index=1) == [
        "Failed",
        "JobFailed",
        {"acc": 1},
        1,
    ]
    assert value_of("outputs", run=RunCondition(phase="Failed")) == {}
    assert value_of("item", item=None) is None
    assert value_of("flow.phase", flow_phase="Failed") == "Failed"
    for text in ("item", "index", "outputs", "phase", "flow.phase", "steps.nobody.phase"):
        assert isinstance(evaluate_items("forEach.from", f"[{text}]", scope()), EvaluationFailure)


def test_only_mentioned_variables_are_built() -> None:
    names = []

    def find_step(name: str) -> tuple[Step, StepCondition] | None:
        names.append(name)
        return STEPS.get(name)

    found = parse_expression("params.n > 1 && steps.train.phase == steps.failed.phase")
    assert isinstance(found, Expression)
    assert build_variables(found.mentions, EvaluationScope(FLOW, find_step)) == {
        "params": {"n": 4},
        "steps": {"train": {"phase": "Completed"}, "failed": {"phase": "Failed"}},
    }
    assert names == ["train", "failed"]


def test_a_condition_is_true_or_false_or_fails() -> None:
    assert evaluate_condition("when", "params.n > 3", scope()) is True
    assert evaluate_condition("when", "params.n > 4", scope()) is False
    assert evaluate_condition("when", "params.n", scope()) == EvaluationFailure(
        "when `params.n`: gives a whole number, not true or false"
    )
    assert evaluate_condition(
        "repeat.until", "steps.failed.outputs.acc > 1", scope()
    ) == EvaluationFailure("repeat.until `steps.failed.outputs.acc > 1`: there is no 'acc'")
    assert evaluate_condition("when", "1 +", scope()) == EvaluationFailure(
        "when `1 +`: is not a CEL expression: it ends too early"
    )


def test_a_long_expression_is_shortened_in_the_message() -> None:
    text = "params.n == 1 || " * 20 + "params.n"
    failure = evaluate_condition("when", text, scope())
    assert isinstance(failure, EvaluationFailure)
    assert len(failure.message) < 256


def test_items_are_evaluated() -> None:
    assert evaluate_items("forEach.from", "steps.train.outputs.files", scope()) == ["a", "b"]
    assert evaluate_items("forEach.from", "[]", scope()) == []
    many = scope(item=[0] * 1001, index=0)
    large = scope(item=["x" * 1000] * 40, index=0)
    assert evaluate_items("forEach.from", "item", many) == EvaluationFailure(
        "forEach.from `item`: gives 1,001 items; at most 1,000 are allowed"
    )
    assert evaluate_items("forEach.from", "item", large) == EvaluationFailure(
        f"forEach.from `item`: gives items of 40,121 bytes; at most {MAX_ITEMS_SIZE:,} are allowed"
    )
    assert evaluate_items("forEach.from", "params.n", scope()) == EvaluationFailure(
        "forEach.from `params.n`: gives a whole number, not a list"
    )
    assert evaluate_items("forEach.from", "params.n > 3", scope()) == EvaluationFailure(
        "forEach.from `params.n > 3`: gives true or false, not a list"
    )
    assert evaluate_items("forEach.from", "params.none", scope()) == EvaluationFailure(
        "forEach.from `params.none`: there is no 'none'"
    )


# -------------------------------------------------------------------- references


def test_references_read_the_same_values() -> None:
    patch = {
        "priority": "$(params.n)",
        "tasks": [{"name": "$(flow.name)-$(index)", "replicas": "$(item.n)"}],
        "plugins": {"env": ["$(steps.train.outputs.acc)", "$(steps.a.b-c.outputs.x.y)"]},
        "deep": "$(params.map.a.b.0)",
        "all": "$(steps.train.outputs)",
        "again": "$(steps.again.outputs.acc)",
        "shell": "$(hostname) $$(index)",
    }
    assert resolve_references(patch, scope(index=3, item={"n": 2})) == {
        "priority": 4,
        "tasks": [{"name": "f-3", "replicas": 2}],
        "plugins": {"env": ["0.9", "1"]},
        "deep": 7,
        "all": {"acc": 0.9, "files": ["a", "b"]},
        "again": 0.7,
        "shell": "$(hostname) $(index)",
    }


NINES = "9" * 5000
"""A number with more digits than Python parses."""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("$(params.x)", "$(params.x) has no value: there is no 'x' in params"),
        ("$(params.map.a.z)", "$(params.map.a.z) has no value: there is no 'z' in params.map.a"),
        ("$(params.list.9)", "$(params.list.9) has no value: there is no '9' in params.list"),
        ("$(params.n.x)", "$(params.n.x) has no value: there is no 'x' in params.n"),
        (
            f"$(params.list.{NINES})",
            f"$(params.list.{NINES}) has no value: there is no '{NINES}' in params.list",
        ),
        ("$(item)", "$(item) has no value: there is no 'item'"),
        ("$(index)", "$(index) has no value: there is no 'index'"),
        (
            "$(steps.failed.outputs.acc)",
            "$(steps.failed.outputs.acc) has no value: there is no 'acc' in steps.failed.outputs",
        ),
        (
            "$(steps.nobody.outputs.x)",
            "$(steps.nobody.outputs.x) has no value: there is no 'nobody' in steps",
        ),
        ("$(steps.new.job)", "$(steps.new.job) has no value: there is no 'job' in steps.new"),
        ("$(flow.uid)", "$(flow.uid) has no value: there is no 'uid' in flow"),
    ],
)
def test_a_reference_without_a_value_has_a_message(text: str, message: str) -> None:
    assert resolve_references({"a": text}, scope()) == EvaluationFailure(message, missing=True)


def test_the_size_of_the_references_of_a_patch_is_limited() -> None:
    result = resolve_references(["$(item)"] * 12, scope(item="x" * 100_000))
    assert result == EvaluationFailure(
        "the values of its references have more than 1,048,576 bytes; use smaller values"
    )


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=10,
)


@given(JSON)
def test_the_value_of_an_item_is_the_same_by_reference_and_expression(item: Any) -> None:
    assert resolve_references("$(item)", scope(item=item)) == item
    assert value_of("item", item=item) == item


# ------------------------------------------------------------ outputs that are needed


def needed(*steps: Step, **spec: Any) -> frozenset[str]:
    return find_needed_outputs(JobFlowSpec(flows=list(steps), **spec))


def test_the_outputs_that_a_flow_needs_are_found() -> None:
    when = Step(name="b", when="steps.a.outputs.x > 1 || steps['c'].phase == ''")
    assert needed(when) == {"a"}
    assert needed(Step(name="b", when="steps.a.items[0].phase == ''")) == {"a"}
    assert needed(Step(name="b", when="has(steps.a)")) == {"a"}
    assert needed(Step(name="b", when="'steps.a.outputs' == ''")) == frozenset()
    assert needed(Step(name="b", for_each=ForEach(from_="steps.a.outputs.list"))) == {"a"}
    assert needed(Step(name="b", repeat=Repeat(until="outputs.acc > 1"))) == {"b"}
    assert needed(Step(name="b", retry=Retry(when="steps.a.outputs.x == 1"))) == {"a"}
    assert needed(Step(name="b", retry=Retry(when="phase == 'Failed'"))) == frozenset()
    patch = Patch(spec={"queue": "q-$(steps.a.outputs.q)", "x": "$(steps.c.d.outputs)"})
    assert needed(Step(name="b", patch=patch)) == {"a", "c.d"}
    assert needed(Step(name="b", patch=Patch(spec={"queue": "outputs"}))) == frozenset()
    assert needed(finally_=[when]) == {"a"}
    assert needed(Step(name="b", when="steps.a.outputs.x >")) == frozenset()


def test_steps_with_computed_names_are_omitted() -> None:
    """Admission refuses such an expression."""
    assert value_of("steps") == {}


def test_runs_of_unknown_items_are_ignored() -> None:
    """Another program may have written the status."""
    runs = [RunCondition(index=index, phase="Failed") for index in (None, -1, 2, 4)]
    condition = StepCondition(phase="Failed", runs=runs)
    search = EvaluationScope(FLOW, {"search": (STEPS["search"][0], condition)}.get)
    phases = evaluate_items("forEach.from", "steps.search.items.map(i, i.phase)", search)
    assert phases == ["Skipped", "Skipped", "Failed", "Skipped"]
