"""Names of outputs that functions return, in expressions and references."""

import inspect
import sys
from collections.abc import Callable
from typing import Any, TypedDict

import pytest

from jobflow.authoring import DependsOn, Expr, Flow, Step, cel, item
from support.python_flows import faults_of


class Scores(TypedDict):
    accuracy: float


class MoreScores(Scores, total=False):
    loss: float


@pytest.fixture
def flow() -> Flow:
    return Flow("f")


def train() -> dict[str, float]:
    def unused() -> dict[str, float]:
        return {"inner": 1.0}

    if unused():
        return {"accuracy": 0.9}
    return {"accuracy": 0.8, "loss": 1.0}


def typed() -> MoreScores | None:
    found: MoreScores = {"accuracy": 0.5}
    return found


def number() -> float:
    return 0.5


def single() -> "list[int]":
    return [1]


def computed() -> dict[str, float]:
    return dict.fromkeys(["accuracy"], 0.5)


def spread(more: dict[str, float]) -> dict[str, float]:
    return {"loss": 1.0, **more}


def nothing() -> None:
    return None


def unresolved() -> "Missing":  # type: ignore[name-defined]  # noqa: F821
    return {"accuracy": 0.5}


def step_for(flow: Flow, use: Callable[[Step], Any]) -> Step:
    """Return a step that runs `train`, with items if `use` reads them."""
    items = {"for_each": [1, 2]} if "items" in use.__code__.co_names else {}
    return flow.task(**items)(train)()  # type: ignore[arg-type]


def strange() -> "{}['Missing']":  # type: ignore[valid-type]  # noqa: F821
    return {"accuracy": 0.5}


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (train, 'has no output "acuracy"; did you mean "accuracy"?'),
        (typed, 'has no output "acuracy"; did you mean "accuracy"?'),
        (unresolved, 'has no output "acuracy"; did you mean "accuracy"?'),
        (strange, 'has no output "acuracy"; did you mean "accuracy"?'),
        (number, 'has no output "acuracy"; it returns result'),
        (single, 'has no output "acuracy"; it returns result'),
        (computed, None),
        (nothing, None),
    ],
)
def test_a_name_that_a_function_does_not_return_is_a_fault(
    flow: Flow, function: Callable[[], Any], message: str | None
) -> None:
    step = flow.task()(function)()
    flow.step("next", image="x", when=step.outputs.acuracy > 0.5)
    found = faults_of(flow)
    assert [each.message for each in found] == ([f"{step.name} {message}"] if message else [])
    assert [each.path for each in found] == (["spec.flows[1].when"] if message else [])


def test_names_of_a_dict_with_others_in_it_are_not_known(flow: Flow) -> None:
    step = flow.task()(spread)({"accuracy": 0.5})
    flow.step("next", image="x", env={"A": step.outputs.acuracy})
    assert faults_of(flow) == []


@pytest.mark.parametrize(
    "use",
    [
        lambda step: step.outputs.accuracy > step.outputs["loss"],
        lambda step: (step.phase == "Failed") & (step.outputs.text == "x"),
        lambda step: cel.has(step.outputs.loss),
        lambda step: step.items.maxBy("outputs.accuracy").outputs.loss > 0.5,
        lambda step: step.items.map(lambda each: each.outputs).minBy("loss").accuracy > 0.5,
        lambda step: step.items.filter(lambda each: each.phase == "Failed")[0].outputs.loss > 1.0,
        lambda step: step.items.all(lambda each: each.outputs.size() > 0),
    ],
)
def test_names_that_a_function_returns_are_no_faults(
    flow: Flow, use: Callable[[Step], Expr]
) -> None:
    flow.step("next", image="x", when=use(step_for(flow, use)))
    assert faults_of(flow) == []


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (
            lambda step: step.items.maxBy("accuracy").outputs.loss,
            'an item has no "accuracy"; did you mean "outputs.accuracy"?',
        ),
        (
            lambda step: step.items.maxBy("outputs.acuracy").outputs.loss,
            'train has no output "acuracy"; did you mean "accuracy"?',
        ),
        (
            lambda step: step.items.maxBy("outputs.accuracy").outputs.los,
            'train has no output "los"; did you mean "loss"?',
        ),
        (
            lambda step: step.items.map(lambda each: each.outputs.result),
            'train has no output "result"; it returns accuracy and loss',
        ),
        (
            lambda step: step.items.map(lambda each: each.output.loss),
            'an item has no "output"; did you mean "outputs"?',
        ),
        (
            lambda step: step.items.map(lambda each: each.outputs).minBy("los"),
            'train has no output "los"; did you mean "loss"?',
        ),
        (lambda step: step.outputs.los + 1.0, 'train has no output "los"; did you mean "loss"?'),
        (lambda step: step.outputs.los, 'train has no output "los"; did you mean "loss"?'),
        (lambda step: f"{step.outputs.los}", 'train has no output "los"; did you mean "loss"?'),
        (lambda step: step.result, 'train has no output "result"; it returns accuracy and loss'),
    ],
)
def test_wrong_names_are_found_where_values_are_used(
    flow: Flow, use: Callable[[Step], Any], message: str
) -> None:
    step = step_for(flow, use)
    flow.step(
        "next",
        image="x",
        env={"A": use(step)},  # here
    )
    [fault] = faults_of(flow)
    assert fault.message == message
    lines = inspect.getsource(sys.modules[__name__]).splitlines()
    assert "# here" in lines[fault.line - 1]


def test_wrong_names_are_found_in_outputs_and_in_child_flows(flow: Flow) -> None:
    step = flow.task()(train)()
    flow.finally_("report", image="x", env={"A": step.outputs.los})
    outer = Flow("outer", outputs={"a": 'steps["train"].outputs.los'})
    outer.task()(train)()
    assert [each.path for each in faults_of(flow) + faults_of(outer)] == [
        "spec.finally[0].env.A",
        "spec.outputs.a",
    ]


def test_a_patched_function_may_have_other_outputs(flow: Flow) -> None:
    patch = {"jobSpec": {"tasks": [{"name": "main", "maxRetry": 1}]}}
    step = flow.task(patch=patch)(train)()  # type: ignore[arg-type]
    flow.step("next", image="x", env={"A": step.outputs.los, "B": item})
    assert all("output" not in each.message for each in faults_of(flow))


@pytest.mark.parametrize("use", [lambda step: step.outputs, lambda step: step.outputs.loss + 1.0])
def test_outputs_of_items_are_advised_in_python(flow: Flow, use: Callable[[Step], Any]) -> None:
    step = flow.task("train-all", for_each=[1, 2])(train)()
    flow.step("next", image="x", env={"A": use(step)})
    [fault] = faults_of(flow)
    assert fault.message.endswith(
        '"train-all" has for_each, so each of its items has outputs: '
        "write train_all.items.map(lambda each: each.outputs)"
    )


def test_outputs_of_the_same_item_are_advised_in_python(flow: Flow) -> None:
    step = flow.task(for_each=[1, 2])(train)()
    depends_on = DependsOn(targets=[step], items="Matching")
    named = {"A": step.item.outputs.loss, "B": step.item.outputs.los}
    flow.step("next", image="x", env=named, depends_on=depends_on)
    [fault] = faults_of(flow)
    assert fault.message == 'train has no output "los"; did you mean "loss"?'
    flow.step("last", image="x", env={"A": step.outputs.loss}, depends_on=depends_on)
    [fault] = [each for each in faults_of(flow) if each.path.startswith("spec.flows[2]")]
    assert fault.message.endswith(
        "write train.items.map(lambda each: each.outputs), and train.item.outputs for the item of "
        "the same index"
    )


def test_an_output_is_not_an_attribute_of_the_step(flow: Flow) -> None:
    step = flow.task()(train)()
    with pytest.raises(
        AttributeError, match=r'step train has no "accuracy"; an output is \.outputs\.a'
    ):
        _ = step.accuracy  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match='has no "output"; did you mean "outputs"'):
        _ = step.output  # type: ignore[attr-defined]


def named(result: float) -> dict[str, str | int]:
    return {"name": "a", "result": result}


@pytest.mark.parametrize(
    ("function", "use", "message"),
    [
        (
            train,
            lambda step: step.outputs.accuracy >= "0.8",
            'train.outputs.accuracy is a number, so >= cannot compare it with a text: "0.8"',
        ),
        (
            typed,
            lambda step: (step.phase == "Failed") | (cel('"0.8"') < step.outputs.accuracy),
            'typed.outputs.accuracy is a number, so < cannot compare it with a text: "0.8"',
        ),
        (
            number,
            lambda step: step.result > True,
            "number.outputs.result is a number, so > cannot compare it with a boolean: true",
        ),
        (
            single,
            lambda step: step.result > 0,
            "single.outputs.result is a list, so > cannot compare it with a number: 0",
        ),
        (train, lambda step: step.outputs.accuracy >= 1, None),
        (single, lambda step: step.result[0] > "a", None),
        (single, lambda step: step.result.size() > 0, None),
        (train, lambda step: step.outputs.text > "a", None),
        (computed, lambda step: step.outputs.accuracy >= 0, None),
        (unresolved, lambda step: step.outputs.accuracy >= "0.8", None),
    ],
)
def test_an_output_is_compared_with_its_type(
    flow: Flow, function: Callable[[], Any], use: Callable[[Step], Expr], message: str | None
) -> None:
    step = flow.task()(function)()
    flow.step("next", image="x", when=use(step))
    assert [each.message for each in faults_of(flow)] == ([message] if message else [])


def test_outputs_of_items_and_of_several_types_are_compared_too(flow: Flow) -> None:
    step = flow.task(for_each=[1])(train)()
    other = flow.task()(named)(0.5)
    flow.step("next", image="x", when=step.items.exists(lambda each: each.outputs.loss < "1"))
    flow.step("last", image="x", when=other.outputs.name > 1)
    assert [each.message for each in faults_of(flow)] == [
        'train.outputs.loss is a number, so < cannot compare it with a text: "1"'
    ]
