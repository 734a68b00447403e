"""Arguments of functions that the annotations of their parameters do not take."""

import inspect
import sys
from collections.abc import Callable, Iterable
from types import FunctionType
from typing import Any, Literal, TypedDict

import pytest

from jobflow.authoring import ChildFlow, Flow, Step, item
from support.python_flows import faults_of


class Point(TypedDict):
    x: float


class Custom:
    pass


def misfits(value: Any, hint: Any, **fields: Any) -> list[str]:
    """Return the messages about an argument of a function with this annotation."""
    flow = Flow("f", params={"text": "7", "list": [1, "a"], "map": {"n": "x"}})

    def use(value):  # type: ignore[no-untyped-def]
        return 1

    use.__annotations__ = {"value": hint}
    flow.task(**fields)(use)(value(flow) if isinstance(value, FunctionType) else value)
    return [each.message for each in faults_of(flow) if ".arguments." in each.path]


@pytest.mark.parametrize(
    ("value", "hint", "shown"),
    [
        ("fast", int, '"fast" does not fit the annotation int'),
        (1, str, "1 does not fit the annotation str"),
        (None, float, "null does not fit the annotation float"),
        ([0.1, "a"], list[float], '[0.1,"a"] does not fit the annotation list[float]'),
        ({"y": 1}, Point, '{"y":1} does not fit the annotation Point'),
        ("c", Literal["a", "b"], "\"c\" does not fit the annotation Literal['a', 'b']"),
        ([1], "int | str | None", "[1] does not fit the annotation int | str | None"),
        ("a", Custom, '"a" does not fit the annotation Custom'),
        (f"model-{item}", int, "a text does not fit the annotation int"),
        (lambda flow: flow.params.map.n, float, 'params.map, "x", does not fit'),
        (lambda flow: flow.params["list"], list[int], 'params.list, [1,"a"], does not fit'),
    ],
)
def test_a_value_of_another_type_is_a_fault(value: Any, hint: Any, shown: str) -> None:
    [message] = misfits(value, hint)
    assert message.replace(f"{__name__}.", "").replace("typing.", "").startswith(shown)


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        (1, float),
        (True, int),
        (True, bool | str),
        ((1, 2), tuple[int, int]),
        ([1], Iterable[int]),
        ({"x": 1}, Point),
        (None, float | None),
        ("a", Any),
        ([1], list[int] | list[str]),
        (1, "Missing"),
        (1, "{}['Missing']"),
        (f"model-{item}", str),
        (f"model-{item}", Literal["model-1"]),
        ([item, "a"], list[int]),
        (lambda flow: flow.params.text, int),
        (lambda flow: flow.params.text, str),
        (lambda flow: flow.params["list"], str),
        (lambda flow: flow.params.map.other, int),
        (lambda flow: flow.params.text + "1", int),
    ],
)
def test_a_value_that_may_fit_is_no_fault(value: Any, hint: Any) -> None:
    assert misfits(value, hint) == []


def test_items_are_compared_with_the_annotation() -> None:
    fields = {"for_each": [{"rate": 0.1}, {"rate": "0.2"}, {"rate": "high"}, {}]}
    assert misfits(item.rate, float, **fields) == [
        'item 2, "high", does not fit the annotation float'
    ]
    assert misfits(item.rate, str, **fields) == []
    assert misfits(item, dict[str, Any], **fields) == []
    assert misfits(item, float, for_each=Flow("g").params.rates) == []


def counted() -> dict[str, int]:
    return {"rows": 1}


def listed() -> list[int]:
    return [1]


def named() -> str:
    return "7"


@pytest.mark.parametrize(
    ("function", "output", "hint", "message"),
    [
        (listed, lambda step: step.result, int, "listed.outputs.result, a list, does not fit"),
        (counted, lambda step: step.outputs.rows, list, "counted.outputs.rows, a number, does not"),
        (counted, lambda step: step.outputs.rows, float, None),
        (counted, lambda step: step.outputs.rows, str, None),
        (named, lambda step: step.result, int, None),
        (listed, lambda step: step.result, list[str] | None, None),
    ],
)
def test_outputs_are_compared_by_their_types(
    function: Callable[[], Any], output: Callable[[Step], Any], hint: Any, message: str | None
) -> None:
    found = misfits(lambda flow: output(flow.task()(function)()), hint)
    assert [each[: len(message or "")] for each in found] == ([message] if message else [])


def test_params_of_a_child_flow_are_known_too() -> None:
    flow = Flow("f")
    child = ChildFlow(params={"n": "many", "own": item})

    @child.task()
    def use(n: int, own: int) -> None:
        return None

    use(child.params.n, child.params.own)
    flow.step("site", flow=child, for_each=[1])
    [fault] = faults_of(flow)
    assert str(fault).endswith(
        'site/use.arguments.n: params.n, "many", does not fit the annotation int'
    )


def test_a_fault_is_at_the_line_of_the_argument() -> None:
    flow = Flow("f")

    @flow.task()
    def train(rate: float, epochs: int, names: list[str]) -> None:
        return None

    train(
        "high",  # first
        names=[1],  # second
        epochs=3,
    )
    lines = inspect.getsource(sys.modules[__name__]).splitlines()
    found = faults_of(flow)
    assert [lines[each.line - 1].strip() for each in found] == [
        '"high",  # first',
        "names=[1],  # second",
    ]
    assert [each.place.width for each in found] == [6, 3]
    assert [each.step_path for each in found] == ["train.arguments.rate", "train.arguments.names"]
