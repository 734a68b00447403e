"""Rules of `dependsOn.items`, and what they allow."""

from typing import Any

import pytest

from jobflow.core.admission.analysis.flow_facts import FlowFacts, Known
from support.admission.reviewed import faults, flow_of

SPLIT: dict[str, Any] = {"name": "split"}
TRAIN: dict[str, Any] = {
    "name": "train",
    "dependsOn": {"targets": ["split"]},
    "forEach": {"from": 'steps["split"].outputs.shards'},
}


def evaluate(**fields: Any) -> dict[str, Any]:
    return {"name": "evaluate", "dependsOn": {"targets": ["train"], "items": "Matching"}, **fields}


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"forEach": {"parallelism": 2}},
        {"forEach": {"from": 'steps["split"].outputs.shards'}, "when": 'has(steps["split"].phase)'},
        {"patch": {"jobSpec": {"queue": "q-$(item)-$(index)"}}},
        {"retry": {"limit": 1, "when": 'steps["train"].items[index].phase == "Failed"'}},
    ],
)
def test_a_step_can_match_the_items_of_its_target(fields: dict[str, Any]) -> None:
    assert faults(flow_of(SPLIT, TRAIN, evaluate(**fields))) == []


@pytest.mark.parametrize("field", ["when", "forEach"])
def test_a_decision_cannot_use_a_target_that_still_runs(field: str) -> None:
    text = 'steps["train"].items.map(i, i.phase)'
    fields = {"when": f"size({text}) == 1"} if field == "when" else {"forEach": {"from": text}}
    [fault] = faults(flow_of(SPLIT, TRAIN, evaluate(**fields)))
    assert '"train" may still run when this is evaluated, because its items are matched' in fault


def test_a_decision_cannot_use_the_target_of_a_matched_target() -> None:
    last = evaluate(when='steps["train"].attempts > 1') | {"name": "report"}
    last["dependsOn"] = {"targets": ["evaluate"], "items": "Matching"}
    [fault] = faults(flow_of(SPLIT, TRAIN, evaluate(), last))
    assert '"train" may still run' in fault


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ({"daemon": True}, "spec.flows[2].daemon"),
        ({"repeat": {"until": "true", "max": 2}}, "spec.flows[2].repeat"),
        ({"forEach": {"count": 1, "items": [1]}}, "spec.flows[2].forEach.count"),
    ],
)
def test_it_is_a_for_each_for_other_rules(fields: dict[str, Any], place: str) -> None:
    [fault] = faults(flow_of(SPLIT, TRAIN, evaluate(**fields)))
    assert fault.startswith(f"{place}: Forbidden: ")


def test_a_probe_and_matching_items_exclude_each_other() -> None:
    probe = {"taskStatusList": [{"taskName": "t", "phase": "Running"}]}
    step = evaluate()
    step["dependsOn"] |= {"probe": probe}
    assert "spec.flows[2].dependsOn.items: Forbidden: excludes probe, which checks one job of " in (
        " ".join(faults(flow_of(SPLIT, TRAIN, step)))
    )


def test_a_step_counts_as_many_jobs_as_its_target() -> None:
    train = {"name": "train", "forEach": {"count": 7}}
    facts = FlowFacts(flow_of(train, evaluate(retry={"limit": 2})), Known())
    assert [count.longest_suffix for count in facts.job_counts] == ["-6", "-6-r2"]
