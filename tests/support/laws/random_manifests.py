"""Random flows with their templates, as manifests that the sandbox can run to their end."""

from typing import Any

import msgspec
from hypothesis import strategies as st

from jobflow.api.flow.control import Case, Patch, Retry
from jobflow.api.flow.jobflow import JobFlow, JobFlowSpec
from jobflow.api.flow.step import DependsOn, Step
from jobflow.api.labels import SANDBOX_PREFIX
from jobflow.api.resources import JOBFLOWS
from jobflow.core.planning.virtual_time.replan import can_replan
from model.random_flows import METADATA, WITHOUT_CHILDREN, Drawing
from model.random_values import TEMPLATES
from support.sandbox.simulated_flows import Manifests

KIND = {"apiVersion": JOBFLOWS.api_version}
UNATTENDED = WITHOUT_CHILDREN - {"suspend", "commands", "refused", "crashes"}
ANNOTATIONS = {
    "duration": ("1.3s", "2.7s", "3.1s", "5.9s", "300ms"),
    "exit-code": ("0", "0", "3"),
    "fail-attempts": ("0", "0", "1", "2"),
    "output": ('{"n": 0}', '{"n": 1, "l": [1, 2]}', '[{"n": 0}, {"n": 2, "l": []}]', "text"),
}
"""Times are chosen so that two ends rarely coincide: then either may come first."""


@st.composite
def random_manifests(draw: st.DrawFn) -> Manifests:
    """Draw a flow with any primitives of control, and how its jobs run."""
    spec = Drawing(draw, UNATTENDED).spec()
    return [*(draw(templates(name)) for name in TEMPLATES), manifest(spec)]


@st.composite
def plain_manifests(draw: st.DrawFn) -> Manifests:
    """Draw a flow of dependencies and conditions, of which parts are planned until a job fails."""
    names = [f"s{number}" for number in range(draw(st.integers(1, 12)))]
    steps = [
        Step(
            name=name,
            template=draw(st.sampled_from([*TEMPLATES])),
            depends_on=DependsOn(targets=targets) if targets else None,
            retry=draw(st.sampled_from([None, Retry(limit=1)])),
            continue_on_failure=draw(st.sampled_from([None, True])),
            when=draw(conditions(targets)),
            switch=draw(
                st.sampled_from(
                    [None, None, [Case(when=f'flow.name == "{draw(st.sampled_from("fg"))}"')]]
                )
            ),
            patch=draw(patches(targets)),
        )
        for number, name in enumerate(names)
        for targets in [
            draw(st.lists(st.sampled_from(names[:number]), unique=True, max_size=3))
            if number
            else []
        ]
    ]
    policy = draw(st.sampled_from([None, "Stop", "Abort", "Continue"]))
    last = [
        Step(name="last", template="t", when='flow.phase == "Failed"'),
        Step(name="z", template="u"),
    ]
    spec = JobFlowSpec(
        flows=draw(st.permutations(steps)),
        failure_policy=policy,
        finally_=draw(st.sampled_from([None, last])),
    )
    assert can_replan(JobFlow(spec=spec))
    return [*(draw(templates(name)) for name in TEMPLATES), manifest(spec)]


def conditions(targets: list[str]) -> st.SearchStrategy[str | None]:
    """Draw the `when` of a step that depends on these steps, or none."""
    whens = [None, None, None, 'flow.name == "f"', 'flow.name == "g"']
    for target in targets:
        step = f'steps["{target}"]'
        whens += [
            f'{step}.phase == "Completed"',
            f"{step}.outputs.n == 0",
            f'!("n" in {step}.outputs)',
        ]
    return st.sampled_from(whens)


def patches(targets: list[str]) -> st.SearchStrategy[Patch | None]:
    """Draw the patch of a step that depends on these steps, or none."""
    queues = [
        f"q-$(steps.{target}.{field})" for target in targets for field in ("phase", "outputs.n")
    ]
    return st.sampled_from([None, None, *(Patch(job_spec={"queue": queue}) for queue in queues)])


@st.composite
def templates(draw: st.DrawFn, name: str) -> dict[str, Any]:
    """Draw a template, and how its jobs run."""
    annotations = {
        f"{SANDBOX_PREFIX}{key}": draw(st.sampled_from(values))
        for key, values in ANNOTATIONS.items()
        if key == "duration" or draw(st.booleans())
    }
    metadata = {"name": name, "annotations": annotations}
    return {**KIND, "kind": "JobTemplate", "metadata": metadata, "spec": TEMPLATES[name]}


def manifest(spec: JobFlowSpec) -> dict[str, Any]:
    metadata = {"name": "f", "annotations": METADATA.annotations}
    found = {**KIND, "kind": "JobFlow", "metadata": metadata}
    return {**found, "spec": msgspec.to_builtins(spec)}
