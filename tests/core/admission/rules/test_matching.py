"""Rules of `dependsOn.items`, and what they allow."""

import json
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


CHAIN = (SPLIT, TRAIN, evaluate())


def last(targets: str = "evaluate", *, own: dict[str, Any] | None = None, **fields: Any) -> Any:
    """Return a step behind `split`, `train` and `evaluate`, whose items are matched."""
    depends_on = {"targets": targets.split(), "items": "Matching", **(own or {})}
    return {"name": "last", "dependsOn": depends_on, **fields}


@pytest.mark.parametrize("target", ["train", "evaluate"])
@pytest.mark.parametrize(
    "fields",
    [
        {"vars": {"x": 'steps["{}"].item.outputs.acc'}},
        {"vars": {"x": 'steps["{}"].item'}},
        {"env": {"X": "$(steps.{}.item.outputs.acc.b)"}},
        {"env": {"X": "$(steps.{}.item.failure.exitCode) $(steps.{}.item.phase)"}},
        {"patch": {"jobSpec": {"queue": "$(steps.{}.item.job)"}}},
        {"retry": {"limit": 1, "when": 'steps["{}"].item.phase == "Completed"'}},
    ],
)
def test_an_item_reads_the_same_item_of_the_steps_before_it(
    fields: dict[str, Any], target: str
) -> None:
    named = json.loads(json.dumps(fields).replace("{}", target))
    assert faults(flow_of(*CHAIN, last(**named))) == []


@pytest.mark.parametrize(
    ("own", "text", "fault"),
    [
        (
            {"condition": "Running"},
            'steps["evaluate"].item.outputs.x',
            'the item of "evaluate" may still run when this item starts, so only its phase and '
            "job are known; wait until it has ended",
        ),
        (
            {"strategy": "any", "targets": ["train", "evaluate"]},
            'steps["train"].item.failure.exitCode',
            'the item of "train" may still run',
        ),
        (
            {"targets": ["split", "evaluate"]},
            'steps["split"].item.phase',
            '"split" has no forEach, and so no items; write steps["split"].outputs',
        ),
        (
            {},
            'steps["evaluate"].item.output',
            'an item has no "output"; did you mean "outputs"?',
        ),
        ({}, 'steps["evaluate"].item.failure.code', 'a failure has no "code"'),
        ({"items": None}, 'steps["evaluate"].item.phase', "set dependsOn.items: Matching in"),
    ],
)
def test_an_item_that_cannot_be_read_is_refused(own: dict[str, Any], text: str, fault: str) -> None:
    train = {**TRAIN, "forEach": {"count": 2}}
    step = last(own=own, vars={"x": text}, forEach={"count": 2})
    assert fault in faults(flow_of(SPLIT, train, evaluate(), step))[0]


def test_phase_and_job_of_an_item_that_still_runs_may_be_read() -> None:
    texts = {"x": 'steps["evaluate"].item.phase + steps["evaluate"].item.job'}
    assert faults(flow_of(*CHAIN, last(own={"condition": "Running"}, vars=texts))) == []


def test_items_that_a_step_between_them_takes_apart_are_no_chain() -> None:
    between = {"name": "between", "dependsOn": {"targets": ["train"]}, "forEach": {"count": 2}}
    step = last("between", vars={"x": 'steps["train"].item.phase'})
    [fault] = faults(flow_of(SPLIT, TRAIN, between, step))
    assert 'the items of "last" do not depend on single items of "train"' in fault


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('steps["evaluate"].items[index].outputs.x', 'write steps["evaluate"].item for the item'),
        ('steps["evaluate"].outputs.x', ', and steps["evaluate"].item.outputs for the item of'),
        ('steps["evaluate"].job', '; write steps["evaluate"].item.job for the item of the same'),
    ],
)
def test_what_is_refused_names_the_item(text: str, fault: str) -> None:
    assert fault in faults(flow_of(*CHAIN, last(vars={"x": text})))[0]


@pytest.mark.parametrize(
    ("reference", "fault"),
    [
        ("steps.evaluate.item", "write which field of it is meant, as in $(steps.evaluate.item."),
        ("steps.evaluate.item.job.x", "job has no fields; write $(steps.evaluate.item.job)"),
        ("steps.evaluate.item.output.x", 'an item has no "output"; did you mean "outputs"?'),
        ("steps.evaluat.item.phase", 'no such step as "evaluat"; did you mean "evaluate"?'),
    ],
)
def test_a_reference_to_no_field_of_an_item_is_refused(reference: str, fault: str) -> None:
    assert fault in faults(flow_of(*CHAIN, last(env={"X": f"$({reference})"})))[0]


def test_an_item_of_a_child_flow_has_the_outputs_that_its_flow_declares() -> None:
    flow = {"flows": [{"name": "fit"}], "outputs": {"acc": "1"}}
    child = {"name": "child", "forEach": {"count": 2}, "flow": flow}
    of_flow = 'steps["child"].item'
    texts = {"x": f"{of_flow}.outputs.acc", "y": f"{of_flow}.failure.step"}
    assert faults(flow_of(child, last("child", vars=texts))) == []
    [fault] = faults(flow_of(child, last("child", vars={"x": f"{of_flow}.outputs.c"})))
    assert 'the flow of "child" has no output "c"' in fault
    [fault] = faults(flow_of(child, last("child", vars={"x": f"{of_flow}.job"})))
    assert 'an item has no "job"' in fault


def test_a_step_of_the_full_name_wins() -> None:
    dotted = {"name": "evaluate.item", "dependsOn": {"targets": ["split"]}}
    step = last("evaluate evaluate.item", env={"X": "$(steps.evaluate.item.reason)"})
    assert faults(flow_of(*CHAIN, dotted, step)) == []


@pytest.mark.parametrize(
    "text",
    [
        'steps["train"].item.outputs.acc > 0.5 && index > 1',
        'steps["train"].item.phase == "Completed" && item != "x"',
        'steps["split"].outputs.go',
    ],
)
def test_each_item_may_decide_by_its_target_item(text: str) -> None:
    assert faults(flow_of(SPLIT, TRAIN, evaluate(forEach={"when": text}))) == []


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("index", "forEach.when: Invalid value: "),
        ("outputs.x > 1", "only repeat.until and retry.when have outputs"),
        ("attempt > 1", "have the numbers of an attempt"),
        ('steps["train"].items[0].phase == ""', 'or steps["train"].item in forEach.when'),
        ('steps["train"].item.output == 1', 'an item has no "output"'),
        ("item.n >", "forEach.when: Invalid value: "),
    ],
)
def test_a_wrong_condition_of_items_is_refused(text: str, fault: str) -> None:
    [found] = faults(flow_of(SPLIT, TRAIN, evaluate(forEach={"when": text})))
    assert fault in found


@pytest.mark.parametrize("name", ["item", "index"])
def test_a_condition_of_the_step_that_reads_an_item_names_for_each_when(name: str) -> None:
    [found] = faults(
        flow_of(
            {**TRAIN, "name": "split", "dependsOn": None}
            | {"forEach": {"count": 2}, "when": f"{name} == 1"}
        )
    )
    assert f"forEach.when is evaluated for each and has {name}" in found


@pytest.mark.parametrize("where", ["when", "switch"])
def test_a_decision_of_the_step_that_reads_a_target_item_names_for_each_when(where: str) -> None:
    text = 'steps["train"].item.outputs.acc > 1'
    decides = {"when": text} if where == "when" else {"switch": [{"when": text}]}
    [found] = faults(flow_of(SPLIT, TRAIN, evaluate(**decides)))
    assert 'evaluated for each and has item, and so steps["train"].item' in found


def test_for_each_with_a_condition_alone_has_no_items() -> None:
    [found] = faults(flow_of({"name": "a", "forEach": {"when": "index > 1"}}))
    assert "set the source of the items" in found
