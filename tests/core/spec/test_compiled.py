"""The cache of CompiledFlows: one for each spec, with a limit of bytes."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobflow.api.flow.control import ForEach, Param
from jobflow.api.flow.jobflow import JobFlow, JobFlowSpec
from jobflow.api.flow.step import DependsOn, Probe, Step, TaskStatusProbe
from jobflow.api.resources import ObjectMeta
from jobflow.core.spec.compiled import MIN_ENTRY_BYTES, CompiledFlowCache, compile_flow

RUNNING = Probe(task_status_list=[TaskStatusProbe(task_name="main", phase="Running")])


def flow_of(*steps: Step, name: str = "f", **spec: object) -> JobFlow:
    meta = ObjectMeta(name=name, uid="u", generation=1)
    return JobFlow(metadata=meta, spec=JobFlowSpec(flows=list(steps), **spec))  # type: ignore[arg-type]


def copy_of(flow: JobFlow) -> JobFlow:
    return msgspec.json.decode(msgspec.json.encode(flow), type=JobFlow)


def test_equal_specs_share_one_compiled_flow() -> None:
    flow = flow_of(Step(name="a"), Step(name="b", depends_on=DependsOn(targets=["a"])))
    assert compile_flow(copy_of(flow)) is compile_flow(flow)


@pytest.mark.parametrize(
    ("target", "depends_on", "only_ends_matter"),
    [
        (Step(name="a"), DependsOn(targets=["a"]), True),
        (Step(name="a"), DependsOn(targets=["a"], condition="Finished"), True),
        (Step(name="a"), DependsOn(targets=["a"], condition="Running"), False),
        (Step(name="a"), DependsOn(targets=["a"], conditions={"a": "Running"}), False),
        (Step(name="a"), DependsOn(targets=["a"], probe=RUNNING), False),
        (Step(name="a", daemon=True), DependsOn(targets=["a"]), False),
        (Step(name="a", daemon=True), None, True),
    ],
    ids=["completed", "finished", "running", "running-of-one", "probe", "daemon", "alone"],
)
def test_a_running_job_matters_if_a_step_waits_for_it(
    target: Step, depends_on: DependsOn | None, only_ends_matter: bool
) -> None:
    flow = flow_of(target, Step(name="b", depends_on=depends_on))
    assert compile_flow(flow).only_ends_matter == only_ends_matter


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
def test_different_specs_of_one_uid_are_compiled_separately(
    other: JobFlow,
) -> None:
    cache = CompiledFlowCache(100_000)
    known = [flow_of(Step(name="a"), Step(name="b")), flow_of(Step(name="a"))]
    known += [flow_of(Step(name="a"), Step(name="b", for_each=ForEach(items=[n]))) for n in (0, 2)]
    before = [cache.get(flow) for flow in known]
    found = cache.get(other)
    assert all(found is not each for each in before)
    assert msgspec.json.encode(found.steps) == msgspec.json.encode(other.all_steps)


def test_items_that_are_equal_only_in_python_are_distinguished() -> None:
    cache = CompiledFlowCache(100_000)
    flows = [flow_of(Step(name="a", for_each=ForEach(items=[n]))) for n in (1, True, 1.0)]
    for flow in flows:
        (step,) = cache.get(flow).steps
        assert step.for_each is not None and flow.steps[0].for_each is not None
        assert repr(step.for_each.items) == repr(flow.steps[0].for_each.items)


@settings(max_examples=50)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=30))
def test_the_cache_keeps_recent_flows_within_its_limit(sizes: list[int]) -> None:
    cache = CompiledFlowCache(10 * 2_000)
    for size in sizes:
        flow = flow_of(params=[Param(name="p", value="x" * 2_000 * size)], name=f"f{size}")
        compiled = cache.get(flow)
        fits = 2_000 * size + 200 <= 10 * 2_000
        assert (cache.get(copy_of(flow)) is compiled) == fits
        assert len(cache) <= 10


def test_the_least_recently_used_flow_is_dropped_first() -> None:
    cache = CompiledFlowCache(3 * MIN_ENTRY_BYTES)
    flows = [flow_of(name=name) for name in "abc"]
    kept = [cache.get(flow) for flow in flows]
    cache.get(flows[0])
    cache.get(flow_of(name="d"))
    assert cache.get(flows[0]) is kept[0]
    assert cache.get(flows[1]) is not kept[1]


def test_the_number_of_specs_without_steps_is_limited() -> None:
    cache = CompiledFlowCache(10 * MIN_ENTRY_BYTES)
    for i in range(100):
        cache.get(flow_of(name=f"f{i}"))
    assert len(cache) == 10


def test_a_flow_larger_than_the_limit_is_not_kept() -> None:
    cache = CompiledFlowCache(2 * MIN_ENTRY_BYTES)
    large = flow_of(Step(name="a" * 3 * MIN_ENTRY_BYTES))
    assert cache.get(large).graph.names == ["a" * 3 * MIN_ENTRY_BYTES]
    assert len(cache) == 0


@pytest.mark.parametrize(
    ("flow", "is_shared"),
    [
        (flow_of(Step(name="a"), Step(name="b", daemon=True)), True),
        (flow_of(Step(name="a"), Step(name="a")), False),
        (flow_of(Step(name="a"), finally_=[Step(name="b")]), False),
        (flow_of(Step(name="a"), finally_=[Step(name="a")]), True),
    ],
    ids=["only flows", "a name twice", "finally", "a name in both lists"],
)
def test_admission_shares_the_outline_of_all_steps_only_if_it_is_that_of_flows(
    flow: JobFlow, is_shared: bool
) -> None:
    assert (compile_flow(flow).outline_of_flows is not None) == is_shared
