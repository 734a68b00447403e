"""Rules of child flows whose place depends on the list of the step."""

import pytest

from support.admission.reviewed import brief, faults, flow_of

CHILD = {"name": "a", "flow": {"flows": [{"name": "i", "template": "t"}]}}
PROBE = {"taskStatusList": [{"taskName": "main", "phase": "Running"}]}
PROBING = {"name": "b", "template": "t", "dependsOn": {"targets": ["a"], "probe": PROBE}}


@pytest.mark.parametrize("place", ["flows", "finally"])
def test_a_probe_checks_no_child_flow(place: str) -> None:
    steps = [CHILD, PROBING]
    flow = flow_of(*steps) if place == "flows" else flow_of("first", **{"finally": steps})
    assert brief(faults(flow)) == [f"spec.{place}[1].dependsOn.targets[0] Invalid"]


def test_a_probe_in_finally_checks_no_step_of_the_flow() -> None:
    flow = flow_of(CHILD, **{"finally": [PROBING]})
    assert brief(faults(flow)) == ["spec.finally[0].dependsOn.targets[0] Invalid"]
