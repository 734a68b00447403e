"""One budget for a flow and all flows in it: what it leaves unjudged is warned of."""

from typing import Any

import pytest

from jobflow.core.admission.analysis import child_flows, tree_budget
from jobflow.core.admission.analysis.tree_budget import TreeBudget
from jobflow.core.admission.validate import Known, validate_flow
from support.admission.reviewed import brief, faults, flow_of, knowing, template_of

WORK = "range(150).all(x, range(150).all(y, y >= 0))"
WARNING = (
    "this flow is too large to be judged as a whole: some {what} were not checked; each child "
    "flow is checked before it starts, and each job when the API server takes it"
)


def child(name: str, **step: Any) -> dict[str, Any]:
    return {"name": name, "flow": {"flows": [{"name": "x", "template": "a"} | step]}}


def warnings_of(*steps: dict[str, Any], **spec: Any) -> list[str]:
    verdict = validate_flow(flow_of(*steps, **spec), knowing(template_of("a")))
    assert not verdict.violations
    return list(verdict.warnings)


def test_expressions_of_all_child_flows_share_one_budget() -> None:
    assert warnings_of(child("a", when=WORK)) == []
    texts = (child(f"c{i}", when=WORK.replace("150", f"{150 + i}")) for i in range(3))
    assert warnings_of(*texts) == [WARNING.format(what="expressions of child flows")]


def test_what_is_left_unjudged_is_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = child("b", when="1 + 1")
    assert brief(faults(flow_of(wrong))) == ["spec.flows[0].flow.flows[0].when Invalid"]
    monkeypatch.setattr(TreeBudget, "trial_steps", 0)
    assert warnings_of(wrong) == [WARNING.format(what="expressions of child flows")]


@pytest.mark.parametrize(
    ("attribute", "what"),
    [("characters", "expressions"), ("children", "flows"), ("tasks", "templates")],
)
def test_each_part_of_the_budget_is_shared(
    attribute: str, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TreeBudget, attribute, 1)
    steps = [child("b", when="true"), child("c", when="true")]
    assert warnings_of(*steps) == [WARNING.format(what=f"{what} of child flows")]


def test_references_of_child_flows_share_their_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree_budget, "MAX_CHILD_REFERENCES", 30)
    steps = [child(f"c{i}", image="$(params.t)") for i in range(2)]
    for each in steps:
        each["flow"]["params"] = {"t": "$(params.t)"}
    given = [{"name": "t", "value": "y" * 20}]
    assert warnings_of(*steps, params=given) == [WARNING.format(what="references of child flows")]


def test_too_many_child_flows_are_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_flows, "_misfits", None)
    step = child("a") | {"forEach": {"count": 1_000}}
    found = faults(flow_of(step, child("b")), Known())
    assert brief(found) == ["spec.flows Too"]
