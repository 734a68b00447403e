"""Admitted flows for random walks: with probes, or with any primitives of control."""

from collections.abc import Container
from dataclasses import replace

from hypothesis import strategies as st

from jobflow.api.flow.step import Condition, DependsOn, Step, Strategy
from jobflow.core.admission.validate import Known, validate_flow
from model.random_flows import WITHOUT_CHILDREN, Drawing, drawn_flow
from model.random_values import TEMPLATES
from support.laws.random_pods import SPEC, probes
from support.plan.plan_world import World, world_of
from support.plan.steps import template

NAMES = "abcdefg"


@st.composite
def flows_with_probes(draw: st.DrawFn) -> World:
    """Draw an admitted flow of dependencies and probes, with its steps in any order."""
    steps = []
    for n, name in enumerate(NAMES[: draw(st.integers(1, len(NAMES)))]):
        targets = draw(st.lists(st.sampled_from(NAMES[:n]), unique=True)) if n else []
        depends_on = DependsOn(
            targets=targets,
            strategy=draw(st.sampled_from([None, *Strategy])),
            condition=draw(st.sampled_from([None, None, *Condition])),
            probe=draw(probes),
        )
        steps.append(Step(name=name, depends_on=depends_on if targets else None))
    world = world_of(draw(st.permutations(steps)), retain=draw(st.sampled_from([None, "delete"])))
    assert not validate_flow(world.flow, Known()).violations
    templates = {name: template(name, SPEC) for name in world.templates}
    return replace(world, templates=templates, failed_pods_read=False)


@st.composite
def controlled_flows(draw: st.DrawFn, features: Container[str] = WITHOUT_CHILDREN) -> World:
    """Draw an admitted flow with these primitives of control."""
    flow = drawn_flow(Drawing(draw, features))
    assert not validate_flow(flow, Known()).violations
    known = {name: template(name, spec) for name, spec in TEMPLATES.items()}
    return World(flow, known, failed_pods_read=False)
