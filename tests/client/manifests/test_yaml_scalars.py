"""Plain scalars are read as in kubectl. The expected values are the output of kubectl 1.32."""

import json
import subprocess

import pytest

from jobflow.client.manifests.yaml_scalars import NotJSONError, Scalar, key_text, plain_value

ROWS: list[tuple[str, Scalar]] = [
    ("yes", True),
    ("y", True),
    ("On", True),
    ("n", False),
    ("off", False),
    ("TRUE", True),
    ("tRUE", "tRUE"),
    ("~", None),
    ("null", None),
    ("Null", None),
    ("2020-01-01", "2020-01-01"),
    ("2001-12-14t21:59:43.10-05:00", "2001-12-14t21:59:43.10-05:00"),
    ("1:30", "1:30"),
    ("0777", 511),
    ("0o17", 15),
    ("0x1F", 31),
    ("-0x1f", -31),
    ("0x", "0x"),
    ("0b11", 3),
    ("1_000", 1000),
    ("1__0", 10),
    ("_1", "_1"),
    ("08", 8),
    ("+5", 5),
    ("-0", 0),
    ("1e3", 1000),
    ("0.1e1", 1),
    (".5", 0.5),
    ("-.5", -0.5),
    ("1.", 1),
    ("1.0", 1),
    ("1e400", "1e400"),
    ("9223372036854775807", 9223372036854775807),
    ("18446744073709551615", 18446744073709552000.0),
    ("12345678901234567890123", 1.2345678901234568e22),
    ("=", "="),
    ("10s", "10s"),
    ("1.14.2", "1.14.2"),
    ("-", "-"),
    (".", "."),
    ("a", "a"),
]


@pytest.mark.parametrize(("text", "value"), ROWS)
def test_a_plain_scalar_has_the_same_value_as_in_kubectl(text: str, value: Scalar) -> None:
    result = plain_value(text)
    assert (type(result), result) == (type(value), value)


@pytest.mark.parametrize("text", [".inf", "-.Inf", "+.INF", ".nan", ".NaN"])
def test_numbers_that_json_does_not_have_are_errors(text: str) -> None:
    with pytest.raises(NotJSONError):
        plain_value(text)


def test_a_number_of_a_million_digits_is_text() -> None:
    assert plain_value("1" * 1_000_000) == "1" * 1_000_000


@pytest.mark.parametrize(
    ("value", "key"),
    [(1, "1"), (1.5, "1.5"), (True, "true"), (False, "false"), ("a", "a"), (None, None)],
)
def test_keys_are_converted_to_text(value: Scalar, key: str | None) -> None:
    assert key_text(value) == key


@pytest.mark.kubectl
def test_the_expected_values_match_kubectl() -> None:
    rows = "".join(f"  k{i}: {text}\n" for i, (text, _) in enumerate(ROWS) if text != "-")
    manifest = f"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: x\ndata:\n{rows}"
    answer = subprocess.run(
        ["kubectl", "label", "--local", "-f", "-", "a=b", "-o", "json"],
        input=manifest,
        capture_output=True,
        text=True,
        check=True,
    )
    data = json.loads(answer.stdout, parse_int=_number)["data"]
    assert data == {f"k{i}": value for i, (text, value) in enumerate(ROWS) if text != "-"}


def _number(text: str) -> int | float:
    """Go prints a float without a point if it is whole."""
    return int(text) if -(2**63) <= int(text) < 2**63 else float(text)
