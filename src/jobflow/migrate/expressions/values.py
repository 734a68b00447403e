"""Values of Argo's tags: texts with references to what a flow knows."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from jobflow.api.nesting import MAX_DEPTH, is_deeper
from jobflow.core.cel.language.parser import RESERVED


class UnsupportedExpression(Exception):
    """An expression that cannot be converted; the message is a clause that says why."""


class Kind(StrEnum):
    """The type of a reference's value, as far as it is known."""

    TEXT = "text"
    NUMBER = "number"
    BOOL = "bool"
    LIST = "list"
    JSON = "json"
    """A part of a JSON text, which has the type that it has there."""
    PHASE = "phase"
    """A phase in Argo's words; `Ref.raw` has it in ours."""
    ANY = "any"
    """A text, or the number or boolean that a user gives for it."""


@dataclass(frozen=True, slots=True)
class Ref:
    """A value that is known when a job is created."""

    cel: str
    path: str = ""
    """The path in `$(…)`, or empty if the value has to be computed."""
    kind: Kind = Kind.ANY
    hint: str = "value"
    raw: str = ""
    """CEL of a phase in JobFlow's words."""
    or_else: str = ""
    """CEL of the value with `%s` for the value if it does not exist; empty if it always does."""
    may_lack: bool = False
    """Whether its step may have been skipped or have failed, or its item may have no such key."""


Text = tuple[str | Ref, ...]
"""Literal texts and references, which follow each other."""

Resolve = Callable[[tuple[str, ...]], Text]
"""Returns the value of a path such as `("item", "name")`. Raises UnsupportedExpression."""

_INNERMOST = re.compile(r"\"(?:\\.|[^\"\\])*\"|\([^()]*\)|\[[^\[\]]*\]|\{[^{}]*\}")


def without_brackets(cel: str) -> str:
    """Return CEL without its texts and what stands in brackets."""
    while (shorter := _INNERMOST.sub("", cel)) != cel:
        cel = shorter
    return cel


def quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\\/", "/")


def literal(text: Text) -> str | None:
    """Return the text if it has no reference, or None."""
    return None if any(isinstance(part, Ref) for part in text) else "".join(map(str, text))


def single(text: Text) -> Ref | None:
    """Return the only part of the text if it is a reference."""
    return text[0] if len(text) == 1 and isinstance(text[0], Ref) else None


def join(*texts: Text) -> Text:
    """Return the texts as one, without empty parts."""
    parts: list[str | Ref] = []
    for part in (part for text in texts for part in text if part != ""):
        if parts and isinstance(part, str) and isinstance(parts[-1], str):
            parts[-1] += part
        else:
            parts.append(part)
    return tuple(parts)


def as_ref(text: Text) -> Ref:
    """Return the text as one CEL value."""
    if (ref := single(text)) is not None:
        return ref
    if (plain := literal(text)) is not None:
        return Ref(quote(plain), kind=Kind.TEXT)
    parts = [quote(part) if isinstance(part, str) else as_text(part) for part in text]
    hint = next(part.hint for part in text if isinstance(part, Ref))
    return Ref(" + ".join(parts), kind=Kind.TEXT, hint=hint)


def as_text(ref: Ref) -> str:
    """Return CEL of the value as a text."""
    if ref.kind is Kind.TEXT:
        return ref.cel if " " not in without_brackets(ref.cel) else f"({ref.cel})"
    return f"string({ref.cel})"


def as_json(text: Text) -> str:
    """Return CEL of the list or map that the text has as JSON."""
    ref = as_ref(text)
    return ref.cel if ref.kind is Kind.LIST else f"json({ref.cel})"


def whole(text: str) -> int | None:
    """Return the number of a text of at most nine digits, or None for any other text."""
    return int(text) if re.fullmatch(r"\s*[0-9]{1,9}\s*", text) else None


def json_of(text: str) -> Any:
    """Return the value of a JSON text; None if it is none, or nested deeper than a flow can be."""
    if is_deeper(text.encode(errors="replace"), MAX_DEPTH):
        return None
    try:
        return json.loads(text)
    except ValueError:
        return None


def member(name: str) -> str:
    """Return `.name`, or `["name"]` if CEL needs that."""
    plain = re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) and name not in RESERVED
    return f".{name}" if plain else f"[{quote(name)}]"
