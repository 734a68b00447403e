"""Python source, formatted as `ruff format` leaves it: on one line if it fits, else an item a line
with a comma after the last one."""

from __future__ import annotations

import keyword
import re
from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len

WIDTH = 88
"""Columns of a line, which is the default of ruff and black."""
_INDENT = "    "


@dataclass(frozen=True, slots=True)
class Call:
    """A call; arguments without a name are positional."""

    function: str
    arguments: Sequence[tuple[str, Code]]


@dataclass(frozen=True, slots=True)
class Name:
    """A variable, or other source that is written as it is."""

    text: str


Code = Call | Name | list["Code"] | dict[str, "Code"] | str | int | float | bool | None
"""An expression: a name, a call, or a value of JSON."""


def write(code: Code, *, before: str = "", after: str = "", depth: int = 0) -> str:
    """Return the source of an expression, with texts before and after it on its lines. `depth`:
    the indentation of its first line."""
    flat = before + _flat(code) + after
    if cell_len(flat) + len(_INDENT) * depth <= WIDTH:
        return flat
    opening, parts, closing = _parts(code)
    if not parts:  # a long text stays on its line
        return flat
    inner = _INDENT * (depth + 1)
    lines = (
        inner + write(each, before=name, after=",", depth=depth + 1) + "\n" for name, each in parts
    )
    return f"{before}{opening}\n{''.join(lines)}{_INDENT * depth}{closing}{after}"


def _parts(code: Code) -> tuple[str, Sequence[tuple[str, Code]], str]:
    """Return brackets, and what is between them: each with the text before it."""
    match code:
        case Call():
            named = [(f"{name}=" if name else "", each) for name, each in code.arguments]
            return f"{code.function}(", named, ")"
        case list():
            return "[", [("", each) for each in code], "]"
        case dict():
            return "{", [(f"{write_text(key)}: ", each) for key, each in code.items()], "}"
    return "", [], ""


def _flat(code: Code) -> str:
    if isinstance(code, Name):
        return code.text
    if isinstance(code, str):
        return write_text(code)
    if isinstance(code, Call | list | dict):
        opening, parts, closing = _parts(code)
        return opening + ", ".join(name + _flat(each) for name, each in parts) + closing
    return repr(code)


def write_text(text: str) -> str:
    """Return a literal of a text on one line, in the quotes that need fewer escapes."""
    quote = literal = "'" if text.count('"') > text.count("'") else '"'
    for char in text:
        if char in (quote, "\\"):
            literal += f"\\{char}"
        else:
            literal += char if char.isprintable() else repr(char)[1:-1]
    return literal + quote


def write_lines(text: str) -> str | None:
    """Return a literal of a text over several lines, in three quotes, or None if it has characters
    that editors change."""
    if any(not char.isprintable() and char not in "\n\t" for char in text):
        return None
    # a raw text keeps the escapes of a script readable
    if "\\" in text and '"""' not in text and not text.endswith(('"', "\\")):
        return f'r"""{text}"""'
    escaped = text.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    # or the quote would be one of the three
    if escaped.endswith('"'):
        escaped = escaped[:-1] + '\\"'
    return f'"""\\\n{escaped}"""'


class Names:
    def __init__(self, taken: Sequence[str]) -> None:
        self._taken = set(taken)

    def make(self, wanted: str) -> str:
        """Return a name like `wanted` that nothing has yet."""
        base = re.sub(r"\W+", "_", wanted, flags=re.ASCII).strip("_") or "value"
        base = f"_{base}" if base[0].isdigit() else base
        base = f"{base}_" if keyword.iskeyword(base) else base
        number, name = 2, base
        while name in self._taken:
            number, name = number + 1, f"{base}_{number}"
        self._taken.add(name)
        return name
