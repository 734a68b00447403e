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


NO_VALUE = "Required value: set a value, here or with --param a=VALUE of jobflow run and lint"


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


def test_expressions_of_a_param_without_a_value_are_not_checked() -> None:
    step = {"name": "a", "when": "params.n > 2 && size(params) == 1"}
    (found,) = faults(flow_of(step, params=[{"name": "n"}]))
    assert found.startswith("spec.params[0].value: Required value: ")
