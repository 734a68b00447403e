"""Bounds of one verdict: at most a thousand violations, and suggestions of limited cost."""

import difflib
import itertools
from collections.abc import Callable
from typing import Any

import pytest

from jobflow.core.admission.analysis.jobs import layer_locations
from jobflow.core.admission.rule import Rule, RuleGroup, findings
from jobflow.core.admission.validate import (
    Known,
    validate_flow,
    validate_flow_update,
    validate_template,
)
from jobflow.core.manifests.crd_schema import schema_violations
from jobflow.core.suggest import Suggester
from jobflow.core.violations import MAX_FINDINGS, MAX_SHOWN, Reason, Verdict, Violation
from support.admission.reviewed import flow_of, knowing, template_of

MANY = 3 * MAX_FINDINGS


def _patched(patch: dict[str, Any], **spec: Any) -> Verdict:
    flow = flow_of({"name": "a", "patch": {"jobSpec": patch}}, **spec)
    return validate_flow(flow, knowing(template_of("a")))


def _changed_everywhere() -> Verdict:
    old, new = (
        flow_of(*({"name": f"s{i}", "template": name} for i in range(MANY))) for name in "ab"
    )
    return validate_flow_update(old, new)


VERDICTS: dict[str, Callable[[], Verdict]] = {
    "steps without names": lambda: validate_flow(flow_of(*({"name": ""},) * MANY), Known()),
    "tasks of a template": lambda: validate_template(template_of("t", *("T",) * MANY), Known()),
    "tasks of a patch": lambda: _patched({"tasks": [{}] * MANY}),
    "types in a patch": lambda: _patched({"tasks": [3] * MANY}),
    "plugins of jobDefaults": lambda: _patched(
        {}, jobDefaults={"plugins": {f"p{i}": [] for i in range(MANY)}}
    ),
    "an update of every step": _changed_everywhere,
}


@pytest.mark.parametrize("verdict", VERDICTS.values(), ids=VERDICTS.keys())
def test_no_verdict_has_more_than_a_thousand_violations(verdict: Callable[[], Verdict]) -> None:
    assert len(verdict().violations) == MAX_FINDINGS


def test_a_flow_that_breaks_a_limit_is_not_judged_by_other_rules() -> None:
    steps = ({"name": f"s{i}", "flow": {"flows": [{"name": "?"}]}} for i in range(3 * MANY))
    found = validate_flow(flow_of(*steps, concurrency={"group": ""}), Known())
    assert [each.path for each in found.violations] == ["spec.flows"] * 2
    assert [each.value for each in found.violations] == [3 * MANY] * 2
    assert not found.warnings


def test_rules_stop_after_a_thousand_violations() -> None:
    counter = itertools.count(1)
    last = 0

    def endless(facts: object) -> Any:
        nonlocal last
        while True:
            last = next(counter)
            yield Violation("spec", Reason.INVALID, last, "wrong")

    group = RuleGroup[Rule](lambda facts: True, (endless, endless))
    assert len(findings([group], None)) == MAX_FINDINGS  # type: ignore[arg-type]
    assert last == MAX_FINDINGS


def test_only_shown_faults_are_located(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_up = []
    locate = layer_locations.LayerLocations.locate
    monkeypatch.setattr(
        layer_locations.LayerLocations,
        "locate",
        lambda self, fault: looked_up.append(1) or locate(self, fault),
    )
    verdict = _patched({"tasks": [{"name": f"t{i}", "replicas": -1} for i in range(MANY)]})
    assert len(looked_up) <= 2 * MAX_SHOWN
    assert str(verdict.violations[MAX_SHOWN - 1]).startswith(
        f"spec.flows[0].patch.jobSpec.tasks[{MAX_SHOWN - 1}].replicas: "
    )
    assert str(verdict.violations[-1]).startswith("spec.flows[0].patch.jobSpec: ")
    assert verdict.violations[-1].detail.endswith(" in the merged spec)")


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize(
    "spec",
    [
        {"flows": [1] * MANY},
        {"flows": [{"name": 1, "template": 2, "dependsOn": 3}] * MANY},
        {"flows": [{"name": "a", "dependsOn": {"targets": [1] * MANY}}]},
        {"jobDefaults": {"labels": {f"a{i}": 1 for i in range(MANY)}}},
    ],
    ids=["items", "fields", "items of items", "values"],
)
def test_a_thousand_schema_violations_are_reported(spec: Any, strict: bool) -> None:
    found = schema_violations("JobFlow", {"spec": spec}, strict=strict)
    assert len(found) == MAX_FINDINGS
    assert len({violation.path for violation in found}) == MAX_FINDINGS


def test_a_thousand_unknown_fields_are_reported_in_order() -> None:
    spec = {f"x{i}": 1 for i in range(MANY)}
    found = schema_violations("JobFlow", {"spec": spec}, strict=True)
    assert [violation.path for violation in found] == [f"spec.x{i}" for i in range(MAX_FINDINGS)]


@pytest.mark.parametrize(("length", "most"), [(10, 900), (200, 5)])
def test_long_words_are_compared_with_fewer_candidates(
    length: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[str] = []
    monkeypatch.setattr(
        difflib, "get_close_matches", lambda word, words, **kinds: compared.extend(words) or []
    )
    Suggester([f"{i:04}".rjust(length, "a") for i in range(900)]).nearest("a" * length)
    assert 0 < len(compared) <= most
