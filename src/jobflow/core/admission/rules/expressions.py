"""The rules of expressions and references: they can be read, name what there is at their place,
and give what their field asks for.

A fault of an expression is told with the character at which it stands, counted from 1.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from jobflow.core.admission.analysis.flow_facts import FlowFacts
from jobflow.core.admission.analysis.read_expressions import MAX_CHARACTERS
from jobflow.core.admission.analysis.resolved_specs import MAX_OF_ALL
from jobflow.core.admission.analysis.trial_evaluation import Items, Samples, mention_of
from jobflow.core.admission.analysis.visible_names import Place
from jobflow.core.admission.rule import Group, Rule
from jobflow.core.cel.expression import ExpressionFault, parse_expression
from jobflow.core.cel.references import find_references
from jobflow.core.cel.variables import Comparison
from jobflow.core.reasons import StepReason
from jobflow.core.suggest import Suggester, did_you_mean
from jobflow.core.violations import Reason, Violation, quote

_NUMBERED = re.compile(r"\bsteps\.(\d[-\w]*)")
_SIGNS = {
    "=": "==",
    "===": "==",
    "is": "==",
    "and": "&&",
    "&": "&&",
    "or": "||",
    "|": "||",
    "not": "!",
    "<>": "!=",
}
_FOREIGN = re.compile(r"[=&|]|(?:and|or|not|is)\b", re.IGNORECASE)
"""Signs of other languages."""
_ENDING = re.compile(r"(?P<sign><>|===)$|\b(?P<word>not)\s+.$", re.IGNORECASE)
_IF = re.compile(r"if\b", re.IGNORECASE)


def expressions_are_few(facts: FlowFacts) -> Iterator[Violation]:
    """Each is parsed on the thread that carries flows out."""
    if (characters := facts.readings.characters) > MAX_CHARACTERS:
        detail = (
            f"its expressions have {characters:,} characters together; at most "
            f"{MAX_CHARACTERS:,} are allowed"
        )
        yield Violation("spec", Reason.TOO_LONG, None, detail)


def expressions_can_be_read(facts: FlowFacts) -> Iterator[Violation]:
    for each in facts.readings.written:
        found = parse_expression(each.text)
        if isinstance(found, ExpressionFault):
            at = "" if found.at is None else _at(each.text, found.at)
            detail = at + found.message + _hint(each.text, found.at)
            yield Violation(each.path, Reason.INVALID, each.text, detail)


def expressions_name_what_there_is(facts: FlowFacts) -> Iterator[Violation]:
    """Variables, params, steps that are upstream, what there is of a step, and functions."""
    for each, _, wrong in facts.readings.read:
        for name in wrong:
            detail = _at(each.text, name.at) + name.detail
            yield Violation(each.path, Reason.INVALID, each.text, detail)


def expressions_give_what_is_asked(facts: FlowFacts) -> Iterator[Violation]:
    """True or false, or of forEach.from a list; as far as that can be known before it runs."""
    samples = Samples(facts.flow)
    for each, found, wrong in facts.readings.read:
        if not wrong:
            step = facts.steps[each.place.position]
            if (fault := samples.fault(step, each.place.field, found)) is not None:
                yield Violation(each.path, Reason.INVALID, each.text, fault)


def references_name_what_there_is(facts: FlowFacts) -> Iterator[Violation]:
    """References in patches, as far as their values are known before it runs."""
    if not facts.changes:
        return
    readings = facts.readings
    found = [
        (Place(change.step, "patch"), path, reference)
        for change in facts.changes
        for path, reference in find_references(change.written, change.path)
    ]
    readings.ask((place, [mention_of(reference)]) for place, _, reference in found)
    items = Items(facts)
    for place, path, reference in found:
        detail = readings.visible.reference_fault(place, reference.root, reference.keys)
        if detail is None:
            detail = items.fault(place.position, reference)
        if detail is not None:
            yield Violation(path, Reason.INVALID, f"$({reference.path})", detail)


def references_are_small(facts: FlowFacts) -> Iterator[Violation]:
    """A value is written out as often as it is referred to."""
    for change in facts.changes:
        if change.large:
            detail = (
                "its references, and those of the patches before it, stand for more than "
                f"{MAX_OF_ALL:,} bytes; put what is large into a ConfigMap or a volume"
            )
            yield Violation(change.path, Reason.TOO_LONG, None, detail)
            return  # the others have no room either


def _at(text: str, at: int) -> str:
    return f"character {min(at, len(text)) + 1}: "


def _hint(text: str, at: int | None) -> str:
    """What other languages have instead."""
    if (found := _NUMBERED.search(text)) is not None:
        return f'; write steps["{found[1]}"]'
    if "{{" in text or "${" in text:
        return '; an expression has no {{…}}, it writes params.x and steps["x"].outputs.y'
    if at is None:
        return ""
    if text.startswith("$(", at):
        return "; references $(…) stand in patches, an expression writes params.x"
    if text[at : at + 1] in ('"', "'"):
        return "; close the quote"
    if _IF.match(text, at):
        return "; write condition ? one : other"
    return _other_sign(text, at)


def _other_sign(text: str, at: int) -> str:
    """The sign of another language that ends there, or stands there."""
    sign = ""
    if (before := _ENDING.search(text, 0, at + 1)) is not None:
        sign = before["sign"] or before["word"]
    elif (found := _FOREIGN.match(text, at)) is not None:
        sign = found.group()
    return f"; write {_SIGNS[sign.lower()]} for {sign}" if sign else ""


EXPRESSION_RULES = (
    Group[Rule](
        lambda facts: facts.steps_with_expressions,
        (
            expressions_are_few,
            expressions_can_be_read,
            expressions_name_what_there_is,
            expressions_give_what_is_asked,
        ),
    ),
    Group[Rule](
        lambda facts: facts.changes,
        (
            references_name_what_there_is,
            references_are_small,
        ),
    ),
)


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


class _Owner(NamedTuple):
    """What has a reason, and the reasons that it may have."""

    name: str
    reasons: tuple[str, ...]


_ATTEMPT = _Owner("a failed attempt", OF_FAILED_ATTEMPTS)
_RUN = _Owner("a run", OF_STEPS)
_STEP = _Owner("a step", OF_STEPS)


def reasons_are_there(facts: FlowFacts) -> Iterator[Violation]:
    """A comparison with any other word is the same for every attempt."""
    for each, read, _ in facts.readings.read:
        run = _ATTEMPT if each.place.field == "retry.when" else _RUN
        if "reason" in each.text:
            for found in read.comparisons():
                owner = _owner(found, run)
                if owner is not None and found.text not in owner.reasons:
                    yield Violation(each.path, Reason.INVALID, each.text, _detail(found, owner))


REASON_RULES = (Group[Rule](lambda facts: facts.steps_with_expressions, (reasons_are_there,)),)


def _owner(found: Comparison, run: _Owner) -> _Owner | None:
    """Return whose reason is compared: `reason` is that of the run, `steps["x"].reason` that of a
    step. None if it is no reason."""
    match found:
        case Comparison(path=("reason",), bound=False):
            return run
        case Comparison(path=("steps", _, "reason"), bound=False):
            return _STEP
    return None


def _detail(found: Comparison, owner: _Owner) -> str:
    detail = f"character {found.at + 1}: {quote(found.text)} is not a reason of {owner.name}"
    if guess := Suggester(owner.reasons).nearest(found.text):
        return detail + did_you_mean(guess)
    if owner is not _ATTEMPT:
        return f"{detail}; docs/reference.md lists the reasons under Status"
    _, *others, last = owner.reasons
    return f"{detail}; the reasons are {', '.join(others)} and {last}"
