"""Messages about a missing key of outputs that begin like JSON and are none."""

from typing import Any

import pytest

from jobflow.api.flow.control import ForEach
from jobflow.api.flow.jobflow import JobFlow, JobFlowSpec
from jobflow.api.flow.status import RunCondition, StepCondition
from jobflow.api.flow.step import Step
from jobflow.api.resources import ObjectMeta
from jobflow.core.cel.expression import EvaluationFailure
from jobflow.core.cel.scope import EvaluationScope, evaluate_all, resolve_references

FLOW = JobFlow(metadata=ObjectMeta(name="f"), spec=JobFlowSpec())


def scope(text: str, **more: Any) -> EvaluationScope:
    """Return a scope in which step `a` and item 0 of step `b` have this output."""
    outputs = {"text": text}
    steps = {
        "a": (Step(name="a"), StepCondition(phase="Completed", outputs=outputs)),
        "b": (
            Step(name="b", for_each=ForEach(count=1)),
            StepCondition(runs=[RunCondition(index=0, outputs=outputs)]),
        ),
    }
    return EvaluationScope(FLOW, steps.get, **more)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('{"loss": NaN, "epoch": 3}', "10: `NaN,`"),
        ('{"loss": -Infinity}', "10: `-Infinity}`"),
        ("{'acc': 0.9, 'ok': True}", "2: `'acc':`"),
        ('{"acc": True}', "9: `True}`"),
        ('{"acc": 0.1}\n{"acc": 0.9}', '14: `{"acc":`'),
        ('{"acc": 0.9,}', "13: `}`"),
        ('{"é": NaN}', "7: `NaN}`"),
        ("[1 2]", "4: `2]`"),
        ('{"acc": 0.9', "12: it ends too early"),
    ],
)
def test_a_missing_key_names_the_character_where_json_ends(text: str, place: str) -> None:
    failure = resolve_references("$(steps.a.outputs.acc)", scope(text))
    assert failure == EvaluationFailure(
        "$(steps.a.outputs.acc) has no value: there is no 'acc' in steps.a.outputs; the output of "
        f"a is not JSON at character {place}",
        missing=True,
    )


@pytest.mark.parametrize(
    ("expression", "owner"),
    [
        ("steps.a.outputs.acc > 1", "a"),
        ("steps.b.items.map(i, i.outputs.acc)", "b/0"),
        ("steps.b.item.outputs.acc", "the item of b"),
        ("outputs.acc", "this run"),
        ("last.outputs.acc", "the run before"),
    ],
)
def test_every_expression_names_the_owner_of_the_output(expression: str, owner: str) -> None:
    text = "{'acc': 1}"
    run = RunCondition(phase="Completed", outputs={"text": text})
    failure = evaluate_all(
        "vars", {"v": expression}, scope(text, run=run, index=0, last={"outputs": {"text": text}})
    )
    assert isinstance(failure, EvaluationFailure)
    why = f"there is no 'acc'; the output of {owner} is not JSON at character 2: `'acc':`"
    assert failure.message == f"vars.v `{expression}`: {why}"


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("steps.a.outputs.acc", "done"),
        ("steps.a.outputs.acc", '"acc"'),
        ("steps.a.outputs.acc", "[" * 2000 + "]" * 2000),
        ("steps.a.outputs.text + steps.a.job.x", "[INFO] done"),
        ("params.x", "{'acc': 1}"),
    ],
)
def test_other_missing_keys_have_no_such_hint(expression: str, text: str) -> None:
    failure = evaluate_all("vars", {"v": expression}, scope(text))
    assert isinstance(failure, EvaluationFailure)
    assert "not JSON" not in failure.message
