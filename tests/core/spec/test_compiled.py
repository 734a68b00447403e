"""The cache of CompiledFlows: one for each spec, with a limit of bytes."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobflow.api.control import ForEach, Param
from jobflow.api.jobflow import DependsOn, JobFlow, JobFlowSpec, Step
from jobflow.api.meta import ObjectMeta
from jobflow.core.spec.compiled import MIN_ENTRY_BYTES, CompiledFlowCache, compile_flow


def flow_of(*steps: Step, name: str = "f", **spec: object) -> JobFlow:
    meta = ObjectMeta(name=name, uid="u", generation=1)
    return JobFlow(metadata=meta, spec=JobFlowSpec(flows=list(steps), **spec))  # type: ignore[arg-type]


def read_again(flow: JobFlow) -> JobFlow:
    return msgspec.json.decode(msgspec.json.encode(flow), type=JobFlow)


def test_a_spec_that_is_read_again_has_the_same_layout() -> None:
    flow = flow_of(Step(name="a"), Step(name="b", depends_on=DependsOn(targets=["a"])))
    assert compile_flow(read_again(flow)) is compile_flow(flow)


@pytest.mark.parametrize(
    "other",
    [
        flow_of(Step(name="a"), Step(name="b", for_each=ForEach(items=[1]))),
        flow_of(Step(name="a"), Step(name="b", for_each=ForEach(items=[True]))),
        flow_of(Step(name="a"), Step(name="b", for_each=ForEach(items=[1.0]))),
        flow_of(Step(name="a"), Step(name="b", for_each=ForEach(items=["1"]))),
        flow_of(Step(name="a"), Step(name="b"), params=[Param(name="p", value=1)]),
        flow_of(Step(name="b"), Step(name="a")),
        flow_of(Step(name="a"), finally_=[Step(name="b")]),
        flow_of(Step(name="a"), Step(name="b"), name="g"),
    ],
    ids=["item 1", "item true", "item 1.0", "item '1'", "a param", "order", "finally", "a name"],
)
def test_one_that_differs_in_anything_has_its_own_though_uid_and_generation_agree(
    other: JobFlow,
) -> None:
    cache = CompiledFlowCache(100_000)
    known = [flow_of(Step(name="a"), Step(name="b")), flow_of(Step(name="a"))]
    known += [flow_of(Step(name="a"), Step(name="b", for_each=ForEach(items=[n]))) for n in (0, 2)]
    before = [cache.get(flow) for flow in known]
    found = cache.get(other)
    assert all(found is not each for each in before)
    assert msgspec.json.encode(found.steps) == msgspec.json.encode(other.all_steps)


def test_what_equals_in_python_and_not_in_json_is_told_apart() -> None:
    cache = CompiledFlowCache(100_000)
    flows = [flow_of(Step(name="a", for_each=ForEach(items=[n]))) for n in (1, True, 1.0)]
    for flow in flows:
        (step,) = cache.get(flow).steps
        assert step.for_each is not None and flow.steps[0].for_each is not None
        assert repr(step.for_each.items) == repr(flow.steps[0].for_each.items)


@settings(max_examples=50)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=30))
def test_as_many_are_kept_as_have_so_many_bytes_the_last_used_among_them(sizes: list[int]) -> None:
    cache = CompiledFlowCache(10 * 2_000)
    for size in sizes:
        flow = flow_of(params=[Param(name="p", value="x" * 2_000 * size)], name=f"f{size}")
        layout = cache.get(flow)
        fits = 2_000 * size + 200 <= 10 * 2_000
        assert (cache.get(read_again(flow)) is layout) == fits
        assert len(cache) <= 10


def test_what_was_not_used_for_longest_goes_first() -> None:
    cache = CompiledFlowCache(3 * MIN_ENTRY_BYTES)
    flows = [flow_of(name=name) for name in "abc"]
    kept = [cache.get(flow) for flow in flows]
    cache.get(flows[0])
    cache.get(flow_of(name="d"))
    assert cache.get(flows[0]) is kept[0]
    assert cache.get(flows[1]) is not kept[1]


def test_specs_without_steps_are_not_kept_for_ever() -> None:
    cache = CompiledFlowCache(10 * MIN_ENTRY_BYTES)
    for i in range(100):
        cache.get(flow_of(name=f"f{i}"))
    assert len(cache) == 10


def test_a_flow_larger_than_all_room_is_not_kept() -> None:
    cache = CompiledFlowCache(2 * MIN_ENTRY_BYTES)
    large = flow_of(Step(name="a" * 3 * MIN_ENTRY_BYTES))
    assert cache.get(large).graph.names == ["a" * 3 * MIN_ENTRY_BYTES]
    assert len(cache) == 0
