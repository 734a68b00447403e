"""Values of flags such as `--param NAME=VALUE`: JSON, or else text.

YAML is for files: it takes `NO` for false and `012` for ten. Lists and mappings alone are read as
YAML, so that their words need no quotes, but with the numbers and words of JSON.
"""

from __future__ import annotations

import re

from jobflow.client.manifests.yaml_errors import NotYAMLError, Span
from jobflow.client.manifests.yaml_nodes import Node, ScalarNode, documents
from jobflow.client.manifests.yaml_scalars import Scalar, plain_value

_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_WORDS = ("true", "false", "null")
_QUOTED = re.compile(r"'(?:[^']|'')*'")
_BRACKETS = ("[", "{", '"')


class FlagValueError(ValueError):
    """A value that cannot be read. The message ends a sentence about the value."""


def read_flag_value(text: str) -> Node:
    """Return a number, true, false, null, list, mapping or quoted text as in JSON, and anything
    else as text. Raises FlagValueError if a value begins with a bracket or a double quote and does
    not end as a list, mapping or quoted text, or has characters that UTF-8 does not have."""
    trimmed = text.strip()
    if trimmed.startswith(_BRACKETS) or _QUOTED.fullmatch(trimmed):
        return _parse(text)
    try:
        text.encode()
    except UnicodeEncodeError:
        raise FlagValueError("has characters that UTF-8 does not have") from None
    return ScalarNode(Span(0, 0, 0), json_value(trimmed) if is_json(trimmed) else text)


def is_json(text: str) -> bool:
    """Return whether a word is a number, true, false or null in JSON."""
    return text in _WORDS or _NUMBER.fullmatch(text) is not None


def json_value(text: str) -> Scalar:
    """Return the value of a plain word: a number, true, false or null of JSON, or the text."""
    return plain_value(text) if is_json(text) or not text else text


def _parse(text: str) -> Node:
    parsed = list(documents(text, json_value))
    if len(parsed) > 1:
        raise FlagValueError("has more text after its end; put all of it into double quotes")
    [node] = parsed
    if isinstance(node, NotYAMLError):
        message = node.message
        is_short = message.startswith("not YAML")
        raise FlagValueError(f"is {message}" if is_short else f"cannot be read: {message}")
    return node
