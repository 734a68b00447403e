"""Values of plain YAML scalars as kubectl reads them: as YAML 1.1, but dates and sexagesimals stay
text. Every row of tests/client/manifests/test_yaml_scalars.py was run through kubectl 1.32."""

import math
import re

Scalar = str | int | float | bool | None

_WORDS: dict[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(
        ("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True
    ),
    **dict.fromkeys(
        ("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False
    ),
}
_NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_INTEGER = re.compile(r"[-+]?(0[xX][0-9a-fA-F]+|0[bB][01]+|0[oO]?[0-7]+|0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_BASES = {"x": 16, "b": 2, "o": 8}
_MAX_DIGITS = 64


class NotJSONError(ValueError):
    """A number that JSON, and so the API server, does not have."""


def plain_value(text: str) -> Scalar:
    """Return the value of an unquoted scalar. Raises NotJSONError for .inf and .nan."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in "+-.0123456789":
        return text
    if _NOT_FINITE.fullmatch(text):
        raise NotJSONError(text)
    # YAML 1.1 allows underscores between digits
    digits = text.replace("_", "")
    if len(digits) <= _MAX_DIGITS:
        if _INTEGER.fullmatch(digits):
            body = digits.lstrip("+-").lower()
            base = _BASES.get(body[1], 8) if len(body) > 1 and body[0] == "0" else 10
            value = int(body[2:] if body[1:2] in _BASES else body, base)
            value = -value if digits[0] == "-" else value
            # Go reads larger integers as floats
            return value if -(2**63) <= value < 2**63 else float(value)
        if _FLOAT.fullmatch(digits):
            number = float(digits)
            if math.isinf(number):
                return text  # `1e999` is a number of YAML but not of JSON
            return int(number) if number.is_integer() and abs(number) < 2**53 else number
    return text


def key_text(value: Scalar) -> str | None:
    """Return the JSON key for a scalar that is a mapping's key, or None for null."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
