"""Rules of reasons in expressions: unknown reasons are refused."""

from dataclasses import replace
from typing import Any

import pytest

from jobflow.api.flow.traits import WorkKind
from jobflow.core.cel.expression import Expression, parse_cached
from jobflow.core.cel.language.tree import Comparison
from jobflow.core.reasons import OF_ATTEMPTS, StepReason
from jobflow.core.text import join_names
from jobflow.core.work import WORK
from support.admission.reviewed import faults, flow_of

KNOWN = f"the reasons are {join_names(OF_ATTEMPTS, shown=len(OF_ATTEMPTS))}"
NOT_A_REASON = f"is not a reason of a failed attempt; {KNOWN}"


def retrying(when: str) -> list[str]:
    return faults(flow_of({"name": "a", "retry": {"limit": 1, "when": when}}))


def compared(text: str) -> list[Comparison]:
    expression = parse_cached(text)
    assert isinstance(expression, Expression)
    return list(expression.comparisons())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('reason == "A"', ["A"]),
        ("reason != 'A' && phase == \"B\"", ["A"]),
        ('"A" == reason || "B" != reason', ["A", "B"]),
        ('!(reason in ["A", "B"])', ["A", "B"]),
        ('(reason == "A") ? true : reason == ""', ["A", ""]),
        ('reason == r"rabbit"', ["rabbit"]),
        ('reason == """A"""', ["A"]),
        ('reason.startsWith("A")', []),
        ('reason + "x" == "A"', []),
        ('reason == "A" + "B"', []),
        ('outputs.reason == "A" && item.reason == "B"', []),
        ('["A"].exists(reason, reason == "A")', []),
        ('outputs.text == "reason == \\"A\\""', []),
        ('outputs.text == "reason" || reason == outputs.text', []),
        ('outputs.text == r"\\" && reason == "A"', ["A"]),
        ("outputs.text == '\\'' || reason == 'A'", ["A"]),
        ('// reason == "A"\nreason == "B"', ["B"]),
        ('reason == "\\u0041"', ["A"]),
        ('(reason) == ("A")', ["A"]),
        ('("a" + reason) == "x"', []),
        ('reason in ["A", outputs.b, "C" + "D"] || "E" in reason', ["A"]),
        ('reason in outputs.list || reason < "A"', []),
    ],
)
def test_texts_compared_with_a_reason_are_found(text: str, words: list[str]) -> None:
    found = [each for each in compared(text) if each.path == ("reason",) and not each.bound]
    assert [each.text for each in found] == words
    assert all(text[each.at :].lstrip("r").startswith(('"', "'")) for each in found)


@pytest.mark.parametrize("step", ["steps.a", 'steps["a"]', "(steps.a)"])
def test_the_reason_of_a_step_is_recognized(step: str) -> None:
    found = [*compared(f'{step}.reason == "A"'), *compared(f'"A" != {step}["reason"]')]
    assert [each.path for each in found] == [("steps", "a", "reason")] * 2


@pytest.mark.parametrize("reason", ["", *OF_ATTEMPTS])
def test_a_reason_of_an_attempt_is_admitted(reason: str) -> None:
    assert retrying(f'reason == "{reason}"') == []


def test_a_reason_of_another_kind_of_work_is_admitted_there_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    of_flows = replace(WORK[WorkKind.FLOW], fails=(StepReason.REJECTED,))
    monkeypatch.setitem(WORK, WorkKind.FLOW, of_flows)  # type: ignore[arg-type]
    retry = {"limit": 1, "when": 'reason == "Rejected"'}
    assert faults(flow_of({"name": "a", "flow": {"flows": [{"name": "b"}]}, "retry": retry})) == []
    (fault,) = retrying(retry["when"])
    assert fault.endswith(f'"Rejected" {NOT_A_REASON}')


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('reason == "jobfailed"', 'did you mean "JobFailed"?'),
        ('reason in ["JobFailed", "Evicted"]', f'"Evicted" {NOT_A_REASON}'),
        ('reason == "Cancelled"', f'"Cancelled" {NOT_A_REASON}'),
    ],
)
def test_an_unknown_reason_is_refused(text: str, words: str) -> None:
    (fault,) = retrying(text)
    assert fault.endswith(words)


def when(text: str) -> list[str]:
    b: dict[str, Any] = {"name": "b", "dependsOn": {"targets": ["a"]}, "when": text}
    return faults(flow_of("a", b))


def test_a_step_may_have_every_reason_of_a_status() -> None:
    assert when('steps["a"].reason == "OutputsMissing" || steps.a.reason == ""') == []
    (fault,) = when('steps["a"].reason == "UntilNotReach"')
    assert fault.endswith('is not a reason of a step; did you mean "UntilNotReached"?')
    (fault,) = when('steps["a"].reason == "OOMKilled"')
    assert fault.endswith(
        "is not a reason of a step; docs/reference.md lists the reasons under Status"
    )


def test_a_repeated_run_may_have_every_reason_of_a_status() -> None:
    def repeating(until: str) -> list[str]:
        return faults(flow_of({"name": "a", "repeat": {"max": 2, "until": until}}))

    assert repeating('reason == "OutputsMissing"') == []
    (fault,) = repeating('reason == "Error"')
    assert '"Error" is not a reason of a run' in fault
