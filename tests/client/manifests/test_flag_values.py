"""Values of `--param NAME=VALUE` and `--output NAME=VALUE`: JSON, or else text."""

from typing import Any

import pytest

from jobflow.client.manifests.flag_values import FlagValueError, read_flag_value
from jobflow.client.manifests.yaml_nodes import data_of


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("4", 4),
        ("-0.5", -0.5),
        ("1e3", 1000),
        ("9223372036854775807", 2**63 - 1),
        ("9223372036854775808", 2.0**63),
        ("9" * 30, 1e30),
        ("true", True),
        ("null", None),
        (" 4 ", 4),
        ('"4"', "4"),
        ("'4'", "4"),
        ("'it''s'", "it's"),
        ('"[draft] x"', "[draft] x"),
        ("[0.1, 1e-3, null]", [0.1, 0.001, None]),
        ('{"a": [null, {}]}', {"a": [None, {}]}),
        ("[eu, NO, 1_000, 12:30, 2026-01-31, 012, ~]",
         ["eu", "NO", "1_000", "12:30", "2026-01-31", "012", "~"]),
        ('["\\ud83d\\ude00"]', ["😀"]),
        ("{yes: on, n: }", {"yes": "on", "n": None}),
    ],
)  # fmt: skip
def test_json_is_read_as_such(text: str, value: Any) -> None:
    found = data_of(read_flag_value(text))
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    "text",
    [
        *("YES", "no", "on", "True", "Null", "~", "", " ", "1_000", "0x10", "0o17", "007"),
        *("+1", ".5", "1.", "12:30:00", "2026-01-31", "2026-01-31T00:00:00Z", "NaN", "-Infinity"),
        *("a: b", "- a", "*", "&x", "!!int 4", "# c", "a=b", "$(flow.name)", "1 2", "@x", "it's"),
        *("'tis", "'a' or 'b'", "1\n---\n2", "1e999", "9" * 10_000),
    ],
    ids=lambda text: text[:20],
)
def test_everything_else_is_text(text: str) -> None:
    assert data_of(read_flag_value(text)) == text


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("[a", "is not YAML: the list opened at line 1, column 1 needs a comma or a closing ]"),
        ("[draft] x", "has more text after its end; put all of it into double quotes"),
        ('"a', "is not YAML: "),
        ("{{ x }}", "cannot be read: a key must be text; render {{ … }} of a Helm"),
        ("[a]\n---\n[b]", "has more text after its end"),
        ("[" * 10_000, "cannot be read: nested more than"),
        ("a\udc80", "has characters that UTF-8 does not have"),
        ("[a\udc80]", "cannot be read: control character U+DC80"),
    ],
    ids=lambda text: text[:20].encode("ascii", "replace").decode(),
)
def test_values_that_cannot_be_read_are_errors(text: str, fault: str) -> None:
    with pytest.raises(FlagValueError) as raised:
        read_flag_value(text)
    assert str(raised.value).startswith(fault)
