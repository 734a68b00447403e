"""Outputs that begin like JSON and are none, such as NaN, a dict as Python prints it, or two lines.

They are one text, so an expression or a reference that reads a key of them has no value.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from jobflow.core.cel.expression import EvaluationFailure
from jobflow.core.cel.variables import Mention

_TOO_SHORT = "truncated"
"""Word of msgspec's message about a text that is the beginning of JSON."""
_WORD = re.compile(r"\S{1,20}")


def explain_failure(
    failure: EvaluationFailure, mentions: Sequence[Mention], variables: Mapping[str, Any]
) -> str:
    """Return the message of a failure. If a key is missing, it names the outputs among those that
    are mentioned which are not JSON. `variables`: the values of the mentions."""
    for mention in mentions if failure.missing else ():
        for owner, outputs, keys in _list_outputs(mention, variables):
            if tuple(keys[:1]) != ("text",) and (fault := _find_fault(outputs)):
                return f"{failure.message}; the output of {owner} {fault}"
    return failure.message


def _list_outputs(
    mention: Mention, variables: Mapping[str, Any]
) -> Iterator[tuple[str, Mapping[str, Any], Sequence[Any]]]:
    """Yield whose outputs a variable has, these outputs, and the keys that it reads in them."""
    steps = variables.get("steps", {})
    match (mention.root, *mention.keys):
        case ("steps", name, "outputs", *keys) if name in steps:
            yield name, steps[name].get("outputs", {}), keys
        case ("steps", name, "items", *_) if name in steps:
            for i, item in enumerate(steps[name].get("items", ())):
                yield f"{name}/{i}", item["outputs"], ()
        case ("outputs", *keys):
            yield "this run", variables.get("outputs", {}), keys
        case ("last", "outputs", *keys):
            yield "the run before", variables.get("last", {}).get("outputs", {}), keys


def _find_fault(outputs: Mapping[str, Any]) -> str | None:
    """Return why the text of outputs is not JSON; None if it is, or does not begin like JSON.
    Characters are counted from 1."""
    text = outputs.get("text")
    # other texts are meant as texts
    if len(outputs) != 1 or not isinstance(text, str) or not text.startswith(("{", "[")):
        return None

    def is_malformed(end: int) -> bool:
        """Return whether no JSON begins with the text up to there."""
        error = _find_error(text[:end])
        return error is not None and _TOO_SHORT not in error

    end = bisect_left(range(len(text) + 1), True, key=is_malformed)
    if end <= len(text):
        word = _WORD.match(text, end - 1)
        return f"is not JSON at character {end}" + (f": `{word[0]}`" if word else "")
    if _find_error(text) is None:
        return None
    return f"is not JSON at character {end}: it ends too early"


def _find_error(text: str) -> str | None:
    try:
        msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        return str(error)
    except RecursionError:
        pass  # it is too deep, which is no error of JSON
    return None
