"""Rules of expressions and references: syntax, names, types of values, and compared reasons."""

import re
from collections.abc import Callable, Iterator
from typing import Any

from jobflow.api.flow.traits import Referring, Stage, find_set
from jobflow.core.admission.analysis.child_flows import MAX_PARAM_VALUES
from jobflow.core.admission.analysis.flow_expressions import MAX_CHARACTERS, TrialEvaluation
from jobflow.core.admission.analysis.flow_facts import FlowFacts
from jobflow.core.admission.analysis.places import NO_STEP, ExpressionPlace
from jobflow.core.admission.analysis.tree_budget import MAX_REFERENCED
from jobflow.core.admission.rule import RuleGroup, Rules
from jobflow.core.cel.expression import ExpressionFault, parse_expression
from jobflow.core.cel.language.tree import Comparison
from jobflow.core.cel.references import find_references
from jobflow.core.reasons import OF_ATTEMPTS, StepReason
from jobflow.core.suggest import Suggester, did_you_mean
from jobflow.core.violations import Reason, Violation, quote
from jobflow.core.work import works_of

_NUMBERED = re.compile(r"\bsteps\.(\d[-\w]*)")
_OPERATORS = {
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
_ENDING = re.compile(r"(?P<sign><>|===)$|\b(?P<word>not)\s+.$", re.IGNORECASE)
_IF = re.compile(r"if\b", re.IGNORECASE)
REASONS_OF_STEPS = ("", *StepReason)


def expressions_are_few(facts: FlowFacts) -> Iterator[Violation]:
    # the controller parses them on the thread that runs the flows
    if (characters := facts.expressions.characters) > MAX_CHARACTERS:
        detail = (
            f"its expressions have {characters:,} characters together; at most "
            f"{MAX_CHARACTERS:,} are allowed"
        )
        yield Violation("spec", Reason.TOO_LONG, None, detail)


def expressions_parse(facts: FlowFacts) -> Iterator[Violation]:
    for each in facts.expressions.written:
        found = parse_expression(each.text)
        if isinstance(found, ExpressionFault):
            at = "" if found.at is None else _at(each.text, found.at)
            detail = at + found.message + _hint(each.text, found.at)
            yield Violation(each.path, Reason.INVALID, each.text, detail)


def names_in_expressions_exist(facts: FlowFacts) -> Iterator[Violation]:
    """Checks variables, params, upstream steps, fields of a step, and functions."""
    for each, _, faults in facts.expressions.parsed:
        for fault in faults:
            detail = _at(each.text, fault.at) + fault.detail
            yield Violation(each.path, Reason.INVALID, each.text, detail)


def values_have_the_right_type(facts: FlowFacts) -> Iterator[Violation]:
    # the value is true or false, for forEach.from a list, if that is known before the run
    trial = TrialEvaluation(facts.flow, facts.budget, facts.level)
    for each, parsed, faults in facts.expressions.parsed:
        if not faults and not each.place.is_of_flow:  # an output has any type
            step = facts.steps[each.place.position]
            if (fault := trial.fault(step, each.result, parsed)) is not None:
                yield Violation(each.path, Reason.INVALID, each.text, fault)


def names_in_references_exist(facts: FlowFacts) -> Iterator[Violation]:
    """Checks the references in patches, in params of child flows, and in texts."""
    scope = facts.expressions.scope
    written: list[tuple[ExpressionPlace, Any, str, Callable[[str], str]]] = [
        (each.place, each.written, each.path, each.written_path) for each in facts.references
    ]
    for i, step in facts.steps_with_options:
        for found in find_set(step, Referring):
            # the others are parts of jobs and of child flows, or are read before anything runs
            if not found.trait.below and found.trait.stage is not Stage.FLOW_START:
                path = f"{facts.path(i)}.{found.path}"
                written.append((ExpressionPlace(i, found.trait.stage), found.value, path, str))
    for place, value, value_path, written_path in written:
        for path, reference in find_references(value, value_path):
            detail = scope.reference_fault(place, reference.root, reference.keys)
            detail = detail or facts.reference_trial.fault(place.position, reference)
            if detail is not None:
                at = written_path(path)
                yield Violation(at, Reason.INVALID, f"$({reference.path})", detail)


def references_are_small(facts: FlowFacts) -> Iterator[Violation]:
    # each reference to a value is a copy of it
    for child in facts.children:
        if child.params is not None and child.params.large:
            detail = (
                f"the values of its references have more than {MAX_PARAM_VALUES:,} bytes; put "
                "large values into a ConfigMap or a volume"
            )
            yield Violation(child.params.path, Reason.TOO_LONG, None, detail)
    for layer in facts.resolved_layers:
        if layer.large:
            detail = (
                "the values of its references, and of those before it in the flow, have more "
                f"than {MAX_REFERENCED:,} bytes; put large values into a ConfigMap or a volume"
            )
            at = layer.written_path(layer.path)
            yield Violation(at, Reason.TOO_LONG, None, detail)
            return  # there is no room for the others either


def faults_before_start(
    facts: FlowFacts, written: Any, path: str, detail: str
) -> Iterator[Violation]:
    """Yield the faults of references that are read before anything runs. `detail`: why others than
    params and flow have no value."""
    for at, reference in find_references(written, path):
        fault: str | None = detail
        if reference.keys[:1] == ("claims",) and reference.root == "flow":
            fault = "the names of volume claims are not known before the flow starts"
        elif reference.root in ("params", "flow"):
            scope = facts.expressions.scope
            fault = scope.reference_fault(NO_STEP, reference.root, reference.keys)
        if fault is not None:
            yield Violation(at, Reason.INVALID, f"$({reference.path})", fault)


def _at(text: str, at: int) -> str:
    return f"character {min(at, len(text)) + 1}: "


def _hint(text: str, at: int | None) -> str:
    if (found := _NUMBERED.search(text)) is not None:
        return f'; write steps["{found[1]}"]'
    if "{{" in text or "${" in text:
        return '; write params.x and steps["x"].outputs.y without {{…}}'
    if at is None:
        return ""
    if text.startswith("$(", at):
        return "; references $(…) are for patches, in an expression write params.x"
    if text[at : at + 1] in ('"', "'"):
        return "; close the quote"
    if _IF.match(text, at):
        return "; write condition ? one : other"
    sign = ""
    if (before := _ENDING.search(text, 0, at + 1)) is not None:
        sign = before["sign"] or before["word"]
    elif (foreign := _FOREIGN.match(text, at)) is not None:
        sign = foreign.group()
    return f"; write {_OPERATORS[sign.lower()]} for {sign}" if sign else ""


def compared_reasons_exist(facts: FlowFacts) -> Iterator[Violation]:
    # a comparison with a word that is no reason has the same result for every run
    for each, parsed, _ in facts.expressions.parsed:
        of_attempt = each.place.stage is Stage.ATTEMPT_END
        for found in parsed.comparisons() if "reason" in each.text else ():
            known: tuple[str, ...] = REASONS_OF_STEPS
            match found:
                case Comparison(path=("reason",), bound=False):
                    owner = "a failed attempt" if of_attempt else "a run"
                    if of_attempt:
                        works = works_of(facts.steps[each.place.position])
                        known = ("", *OF_ATTEMPTS, *(own for work in works for own in work.fails))
                case Comparison(path=("steps", _, "reason"), bound=False):
                    owner = "a step"
                case _:
                    continue
            if found.text in known:
                continue
            detail = f"character {found.at + 1}: {quote(found.text)} is not a reason of {owner}"
            if guess := Suggester(known).nearest(found.text):
                detail += did_you_mean(guess)
            elif known is not REASONS_OF_STEPS:
                detail += f"; the reasons are {', '.join(known[1:-1])} and {known[-1]}"
            else:
                detail += "; docs/reference.md lists the reasons under Status"
            yield Violation(each.path, Reason.INVALID, each.text, detail)


RULES: Rules = (
    RuleGroup(
        lambda facts: facts.written_expressions,
        (
            expressions_are_few,
            expressions_parse,
            names_in_expressions_exist,
            values_have_the_right_type,
            compared_reasons_exist,
        ),
    ),
    RuleGroup(
        lambda facts: facts.steps_with_options, (names_in_references_exist, references_are_small)
    ),
)
