"""What is wrong with a text that is not YAML, in one sentence a user can act on."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import yaml


@dataclass(frozen=True, slots=True)
class Span:
    """A place in a text: line and column counted from 1, and how many characters it covers."""

    line: int
    column: int
    width: int = 1


class NotYAMLError(Exception):
    """A document cannot be read; `message` says why, without the place."""

    def __init__(self, span: Span, message: str) -> None:
        super().__init__(message)
        self.span = span
        self.message = message


_INVALID = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\x80-\x84\x86-\x9f\ud800-\udfff\ufeff\ufffe\uffff]"
)


def invalid_character(text: str, line_break: re.Pattern[str]) -> NotYAMLError | None:
    """The first character that no YAML text may hold, if any."""
    found = _INVALID.search(text)
    if found is None:
        return None
    before = line_break.split(text[: found.start()])
    span = Span(len(before), len(before[-1]) + 1)
    if found[0] == "\0":
        return NotYAMLError(span, "not text: it holds a NUL character, as binary files do")
    return NotYAMLError(span, f"control character U+{ord(found[0]):04X} is not allowed in YAML")


def translated(error: yaml.MarkedYAMLError, first_line: int, lines: Sequence[str]) -> NotYAMLError:
    """libyaml's complaint about a document that begins on `first_line` (from 0)."""
    line, column = _place(error, lines)
    said = _Complaint(
        problem=error.problem or "",
        context=error.context or "",
        opened=_position(error.context_mark, first_line),
        line=lines[line] if line < len(lines) else "",
        column=column,
    )
    return NotYAMLError(Span(first_line + line + 1, column + 1), f"not YAML: {said.sentence()}")


def _place(error: yaml.MarkedYAMLError, lines: Sequence[str]) -> tuple[int, int]:
    """Line and column, from 0: what was opened and never closed, not where the text ran out."""
    mark = error.problem_mark or error.context_mark
    if "unexpected end of stream" in (error.problem or ""):
        mark = error.context_mark or mark
    line, column = (mark.line, mark.column) if mark else (0, 0)
    if column == 0 and not any(lines[line:]):
        line = max((n for n, text in enumerate(lines) if text.strip()), default=0)
        column = max(len(lines[line].rstrip()) - 1, 0) if lines else 0
    return line, column


def _position(mark: yaml.Mark | None, first_line: int) -> str:
    return f"line {first_line + mark.line + 1}, column {mark.column + 1}" if mark else ""


@dataclass(frozen=True, slots=True)
class _Complaint:
    problem: str
    context: str
    opened: str
    line: str
    column: int

    def sentence(self) -> str:
        for test, sentence in _SENTENCES:
            if test(self):
                return sentence(self)
        return self.problem

    @property
    def character(self) -> str:
        return self.line[self.column : self.column + 1]

    @property
    def follows_quote(self) -> bool:
        return self.line[: self.column].rstrip().endswith(("'", '"'))

    @property
    def indented_by_tab(self) -> bool:
        indent = self.line[: len(self.line) - len(self.line.lstrip())]
        return "\t" in indent and self.column <= len(indent)


_Row = tuple[Callable[[_Complaint], bool], Callable[[_Complaint], str]]
_SENTENCES: tuple[_Row, ...] = (
    (
        lambda said: said.indented_by_tab,
        lambda said: "a tab in the indentation; YAML indents with spaces only",
    ),
    (
        lambda said: "cannot start any token" in said.problem,
        lambda said: f"no value begins with {said.character}; put it in quotes",
    ),
    (
        lambda said: "unexpected end of stream" in said.problem,
        lambda said: f"the quote opened at {said.opened} is never closed",
    ),
    (
        lambda said: "mapping values are not allowed" in said.problem,
        lambda said: (
            "a second `key: value` where one value ends; put a text with `: ` in quotes, "
            "or check the indentation"
        ),
    ),
    (
        lambda said: "expected ',' or ']'" in said.problem,
        lambda said: f"the list opened at {said.opened} needs a comma or a closing ] here",
    ),
    (
        lambda said: "expected ',' or '}'" in said.problem,
        lambda said: f"the mapping opened at {said.opened} needs a comma or a closing }} here",
    ),
    (
        lambda said: "flow node" in said.context or "expected node content" in said.problem,
        lambda said: "a value is expected here; is a [ or { not closed?",
    ),
    (
        lambda said: "expected key" in said.problem and said.follows_quote,
        lambda said: "text after a quoted value; quote the whole of it",
    ),
    (
        lambda said: "expected key" in said.problem,
        lambda said: (
            f"this does not go on the mapping begun at {said.opened}; check the indentation"
        ),
    ),
    (
        lambda said: "expected '-' indicator" in said.problem,
        lambda said: f"this does not go on the list begun at {said.opened}; check the indentation",
    ),
    (
        lambda said: "could not find expected ':'" in said.problem,
        lambda said: f"the key at {said.opened} has no `:` after it",
    ),
    (
        lambda said: "<document start>" in said.problem,
        lambda said: "more text after the end of a document; put --- on a line between documents",
    ),
    (
        lambda said: "unknown escape character" in said.problem,
        lambda said: (
            f"\\{said.line[said.column + 1 : said.column + 2]} is no escape inside double "
            "quotes; use single quotes, or \\\\ for a backslash"
        ),
    ),
    (
        lambda said: "block scalar" in said.context,
        lambda said: "after | or > the text begins on the next line",
    ),
)
