"""Facts of a flow: steps and dependencies with options, and the order of fields."""

import typing
from collections.abc import Iterator
from typing import Any

import msgspec

from jobflow.api.flow.jobflow import JobFlow
from jobflow.core.admission.analysis.flow_facts import FlowFacts, Known
from jobflow.core.admission.validate import _position
from jobflow.core.violations import Reason, Violation
from support.admission.reviewed import flow_of


def test_plain_steps_have_no_options() -> None:
    facts = FlowFacts(flow_of("a", "b: a", {"name": "c", "continueOnFailure": True}), Known())
    assert (facts.steps_with_options, facts.is_plain) == ([], True)
    assert not FlowFacts(flow_of("a", timeout="1h"), Known()).is_plain


def test_dependencies_with_options_are_those_with_another_field_than_targets() -> None:
    waits = {"name": "c", "dependsOn": {"targets": ["a"], "condition": "Finished"}}
    facts = FlowFacts(flow_of("a", "b: a", waits), Known())
    assert facts.dependencies_with_options == [(2, facts.steps[2].depends_on)]
    assert not facts.is_plain


def paths(kind: Any, at: str) -> Iterator[str]:
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        hints = typing.get_type_hints(kind)
        for field in msgspec.structs.fields(kind):
            inner = f"{at}.{field.encode_name}" if at else field.encode_name
            yield inner
            yield from paths(hints[field.name], inner)
    elif typing.get_origin(kind) is list:
        yield from paths(*typing.get_args(kind), f"{at}[0]")
    elif typing.get_origin(kind) is not dict:
        for each in typing.get_args(kind):
            yield from paths(each, at)


def test_violations_are_in_the_order_of_the_fields() -> None:
    found = list(paths(JobFlow, ""))
    assert "spec.finally[0].dependsOn.probe.httpGetList[0].httpHeader.value" in found
    positions = [_position(Violation(path, Reason.INVALID, None, "")) for path in found]
    assert positions == sorted(positions)
    assert len(set(positions)) == len(found)
