"""Functions as steps: functions and arguments that are refused, and the lines of their faults."""

import functools
import inspect
import math
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from jobflow.authoring import Flow, InvalidFlow, item
from jobflow.authoring.objects import functions

SCALE = 2.0


@pytest.fixture
def flow() -> Flow:
    return Flow("f")


def refused(define: Callable[[], Any]) -> str:
    with pytest.raises(InvalidFlow) as error:
        define()
    [fault] = error.value.faults
    assert fault.place.file == __file__
    lines = inspect.getsource(sys.modules[__name__]).splitlines()
    return f"{lines[fault.line - 1].strip()} # {fault.message}"


def test_a_function_that_needs_its_module_is_refused(flow: Flow) -> None:
    def uses_a_module() -> float:
        x = 1.0
        return math.floor(x)

    def uses_a_constant(x: float) -> float:
        return [SCALE for _ in range(3)][0] * x

    assert refused(lambda: flow.task()(uses_a_module)) == (
        "return math.floor(x) # uses_a_module uses math, which it does not define: import or "
        "define it inside the function, or make it a parameter"
    )

    def uses_several(x: float) -> float:
        return math.floor(x) * SCALE + math.pi

    assert "uses_several uses math, SCALE, which it does not define: import or define them" in (
        refused(lambda: flow.task()(uses_several))
    )
    assert refused(lambda: flow.task()(uses_a_constant)).startswith(
        "return [SCALE for _ in range(3)][0] * x # uses_a_constant uses SCALE"
    )


def test_the_missing_name_is_marked(flow: Flow) -> None:
    def uses_a_module(x: float) -> tuple[str, float]:
        return "Höhe", math.floor(x)

    with pytest.raises(InvalidFlow) as error:
        flow.task()(uses_a_module)
    *_, line, carets = str(error.value).splitlines()
    assert line[carets.index("^") : carets.rindex("^") + 1] == "math"


def test_a_function_with_a_closure_or_a_default_of_its_module_is_refused(flow: Flow) -> None:
    local = 1

    def closes_over() -> int:
        return local

    def has_default(x: float = SCALE) -> float:
        return x

    assert "closes_over uses local" in refused(lambda: flow.task()(closes_over))
    assert "has_default uses SCALE" in refused(lambda: flow.task()(has_default))


def test_functions_of_other_forms_are_refused(flow: Flow) -> None:
    async def is_async() -> None: ...

    def is_generator() -> Iterator[int]:
        yield 1

    def has_star(*values: int) -> None: ...

    def decorated(function: Callable[[], int]) -> Callable[[], int]:
        return functools.wraps(function)(lambda: 1)

    @decorated
    @decorated
    def is_decorated() -> int:
        return 2

    for function, message in (
        (is_async, "is no plain function"),
        (is_generator, "is a generator"),
        (has_star, "has *, ** or / parameters"),
        (lambda: 1, "cannot be sent"),
        (is_decorated, "has other decorators"),
        (functools.cache(has_star), "is no plain function"),
    ):
        assert message in refused(lambda each=function: flow.task()(each))  # type: ignore[misc]


def test_a_function_without_source_or_too_long_is_refused(
    flow: Flow, monkeypatch: pytest.MonkeyPatch
) -> None:
    namespace: dict[str, Any] = {}
    exec(compile("def made(): pass", "<made>", "exec"), namespace)
    with pytest.raises(InvalidFlow, match="the source of made cannot be read"):
        flow.task()(namespace["made"])
    monkeypatch.setattr(functions, "MAX_SOURCE", 20)

    def long() -> int:
        return 1

    assert "bytes; at most 20 fit" in refused(lambda: flow.task()(long))


def test_wrong_arguments_are_errors_of_the_call(flow: Flow) -> None:
    @flow.task()
    def work(x: int) -> None: ...

    @flow.task()
    def rated(rate: float) -> None: ...

    first = work(1)
    with pytest.raises(TypeError, match='rated: there is no argument "rates"; did you mean "rate"'):
        rated(rates=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="work: missing a required argument: 'x'"):
        work()
    assert "x: pass work.result or work.outputs.NAME" in refused(lambda: work(first))
    assert "x is no value of JSON" in refused(lambda: work({1}))


def test_a_decorator_without_brackets_is_refused(flow: Flow) -> None:
    def work() -> None: ...

    assert "write @flow.task(), with brackets" in refused(lambda: flow.task(work))  # type: ignore[arg-type]


def test_an_f_string_inside_a_value_is_refused(flow: Flow) -> None:
    @flow.task()
    def echo(names: Any) -> None: ...

    assert "pass an f-string as an argument of its own" in refused(lambda: echo([f"model-{item}"]))
