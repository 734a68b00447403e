"""Texts in patches that look like references and are none: they would stay as they stand. It finds
them; whether that is meant nobody can know."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from jobflow.core.references import is_reference
from jobflow.core.suggest import Suggester

_ROOTS = ("params", "item", "index", "flow", "steps")
_MEANT = {
    "param": "params",
    "parameter": "params",
    "parameters": "params",
    "input": "params",
    "inputs": "params",
    "items": "item",
    "task": "steps",
    "tasks": "steps",
    "workflow": "flow",
    "jobflow": "flow",
    "context": "flow",
}
"""What other workflow languages call it."""
_WRITTEN = re.compile(
    r"(?<!\$)\$\(\s*(?P<round>[^()$\s]+)\s*\)|\$\{(?P<shell>[^{}$()\s]+)\}"
    r"|\{\{\s*(?P<curly>[^{}$()\s]+)\s*\}\}"
    r"|(?<!\$)\$\(\s*(?P<sum>(?:params|item|flow|steps)\.[^()$]+|(?:item|index)\s*[-+*/%][^()$]+)\)"
)
"""`$( … )`, `${…}` and `{{…}}`, as shells, Argo and Helm have them; and what computes."""
_RESULTS = re.compile(r"^(?P<step>\.[^.]+)\.(?:results?|output)\b")
"""What other tools, such as Tekton, call outputs."""
_PRINTED = re.compile(r"\.outputs\.result$")
"""What Argo calls what a script has printed."""
_PATH = re.compile(r"(?P<word>[A-Za-z]+)(?P<rest>(?:[.\[]\S*)?)")
A_KEY = "a key holds none"
A_SUM = "a reference computes nothing"
MOST = 100
"""So many are told of at most."""
LOOKED_AT = 1000
"""So many of what could be one are looked at closely: shell scripts are full of it."""


def lookalikes(value: Any) -> Iterator[tuple[str, str]]:
    """What looks like a reference in the texts and keys of a JSON value, and what to say of it,
    such as the reference that was probably meant; at most MOST, of the first LOOKED_AT that could
    be."""
    return islice(_told(islice(_found(value), LOOKED_AT)), MOST)


def _told(found: Iterable[tuple[str, re.Match[str] | None]]) -> Iterator[tuple[str, str]]:
    for text, match in found:
        if match is None:
            yield text, A_KEY
        elif match["sum"]:
            yield text, A_SUM
        elif meant := _meant(match):
            yield text, f"write $({meant})"


def _found(value: Any) -> Iterator[tuple[str, re.Match[str] | None]]:
    """Keys that hold a reference, and what in texts could be meant as one."""
    pending = [value]
    while pending:
        inner = pending.pop()
        if isinstance(inner, str):
            yield from _in_text(inner)
        elif isinstance(inner, dict):
            pending += reversed(inner.values())
            yield from ((key, None) for key in inner if "$(" in key and is_reference(key))
        elif isinstance(inner, list):
            pending += reversed(inner)


def _in_text(text: str) -> Iterator[tuple[str, re.Match[str]]]:
    if "$(" not in text and "{" not in text:
        return
    for found in _WRITTEN.finditer(text):
        whole = found.group()
        if not is_reference(whole):
            yield whole, found


def _meant(found: re.Match[str]) -> str:
    """The path of the reference that was probably meant; empty for anything else."""
    path = _PATH.fullmatch(found[found.lastgroup or ""])
    if path is None:
        return ""
    word, rest = path["word"], path["rest"]
    if not rest:
        # `${item}` is a variable of many a shell loop, `$(steps)` is nothing else.
        own = word in _ROOTS and found.lastgroup != "shell"
        return f"{word}{_EXAMPLES.get(word, '')}" if own else ""
    root = word if word in _ROOTS else _MEANT.get(word.lower()) or Suggester(_ROOTS).nearest(word)
    if root is None:
        return ""
    if found.lastgroup == "curly":
        rest = rest.replace(".parameters.", ".", 1)
    if root == "steps":
        rest = _RESULTS.sub(r"\g<step>.outputs", rest)
        rest = _PRINTED.sub(".outputs.text", rest)
    keys = re.sub(r"\[[\"']?([^\]\"']*)[\"']?\]", r".\1", rest)
    return f"{root}{keys}"[:100]


_EXAMPLES = {"params": ".NAME", "flow": ".name", "steps": ".NAME.outputs.KEY"}
