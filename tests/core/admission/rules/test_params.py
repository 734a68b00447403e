"""Rules of params: names, values and sizes."""

from typing import Any

import pytest

from support.admission.reviewed import faults, flow_of


@pytest.mark.parametrize(
    "params",
    [
        [{"name": "a_1", "value": False}, {"name": "_b", "value": 0}],
        [{"name": "a", "value": 1, "enum": [1.0]}],
        [{"name": "a", "value": {"x": [1]}, "enum": [{"x": [1]}]}],
    ],
)
def test_valid_params_are_admitted(params: list[dict[str, Any]]) -> None:
    assert faults(flow_of("a", params=params)) == []


NO_VALUE = (
    "Required value: set a value, here or with --param a=VALUE of jobflow run, lint and submit"
)


@pytest.mark.parametrize(
    ("params", "fault"),
    [
        ([{"value": 1}], "[0].name: Required value: a param has a name"),
        ([{"name": "learning-rate", "value": 1}],
         '[0].name: Invalid value: "learning-rate": a param\'s name holds letters, digits and _ '
         'and does not begin with a digit; did you mean "learning_rate"?'),
        ([{"name": "in", "value": 1}],
         '[0].name: Invalid value: "in": it is a reserved word of CEL; give the param another '
         "name"),
        ([{"name": "a", "value": 1}, {"name": "a", "value": 2}],
         '[1].name: Duplicate value: "a": already the name of spec.params[0]'),
        ([{"name": "a"}], f"[0].value: {NO_VALUE}"),
        ([{"name": "a", "enum": ["x", 2]}], f'[0].value: {NO_VALUE}; supported values: "x" and 2'),
        ([{"name": "a", "value": True, "enum": [1, 2]}],
         "[0].value: Unsupported value: true: supported values: 1, 2"),
        ([{"name": "a", "value": 1, "enum": []}],
         "[0].value: Unsupported value: 1: its enum allows nothing"),
        ([{"name": "a", "value": "x" * 70_000}],
         ": Too long: the values have 70,004 bytes; at most 65,536 are allowed: put large values "
         "into a ConfigMap or a volume"),
        ([{"name": f"p{i}", "value": 1} for i in range(257)],
         ": Too many: at most 256 are allowed; put more into one, as a map"),
    ],
)  # fmt: skip
def test_invalid_params_are_refused(params: list[dict[str, Any]], fault: str) -> None:
    assert faults(flow_of("a", params=params)) == [f"spec.params{fault}"]


NUMBERS = [
    {"name": "n", "value": 3}, {"name": "t", "value": "2h"}, {"name": "x", "value": "3"},
    {"name": "m", "value": {"n": 2000, "l": [1]}}, {"name": "b", "value": True},
]  # fmt: skip
A_NUMBER, A_TIME = "a whole number", "a duration such as 2h"


@pytest.mark.parametrize(
    "spec",
    [
        {"parallelism": "$(params.n)", "timeout": "$(params.t)"},
        {"flows": [{"name": "a", "timeout": "$(params.t)", "retry": {"limit": "$(params.n)"}}]},
        {"flows": [{"name": "a", "forEach": {"count": "$(params.n)",
                                             "parallelism": "$(params.m.l.0)"}}]},
        {"finally": [{"name": "z", "repeat": {"until": "true", "max": "$(params.n)"}}]},
    ],
)  # fmt: skip
def test_numbers_and_timeouts_may_be_a_reference_to_a_param(spec: dict[str, Any]) -> None:
    assert faults(flow_of("b", params=NUMBERS, **{"flows": [{"name": "b"}], **spec})) == []


@pytest.mark.parametrize(
    ("spec", "fault"),
    [
        ({"parallelism": "3"}, f'"3": {A_NUMBER}, or one reference to a param, such as '
         "$(params.n); write 3, without quotes"),
        ({"parallelism": "$(params.x)"}, f'"$(params.x)": {A_NUMBER}, but the value of params.x '
         "is a text"),
        ({"parallelism": "$(params.b)"}, f'"$(params.b)": {A_NUMBER}, but the value of params.b '
         "is true or false"),
        ({"parallelism": "$(params.m.k)"}, '"$(params.m.k)": there is no parameter "m.k"; did you '
         'mean "m"?'),
        ({"parallelism": "$(index)"}, f'"$(index)": {A_NUMBER}, or one reference to a param, such '
         "as $(params.n)"),
        ({"timeout": "$(params.n)"}, f'"$(params.n)": {A_TIME}, but the value of params.n is a '
         "whole number"),
        ({"timeout": "$(params.t)$(params.t)"}, f'"$(params.t)$(params.t)": {A_TIME}, or one '
         "reference to a param, such as $(params.n)"),
    ],
)  # fmt: skip
def test_a_setting_without_a_param_that_fits_is_refused(spec: dict[str, Any], fault: str) -> None:
    [field] = spec
    assert faults(flow_of("a", params=NUMBERS, **spec)) == [f"spec.{field}: Invalid value: {fault}"]


A_STEP = {"name": "a", "vars": {"limit": "60 * attempt", "limits": "params.m"}}


@pytest.mark.parametrize("timeout", ["$(vars.limit)", "$(vars.limits.n)"])
def test_a_timeout_may_be_a_reference_to_vars(timeout: str) -> None:
    assert faults(flow_of({**A_STEP, "timeout": timeout}, params=NUMBERS)) == []


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"timeout": "$(vars.limt)"},
         '.timeout: Invalid value: "$(vars.limt)": vars of the step have no "limt"; did you mean '
         '"limit"?'),
        ({"timeout": "$(vars.limit)s"},
         f'.timeout: Invalid value: "$(vars.limit)s": {A_TIME}, or one reference to a param, such '
         "as $(params.n), or to vars of the step, such as $(vars.n)"),
        ({"queueTimeout": "$(vars.limit)"},
         f'.queueTimeout: Invalid value: "$(vars.limit)": {A_TIME}, or one reference to a param, '
         "such as $(params.n)"),
        ({"queueTimeout": "0s"},
         '.queueTimeout: Invalid value: "0s": a timeout is longer than 0s; leave it out for no '
         "timeout"),
        ({"timeout": "$(vars.limit)", "vars": {"limit": "[params.n]"}},
         '.vars.limit: Invalid value: "[params.n]": gives [3], which is neither a duration such as '
         "2h nor a number of seconds"),
        ({"timeout": "$(vars.limit)", "vars": {"limit": "retries"}},
         '.vars.limit: Invalid value: "retries": gives 0, which is not longer than 0s'),
        ({"timeout": "$(vars.limit)", "vars": {"limit": "'1 year'"}},
         '.vars.limit: Invalid value: "\'1 year\'": gives "1 year", which is not a duration: write '
         "it like 2s, 500ms or 1m30s"),
    ],
)  # fmt: skip
def test_a_limit_of_time_without_a_value_that_fits_is_refused(
    fields: dict[str, Any], fault: str
) -> None:
    assert faults(flow_of({**A_STEP, **fields}, params=NUMBERS)) == [f"spec.flows[0]{fault}"]


@pytest.mark.parametrize("at", ["", "switch[0]."])
def test_a_child_flow_is_in_no_queue(at: str) -> None:
    child = {"flow": {"flows": [{"name": "x"}]}}
    work = {"switch": [{"when": "true", **child}, {"template": "y"}]} if at else child
    (found,) = faults(flow_of({"name": "a", "queueTimeout": "1m", **work}))
    assert found == (
        "spec.flows[0].queueTimeout: Forbidden: the step runs a flow, not a job; set it in the "
        "steps of the flow"
    )


def test_the_value_of_a_param_is_judged_as_the_field() -> None:
    items = {"name": "a", "forEach": {"count": "$(params.m.n)"}}
    (found,) = faults(flow_of(items, params=NUMBERS))
    assert found.startswith("spec.flows[0].forEach.count: Invalid value: 2000: a number of items")
    daemon = flow_of(
        {"name": "a", "daemon": True}, "b", params=NUMBERS, parallelism="$(params.m.l.0)"
    )
    (found,) = faults(daemon)
    assert found.startswith("spec.parallelism: Invalid value: 1: the daemon takes all the room")
    (found,) = faults(flow_of("a", params=NUMBERS, timeout="$(params.x)"))
    assert found.startswith('spec.timeout: Invalid value: "3": ')


def test_a_setting_of_a_param_without_a_value_has_one_fault() -> None:
    (found,) = faults(flow_of("a", params=[{"name": "n"}], parallelism="$(params.n)"))
    assert found.startswith("spec.params[0].value: Required value: ")


def test_expressions_of_a_param_without_a_value_are_not_checked() -> None:
    step = {"name": "a", "when": "params.n > 2 && size(params) == 1"}
    (found,) = faults(flow_of(step, params=[{"name": "n"}]))
    assert found.startswith("spec.params[0].value: Required value: ")
