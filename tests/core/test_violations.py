"""Violations have the format of the API server's errors."""

import pytest

from jobflow.core.violations import Reason, Violation, join_path, quote


@pytest.mark.parametrize(
    ("reason", "value", "detail", "text"),
    [
        (Reason.INVALID, "x", "no", 'a.b: Invalid value: "x": no'),
        (Reason.INVALID, 3, "no", "a.b: Invalid value: 3: no"),
        (Reason.REQUIRED, "x", "say it", "a.b: Required value: say it"),
        (Reason.DUPLICATE, "x", "", 'a.b: Duplicate value: "x"'),
        (Reason.NOT_SUPPORTED, "x", "no", 'a.b: Unsupported value: "x": no'),
        (Reason.NOT_FOUND, "x", "", 'a.b: Not found: "x"'),
        (Reason.TOO_LONG, "x" * 99, "99", "a.b: Too long: 99"),
        (Reason.TOO_MANY, 99, "99", "a.b: Too many: 99"),
        (Reason.FORBIDDEN, {"a": 1}, "no", "a.b: Forbidden: no"),
        (Reason.TYPE_INVALID, {"a": 1}, "no", 'a.b: Invalid value: {"a":1}: no'),
    ],
)
def test_each_reason_has_its_text(reason, value, detail, text):
    violation = Violation("a.b", reason, value, detail)
    assert str(violation) == text
    assert f"a.b: {violation.message}" == text


def test_a_violation_of_the_whole_object_has_no_path():
    assert str(Violation("", Reason.FORBIDDEN, None, "no")) == "Forbidden: no"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ('q"', '"q\\""'),
        (None, "null"),
        ("é" * 300, '"' + "é" * 198 + "…"),
        ({1j}, '"{1j}"'),
        (2**70, str(2**70)),
        ("\ud800", "\"'\\\\ud800'\""),
    ],
)
def test_values_are_quoted_as_json_and_shortened(value, text):
    assert quote(value) == text


def test_a_value_nested_too_deep_is_quoted():
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    assert quote(deep) == "[…]"
    assert quote({"a": deep}) == "{…}"


@pytest.mark.parametrize(
    ("path", "key", "text"),
    [
        ("", "spec", "spec"),
        ("spec", "a-b_c", "spec.a-b_c"),
        ("spec", 2, "spec[2]"),
        ("spec", "$patch", "spec.$patch"),
        ("metadata.labels", "x.io/y", "metadata.labels[x.io/y]"),
    ],
)
def test_paths_have_the_format_of_the_api_server(path, key, text):
    assert join_path(path, key) == text
