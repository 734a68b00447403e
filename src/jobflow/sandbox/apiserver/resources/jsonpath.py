"""The JSON paths of printer columns: fields, indices, `[*]` and `[?(@.x=="y")]` filters.

A small part of kubectl's JSONPath (k8s.io/client-go/util/jsonpath). A path that is not of this
part finds nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

Step = Callable[[Any], Iterator[Any]]

_TOKEN = re.compile(
    r"""\.(?P<field>(?:[^.\[\]\\]|\\.)+)
    |\[(?P<index>-?\d+)\]
    |(?P<all>\[\*\]|\.\*)
    |\['(?P<quoted>[^']+)'\]
    |\[\?\(@\.(?P<left>[^=!<>\s]+)\s*(?P<sign>==|!=)\s*["']?(?P<right>[^"')]*)["']?\)\]""",
    re.VERBOSE,
)


def compile_path(path: str) -> Callable[[Any], list[Any]]:
    """A path as a function from an object to what it finds there, in order."""
    steps: list[Step] = []
    at = 0
    text = path if path.startswith((".", "[")) else f".{path}"
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            return lambda obj: []
        steps.append(_step(found))
        at = found.end()
    return lambda obj: _follow(steps, obj)


def _follow(steps: list[Step], obj: Any) -> list[Any]:
    values = [obj]
    for step in steps:
        values = [inner for value in values for inner in step(value)]
    return values


def _step(found: re.Match[str]) -> Step:
    if found["all"]:
        return _all
    if found["index"]:
        return _index(int(found["index"]))
    if found["left"]:
        return _filter(found["left"], found["sign"] == "==", found["right"])
    return _field(found["quoted"] or re.sub(r"\\(.)", r"\1", found["field"]))


def _field(name: str) -> Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, dict) and value.get(name) is not None:
            yield value[name]

    return step


def _index(index: int) -> Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, list) and -len(value) <= index < len(value):
            yield value[index]

    return step


def _all(value: Any) -> Iterator[Any]:
    if isinstance(value, list):
        yield from value
    elif isinstance(value, dict):
        yield from value.values()


def _filter(path: str, equal: bool, wanted: str) -> Step:
    inner = compile_path(path)

    def step(value: Any) -> Iterator[Any]:
        for item in value if isinstance(value, list) else ():
            if (wanted in map(str, inner(item))) is equal:
                yield item

    return step
