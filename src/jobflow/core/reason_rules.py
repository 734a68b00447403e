"""Reasons that an expression compares with have to be reasons that come.

A reason is a word of ours (`reasons`). Those of pods and containers, such as OOMKilled, look like
them and never come. Comparisons are read from the text of an expression that has been parsed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from jobflow.core.outline import Outline
from jobflow.core.reasons import StepReason
from jobflow.core.rules import Group, Rule
from jobflow.core.suggest import Suggester, did_you_mean
from jobflow.core.violations import Reason, Violation, quoted

OF_FAILED_ATTEMPTS = (
    "",
    StepReason.JOB_FAILED,
    StepReason.JOB_TERMINATED,
    StepReason.JOB_ABORTED,
    StepReason.TIMEOUT,
    StepReason.OUTPUTS_TOO_LARGE,
)
"""Reasons of an attempt after which `retry` may follow (`retrying`)."""
OF_STEPS = ("", *StepReason)
_QUOTED = re.compile(r"[\"']([^\"']*)[\"']")
_TOKEN = re.compile(
    r"""//[^\n]*
    |(?P<text>(?:[bB]?[rR]|[rR][bB])(?:\"{3}.*?\"{3}|'{3}.*?'{3}|\"[^\"]*\"|'[^']*')
        |[bB]?(?:\"{3}(?:[^\\]|\\.)*?\"{3}|'{3}(?:[^\\]|\\.)*?'{3}
            |\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'))
    |(?P<name>[A-Za-z_]\w*)
    |(?P<sign>[=!]=|[^\s\w])""",
    re.VERBOSE | re.DOTALL,
)
"""Tokens of an expression, as far as comparisons need them (CEL's specification, Syntax)."""
_EQUALS = ("==", "!=")
_BINDS_STRONGER = frozenset(".[(+-*/%")
"""Signs beside an operand that make it part of something else."""


class Compared(NamedTuple):
    """A text that a reason is compared with."""

    at: int
    """Where it begins in the expression, in characters from 0."""
    word: str
    of_step: bool
    """Whether the reason is that of `steps["x"]`; else it is that of the run."""


class _Token(NamedTuple):
    kind: str
    text: str
    at: int


def reasons_are_there(outline: Outline) -> Iterator[Violation]:
    """A comparison with any other word is the same for every attempt."""
    for each, *_ in outline.readings.read:
        if "reason" not in each.text:
            continue
        retried = each.place.field == "retry.when"
        of_run = OF_FAILED_ATTEMPTS if retried else OF_STEPS
        if all(word in of_run for word in _QUOTED.findall(each.text)):
            continue  # the most frequent case, at a tenth of the time
        for found in compared_reasons(each.text):
            known = OF_STEPS if found.of_step else of_run
            if found.word not in known:
                run = "a failed attempt" if retried else "a run"
                whose = "a step" if found.of_step else run
                detail = _detail(found, whose, known)
                yield Violation(each.path, Reason.INVALID, each.text, detail)


REASON_RULES = (Group[Rule](lambda outline: outline.expressive, (reasons_are_there,)),)


def _detail(found: Compared, whose: str, known: Sequence[str]) -> str:
    detail = f"character {found.at + 1}: {quoted(found.word)} is not a reason of {whose}"
    if guess := Suggester(known).nearest(found.word):
        return detail + did_you_mean(guess)
    if known is OF_STEPS:
        return f"{detail}; docs/reference.md lists the reasons under Status"
    _, *others, last = known
    return f"{detail}; the reasons are {', '.join(others)} and {last}"


def compared_reasons(text: str) -> Iterator[Compared]:
    """Each text that an expression compares with the reason of its run, or of a step."""
    tokens = [
        _Token(found.lastgroup, found.group(), found.start())
        for found in _TOKEN.finditer(text)
        if found.lastgroup is not None
    ]
    words = [token.text for token in tokens]
    for i, word in enumerate(words):
        if word != "reason":
            continue
        if words[i - 1 : i] == ["("] and words[i + 1 : i + 2] == [","]:
            return  # the variable of a macro has this name
        start = _start(words, i)
        if start is not None and words[max(start - 1, 0)] not in _BINDS_STRONGER - {"(", "["}:
            for token in (*_behind(tokens, words, i), *_before(tokens, words, start, i)):
                if "\\" not in token.text:
                    yield Compared(token.at, token.text.lstrip("rR").strip("\"'"), start != i)


def _start(words: list[str], i: int) -> int | None:
    """Where the path begins that a reason ends: `reason`, `steps.x.reason` or
    `steps["x"].reason`; None: it is the reason of something else."""
    if words[i - 1 : i] != ["."]:
        return i
    for length in (4, 5):
        start = i - length
        if start >= 0 and words[start] == "steps" and words[start - 1 : start] != ["."]:
            sign = words[start + 1]
            if (sign, length) in ((".", 4), ("[", 5)):
                return start
    return None


def _behind(tokens: list[_Token], words: list[str], i: int) -> Iterator[_Token]:
    """The texts of `reason == "x"` and of `reason in ["x", "y"]`."""
    if words[i + 1 : i + 2] == ["in"] and words[i + 2 : i + 3] == ["["]:
        for token in tokens[i + 3 :]:
            if token.kind != "text" and token.text != ",":
                return
            if token.kind == "text":
                yield token
    elif words[i + 1 : i + 2] and words[i + 1] in _EQUALS and len(tokens) > i + 2:
        follows = words[i + 3] if len(words) > i + 3 else ""
        if tokens[i + 2].kind == "text" and follows not in _BINDS_STRONGER:
            yield tokens[i + 2]


def _before(tokens: list[_Token], words: list[str], start: int, i: int) -> Iterator[_Token]:
    """The text of `"x" == reason`."""
    follows = words[i + 1] if len(words) > i + 1 else ""
    if start >= 2 and words[start - 1] in _EQUALS and follows not in _BINDS_STRONGER:
        if tokens[start - 2].kind == "text" and words[start - 3 : start - 2] != ["+"]:
            yield tokens[start - 2]
