"""Numbers and timeouts that refer to params: resolved once, before anybody reads them."""

from jobflow.api.flow.control import Approval, ForEach, Param, Repeat, Retry
from jobflow.core.drawing.flow_graph import flow_graph
from jobflow.core.planning.context import PlanContext
from jobflow.core.planning.observed.view import View
from jobflow.core.spec.param_values import with_param_values
from support.plan.plan_world import World, flow
from support.plan.steps import step
from support.plan.world_state import NOW

PARAMS = [Param(name="n", value=2), Param(name="t", value="30s"), Param(name="m", value={"l": [3]})]


def world(**steps: object) -> World:
    return flow(**steps).with_spec(  # type: ignore[arg-type]
        params=PARAMS, parallelism="$(params.n)", timeout="$(params.t)"
    )


def test_values_take_the_place_of_references() -> None:
    items = step(for_each=ForEach(count="$(params.m.l.0)", parallelism="$(params.n)"))
    again = step(repeat=Repeat(until="true", max="$(params.n)"), timeout="$(params.t)")
    retried = step(retry=Retry(limit="$(params.n)"))
    asks = step(approval=Approval(timeout="$(params.t)"))
    spec = with_param_values(world(a=items, b=again, c=retried, d=asks).flow).spec
    a, b, c, d = spec.flows or []
    assert (spec.parallelism, spec.timeout) == (2, "30s")
    assert a.for_each == ForEach(count=3, parallelism=2)
    assert (b.repeat, b.timeout) == (Repeat(until="true", max=2), "30s")
    assert c.retry == Retry(limit=2)
    assert d.approval == Approval(timeout="30s")


def test_a_reference_that_does_not_fit_stays() -> None:
    """Admission may have been bypassed; the field counts as not set."""
    bad = flow("a", "b", "c").with_spec(params=PARAMS, parallelism="$(params.t)", timeout="$(x)")
    assert with_param_values(bad.flow) is bad.flow
    assert bad.with_status_fields(progress="0/3").plan().creates == []
    assert PlanContext.of(bad.flow, View(), NOW).flow is bad.flow


def test_a_plan_uses_the_values() -> None:
    planned = world(a=step(), b=step(), c=step()).plan()
    assert planned.creates == ["f-a", "f-b"]
    late = world(a=step()).with_jobs(a="Running").settled().later(31).plan()
    assert late.status.state.message == "the flow took longer than its timeout of 30s"


def test_a_retry_of_a_param_runs_again() -> None:
    retried = world(a=step(retry=Retry(limit="$(params.n)"))).with_spec(timeout=None)
    (condition,) = retried.with_jobs(a="Failed").settled().plan().conditions.values()
    assert (condition.reason, condition.message[:20]) == ("Retrying", "runs again (1 of 2):")


def test_graphs_show_the_values() -> None:
    graph = flow_graph(world(a=step(for_each=ForEach(count="$(params.m.l.0)"))).flow)
    assert [node.detail for node in graph.nodes] == ["3 items"]
