"""Lines of logs as text. Logs are untrusted: a line cannot move the cursor or change colours."""

from __future__ import annotations

import re

from jobflow.core.text import printable

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")


def clean(line: bytes) -> str:
    """Return a line as text without control sequences; tabs stay."""
    text = line.decode(errors="replace")
    if text.isprintable():
        return text
    return "\t".join(map(without_escapes, text.rstrip("\r").split("\t")))


def without_escapes(line: str) -> str:
    """Return the text that a terminal would show at the end, without colours, so that a log cannot
    move the cursor."""
    text = next(filter(None, reversed(line.split("\r"))), "")
    return printable(_ESCAPES.sub("", text).expandtabs(8))
