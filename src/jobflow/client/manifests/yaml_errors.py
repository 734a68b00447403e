"""Errors of texts that are not YAML, in sentences that say how to mend them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import yaml


@dataclass(frozen=True, slots=True)
class Span:
    """A place in a text: line and column from 1, and a number of characters."""

    line: int
    column: int
    width: int = 1

    def __deepcopy__(self, memo: object) -> Span:
        return self  # it never changes, and a manifest has one for each value


class NotYAMLError(Exception):
    """A document that cannot be read; `message` is without the place."""

    def __init__(self, span: Span, message: str) -> None:
        super().__init__(message)
        self.span = span
        self.message = message


_INVALID = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\x80-\x84\x86-\x9f\ud800-\udfff\ufeff\ufffe\uffff]"
)


def invalid_character(text: str, line_break: re.Pattern[str]) -> NotYAMLError | None:
    """Return the error about the first character that YAML does not allow, if there is one."""
    found = _INVALID.search(text)
    if found is None:
        return None
    before = line_break.split(text[: found.start()])
    span = Span(len(before), len(before[-1]) + 1)
    if found[0] == "\0":
        return NotYAMLError(span, "contains a NUL character; save the file as UTF-8 text")
    return NotYAMLError(span, f"control character U+{ord(found[0]):04X} is not allowed in YAML")


_SENTENCES: Sequence[tuple[str, str]] = (
    ("cannot start any token", "no value begins with {character}; put it in quotes"),
    ("unexpected end of stream", "the quote opened at {opened} is never closed"),
    (
        "mapping values are not allowed",
        "a second `key: value` where one value ends; put a text with `: ` in quotes, or check the "
        "indentation",
    ),
    ("expected ',' or ']'", "the list opened at {opened} needs a comma or a closing ] here"),
    ("expected ',' or '}'", "the mapping opened at {opened} needs a comma or a closing }} here"),
    ("flow node|expected node content", "a value is expected here; is a [ or {{ not closed?"),
    ("after a quote.*expected key", "text after a quoted value; quote all of it"),
    ("expected key", "this does not continue the mapping begun at {opened}; check the indentation"),
    (
        "expected '-' indicator",
        "this does not continue the list begun at {opened}; check the indentation",
    ),
    ("could not find expected ':'", "the key at {opened} has no `:` after it"),
    (
        "<document start>",
        "more text after the end of a document; put --- on a line between documents",
    ),
    (
        "unknown escape character",
        "\\{escaped} is no escape inside double quotes; use single quotes, or \\\\ for a backslash",
    ),
    ("block scalar", "after | or > the text begins on the next line"),
)
"""Pattern of libyaml's problem and context, and our sentence."""


def from_libyaml(
    error: yaml.MarkedYAMLError, first_line: int, lines: Sequence[str]
) -> NotYAMLError:
    """Return libyaml's error about a document that begins on `first_line` (from 0)."""
    mark = error.problem_mark or error.context_mark
    # libyaml names the end of the file, where nothing is to be mended
    if "unexpected end of stream" in (error.problem or ""):
        mark = error.context_mark or mark
    line, column = (mark.line, mark.column) if mark else (0, 0)
    if column == 0 and not any(lines[line:]):
        line = max((n for n, text in enumerate(lines) if text.strip()), default=0)
        column = max(len(lines[line].rstrip()) - 1, 0) if lines else 0
    text = lines[line] if line < len(lines) else ""
    span = Span(first_line + line + 1, column + 1)
    return NotYAMLError(span, f"not YAML: {_sentence(error, first_line, text, column)}")


def _sentence(error: yaml.MarkedYAMLError, first_line: int, line: str, column: int) -> str:
    indent = line[: len(line) - len(line.lstrip())]
    # libyaml says only that it cannot start any token
    if "\t" in indent and column <= len(indent):
        return "a tab in the indentation; YAML indents with spaces only"
    mark = error.context_mark
    opened = f"line {first_line + mark.line + 1}, column {mark.column + 1}" if mark else ""
    quote = "after a quote: " if line[:column].rstrip().endswith(("'", '"')) else ""
    problem = error.problem or ""
    # the first one that fits: later ones are more general
    for pattern, sentence in _SENTENCES:
        if re.search(pattern, f"{quote}{problem}; {error.context or ''}"):
            return sentence.format(
                opened=opened,
                character=line[column : column + 1],
                escaped=line[column + 1 : column + 2],
            )
    return problem
