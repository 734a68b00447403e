"""Functions as steps: the containers that they become, and what they return when they run."""

import inspect
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from jobflow.api.labels import NOT_COMPARED
from jobflow.authoring import Flow, item
from jobflow.core.cel.references import replace_references
from jobflow.core.pods.outputs import parse_outputs
from jobflow.sandbox.nodes.environment import expand

FIXED = 4
"""Arguments before the values of the run: the program, the source, its place, its call."""


@pytest.fixture
def flow() -> Flow:
    return Flow("f")


def step_of(flow: Flow) -> dict[str, Any]:
    return yaml.safe_load(flow.yaml(check=False))["spec"]["flows"][-1]  # type: ignore[no-any-return]


def outputs_of(flow: Flow, folder: Path, **values: str) -> Any:
    """Return the outputs of the last step of a flow, run as a container would run it."""
    message = folder / "message"
    args = step_of(flow)["container"]["args"]
    fixed = [expand(replace_references(arg, lambda _: "?"), {"x": "?"}) for arg in args[:FIXED]]
    texts = args[FIXED:]
    texts = [f"{text.partition('=')[0]}={values[text.partition('=')[0]]}" for text in texts]
    command = [sys.executable, "-I", "-c", *fixed, *texts]
    subprocess.run(command, check=True, env={"TERMINATION_LOG": str(message)})
    return json.loads(message.read_text()) if message.exists() else None


def failure_of(flow: Flow, folder: Path) -> tuple[str, str]:
    """Return the log and the termination message of the last step of a flow, which fails."""
    message = folder / "message"
    fixed = [expand(arg, {}) for arg in step_of(flow)["container"]["args"]]
    command = [sys.executable, "-I", "-c", *fixed]
    environment = {"TERMINATION_LOG": str(message)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 1
    return done.stderr, message.read_text() if message.exists() else ""


def line_of(function: Callable[..., Any], text: str) -> int:
    """Return the line of this file with a text of a function."""
    lines, first = inspect.getsourcelines(function)
    return first + next(number for number, line in enumerate(lines) if text in line)


def test_a_function_becomes_a_container(flow: Flow) -> None:
    @flow.task(image="python:3.13", retry=2, container={"workingDir": "/x"})
    def train_model(rate: float, epochs: int = 3) -> float:
        return rate * epochs

    train_model(item, epochs=4)
    train_model(0.5)
    first, second = yaml.safe_load(flow.yaml(check=False))["spec"]["flows"]
    assert (first["name"], second["name"]) == ("train-model", "train-model-2")
    assert first["retry"] == {"limit": 2}
    container = first["container"]
    assert container["image"] == "python:3.13"
    assert container["workingDir"] == "/x"
    assert container["command"] == ["python3", "-c"]
    program, source, place, call, *texts = container["args"]
    assert source.startswith("def train_model(rate: float, epochs: int = 3) -> float:")
    # a flow that reuses results compares the source and the call alone
    assert [arg.startswith(NOT_COMPARED) for arg in (program, source, place, call)] == [
        True, False, True, False,
    ]  # fmt: skip
    assert texts == ["rate=$(item)"]
    assert train_model.function(0.5) == 1.5


@pytest.mark.parametrize(
    ("returned", "outputs"),
    [({"a": [1, {"b": None}]}, {"a": [1, {"b": None}]}), (1.5, {"result": 1.5}), (None, None)],
)
def test_what_a_function_returns_becomes_the_outputs(
    flow: Flow, tmp_path: Path, returned: Any, outputs: Any
) -> None:
    @flow.task()
    def echo(value: Any) -> Any:
        return value

    echo(returned)
    assert outputs_of(flow, tmp_path) == outputs


def test_values_of_the_run_have_the_type_of_their_parameter(flow: Flow, tmp_path: Path) -> None:
    @flow.task()
    def echo(a: int, b: str, d: dict[str, int], e: "str") -> list[Any]:  # noqa: UP037
        return [a, b, d, e]

    echo(item.a, item.b, d=item.d, e=item.e)
    values = {"a": "1", "b": "2", "d": '{"n": 3}', "e": "null"}
    assert outputs_of(flow, tmp_path, **values) == {"result": [1, "2", {"n": 3}, "null"]}


def test_texts_stay_texts_for_parameters_that_take_other_values_too(
    flow: Flow, tmp_path: Path
) -> None:
    @flow.task()
    def echo(a, b: str | None, c: object, d: Any, e: "int | str", f: int | None) -> list[Any]:  # type: ignore[no-untyped-def]  # noqa: E501, UP037
        return [a, b, c, d, e, f]

    echo(item.a, item.b, item.c, item.d, item.e, item.f)
    step = step_of(flow)
    assert step["container"]["args"][FIXED] == "a=$(vars.value)"
    assert step["vars"]["value"] == "[item.a]"
    assert step["container"]["args"][-1] == "f=$(item.f)"
    values = {"a": '["1.10"]', "b": '["true"]', "c": "[null]", "d": "[1.5]", "e": '["1"]', "f": "1"}
    found = outputs_of(flow, tmp_path, **values)
    assert found == {"result": ["1.10", "true", None, 1.5, "1", 1]}


@pytest.mark.parametrize("value", ["nan", "inf"])
def test_numbers_that_json_does_not_have_fail_the_step(
    flow: Flow, tmp_path: Path, value: str
) -> None:
    @flow.task()
    def train(value: str) -> dict[str, Any]:
        return {"accuracy": 0.9, "losses": [float(value)]}

    train(value)
    log, message = failure_of(flow, tmp_path)
    assert message == "train returned no JSON in 'losses': NaN and infinity are not allowed"
    assert log.endswith(f"{message}\n")


@pytest.mark.parametrize("character", ["x", "é"])
def test_a_result_has_room_for_4096_bytes_in_utf_8(
    flow: Flow, tmp_path: Path, character: str
) -> None:
    @flow.task()
    def make(character: str, more: str = "") -> str:
        count = (4096 - len('{"result": ""}')) // len(character.encode())
        return character * count + more

    make(character)
    result = outputs_of(flow, tmp_path)["result"]
    assert set(result) == {character}
    assert parse_outputs((tmp_path / "message").read_text()) == {"result": result}
    make(character, "x" * 2)
    _, message = failure_of(flow, tmp_path)
    assert message == f"make returned {4098} bytes; at most 4096 are allowed"


def test_a_result_that_is_no_json_is_named(flow: Flow, tmp_path: Path) -> None:
    @flow.task()
    def train() -> dict[str, Any]:
        import decimal

        return {"acc": decimal.Decimal("0.9")}

    train()
    _, message = failure_of(flow, tmp_path)
    assert message.startswith("train returned no JSON in 'acc': Object of type Decimal")


def test_tracebacks_have_the_lines_of_the_file(flow: Flow, tmp_path: Path) -> None:
    @flow.task()
    def train() -> None:
        import json

        def load() -> None:
            json.loads("[", object_hook=lambda found: found)

        load()

    train()
    log, message = failure_of(flow, tmp_path)
    assert message.startswith("JSONDecodeError: Expecting value: line 1 column 2")
    line = line_of(train.function, "json.loads(")
    called = line_of(train.function, "    load()")
    assert f'File "test_functions.py", line {called}, in train' in log
    assert f'File "test_functions.py", line {line}, in load' in log


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ('raise ValueError("no\\n  rows")', "ValueError: no rows"),
        ("raise TimeoutError", "TimeoutError"),
        ('sys.exit("no rows")', "no rows"),
        ("sys.exit(1)", ""),
        ('raise ValueError("x" * 9999)', "ValueError: " + "x" * 244),
    ],
)
def test_the_error_of_a_function_is_its_message(
    flow: Flow, tmp_path: Path, statement: str, message: str
) -> None:
    @flow.task()
    def work(statement: str) -> None:
        import sys

        exec(statement, {"sys": sys})

    work(statement)
    assert failure_of(flow, tmp_path)[1] == message


def test_dollars_and_brackets_of_the_source_stay(flow: Flow, tmp_path: Path) -> None:
    """JobFlow and Kubernetes replace `$(…)` in the arguments of a container."""

    @flow.task()
    def echo() -> list[str]:
        return ["$(params.x) $$(x) $(x) $$ $", r"\n{}", 'ä"']

    echo()
    assert outputs_of(flow, tmp_path) == {"result": ["$(params.x) $$(x) $(x) $$ $", r"\n{}", 'ä"']}


def test_values_that_contain_values_of_the_run_are_computed(flow: Flow) -> None:
    @flow.task()
    def echo(layers: list[int], name: str) -> None: ...

    echo([1, item.n], name=item.first + item.last)
    step = step_of(flow)
    assert step["container"]["args"][FIXED:] == ["layers=$(vars.value)", "name=$(vars.value2)"]
    assert step["vars"] == {"value": "[1, item.n]", "value2": "item.first + item.last"}


def test_an_f_string_is_a_text_of_the_run(flow: Flow, tmp_path: Path) -> None:
    @flow.task()
    def echo(name: Any) -> Any:
        return name

    echo(f"{item.n}")
    assert outputs_of(flow, tmp_path, name="1") == {"result": "1"}


def test_a_function_that_is_not_called_is_no_step(flow: Flow) -> None:
    @flow.task()
    def work() -> None: ...

    with pytest.raises(TypeError, match=r"call work\(...\) first"):
        [work] >> work
    with pytest.raises(AttributeError, match="a function has no outputs: call it"):
        work.outputs  # noqa: B018


def test_a_function_imports_and_defines_what_it_needs(flow: Flow, tmp_path: Path) -> None:
    @flow.task()
    def work(n: int) -> int:
        import math as m
        from dataclasses import dataclass

        @dataclass
        class Pair:
            left: int
            right: int = 2

            @property
            def total(self) -> int:
                return self.left + self.right

        def square(x: int) -> int:
            return x * x

        if n > 5:
            return work.__call__(5)  # type: ignore[operator]
        return sum(square(m.floor(each)) for each in (1.5, 2)) + Pair(n).total

    work(7)
    assert outputs_of(flow, tmp_path) == {"result": 12}


def test_a_task_that_is_never_called_is_a_warning(flow: Flow) -> None:
    @flow.task()
    def train() -> None: ...

    @flow.task()
    def other() -> None: ...

    other()
    [warning] = flow.lint()
    assert warning.message == "train is never called, so no step runs it: train(...)"
    assert warning.place.file == __file__
    train.options(retry=1)()
    assert flow.lint() == []


def test_a_wrong_name_of_a_flow_has_a_suggestion(flow: Flow) -> None:
    with pytest.raises(AttributeError, match='a Flow has no "parms"; did you mean "params"'):
        flow.parms  # noqa: B018


def test_options_change_one_call(flow: Flow) -> None:
    @flow.task(image="a", timeout="1m")
    def work() -> None: ...

    work.options(name="other", image="b")()
    work()
    other, first = yaml.safe_load(flow.yaml(check=False))["spec"]["flows"]
    assert (other["name"], other["container"]["image"], other["timeout"]) == ("other", "b", "1m")
    assert (first["name"], first["container"]["image"]) == ("work", "a")


def test_a_function_can_run_in_finally(flow: Flow) -> None:
    @flow.task(is_finally=True)
    def report(failures: list[dict[str, Any]]) -> None: ...

    report(flow.failures)
    [step] = yaml.safe_load(flow.yaml(check=False))["spec"]["finally"]
    assert step["container"]["args"][FIXED:] == ["failures=$(flow.failures)"]
