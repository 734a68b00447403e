"""Converted objects as YAML with comments."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from jobflow.client.manifests.write_yaml import write_yaml
from jobflow.migrate.steps.task import COMMENT

_MARK = re.compile(rf"(?P<indent> *)(?P<dash>- )?{re.escape(COMMENT)}: (?P<number>\d+)")


def to_yaml(obj: Mapping[str, Any]) -> str:
    """Return an object as YAML. The sentences of a step become comments above it."""
    comments: list[Sequence[str]] = []
    stream = io.StringIO()
    write_yaml([_numbered(obj, comments)], stream, compact=True)
    return "\n".join(_lines(stream.getvalue().splitlines(), comments)) + "\n"


def without_comments(value: Any) -> Any:
    """Return a value without the sentences of its steps."""
    if isinstance(value, dict):
        return {key: without_comments(each) for key, each in value.items() if key != COMMENT}
    return [without_comments(each) for each in value] if isinstance(value, list) else value


def _numbered(value: Any, comments: list[Sequence[str]]) -> Any:
    """Return a value with numbers for the sentences of its steps, which are added to a list."""
    if isinstance(value, list):
        return [_numbered(each, comments) for each in value]
    if not isinstance(value, dict):
        return value
    found = {}
    for key, each in value.items():
        if key == COMMENT:
            comments.append(each)
            found[key] = len(comments) - 1
        else:
            found[key] = _numbered(each, comments)
    return found


def _lines(lines: Sequence[str], comments: Sequence[Sequence[str]]) -> Iterator[str]:
    """Return the lines with comments for the marks; the next line begins the item of the list."""
    begins_item = False
    for line in lines:
        mark = _MARK.fullmatch(line)
        if mark is None:
            yield f"{line[: _width(line) - 2]}- {line.lstrip()}" if begins_item else line
            begins_item = False
            continue
        begins_item = mark["dash"] is not None
        for sentence in comments[int(mark["number"])]:
            yield f"{mark['indent']}# TODO: {' '.join(sentence.split())}"


def _width(line: str) -> int:
    return len(line) - len(line.lstrip())
