"""Texts in patches that look like references and are none: they would stay as they stand. It finds
them; whether that is meant nobody can know."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, NamedTuple

from jobflow.core.cel.references import has_reference
from jobflow.core.suggest import Suggester
from jobflow.core.violations import Place, format_path

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
_OUTPUTS = frozenset({"outputs", "output", "results", "result"})
"""Roots that were meant as the outputs of a step."""
_ATTEMPTS = frozenset({"attempt", "attempts", "retries", "retry", "retryCount"})
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
_PARAMETERS = re.compile(r"(?<=^params)\.param(?:eter)?s(?=\.)|(?<=\.outputs)\.parameters(?=\.)")
"""Argo puts `parameters` below inputs and outputs; Tekton puts `params` below inputs."""
_PATH = re.compile(r"(?P<word>[A-Za-z]+)(?P<rest>(?:[.\[]\S*)?)")
A_KEY = "a key holds none"
A_SUM = "a reference computes nothing"
AN_ATTEMPT = "the number of an attempt has no reference"
MOST = 100
"""So many are told of at most."""
LOOKED_AT = 1000
"""So many of what could be one are looked at closely: shell scripts are full of it."""


class Lookalike(NamedTuple):
    """A text that looks like a reference."""

    path: str
    """JSON path of the text or key that holds it."""
    text: str
    """With its brackets: `$(param.x)`."""
    advice: str
    """A clause, such as the reference that was probably meant."""


def lookalikes(value: Any, path: str) -> Iterator[Lookalike]:
    """Texts and keys of a JSON value at `path` that look like references and are none; at most
    MOST, among the first LOOKED_AT candidates. `$(NAME)` of a declared environment variable is
    Kubernetes' own."""
    found = list(islice(_told(islice(_found(value, path), LOOKED_AT)), MOST))
    declared = _declared(value) if found else frozenset()
    return (each for each in found if each.text not in declared)


def _told(found: Iterable[tuple[str, str, re.Match[str] | None]]) -> Iterator[Lookalike]:
    for path, text, match in found:
        if match is None:
            yield Lookalike(path, text, A_KEY)
        elif match["sum"]:
            yield Lookalike(path, text, A_SUM)
        elif _is_attempt(match):
            yield Lookalike(path, text, AN_ATTEMPT)
        elif meant := _meant(match):
            yield Lookalike(path, text, f"write $({meant})")


def _found(value: Any, path: str) -> Iterator[tuple[str, str, re.Match[str] | None]]:
    """Keys that hold a reference, and texts that could be meant as one."""
    pending: list[tuple[Place, Any]] = [(None, value)]
    while pending:
        place, inner = pending.pop()
        if isinstance(inner, str):
            if "$(" in inner or "{" in inner:
                for found in _in_text(inner):
                    yield format_path(place, path), found.group(), found
        elif isinstance(inner, dict):
            pending += [((place, key), each) for key, each in reversed(inner.items())]
            for key in inner:
                if "$(" in key and has_reference(key):
                    yield format_path((place, key), path), key, None
        elif isinstance(inner, list):
            pending += [((place, i), inner[i]) for i in reversed(range(len(inner)))]


def _declared(value: Any) -> frozenset[str]:
    """Texts by which Kubernetes refers to the environment variables that a value declares."""
    names: set[str] = set()
    pending = [value]
    while pending:
        inner = pending.pop()
        if isinstance(inner, dict):
            pending += inner.values()
            env = inner.get("env")
            for each in env if isinstance(env, list) else ():
                if isinstance(each, dict):
                    names.add(f"$({each.get('name')})")
        elif isinstance(inner, list):
            pending += inner
    return frozenset(names)


def _is_attempt(found: re.Match[str]) -> bool:
    """Whether the number of an attempt was meant; `${attempt}` is a variable of a shell."""
    return found.lastgroup in ("round", "curly") and found[found.lastgroup] in _ATTEMPTS


def _in_text(text: str) -> Iterator[re.Match[str]]:
    return (found for found in _WRITTEN.finditer(text) if not has_reference(found.group()))


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
    if word in _OUTPUTS and rest[0] == ".":
        return f"steps.NAME.outputs{rest}"[:100]
    root = word if word in _ROOTS else _MEANT.get(word.lower()) or Suggester(_ROOTS).nearest(word)
    if root is None:
        return ""
    if root == "steps":
        rest = _RESULTS.sub(r"\g<step>.outputs", rest)
        rest = _PRINTED.sub(".outputs.text", rest)
    keys = re.sub(r"\[[\"']?([^\]\"']*)[\"']?\]", r".\1", rest)
    return _PARAMETERS.sub("", f"{root}{keys}", count=1)[:100]


_EXAMPLES = {"params": ".NAME", "flow": ".name", "steps": ".NAME.outputs.KEY"}
