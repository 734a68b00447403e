"""Manifests for `jobflow plan`: templates with durations and requests."""

from typing import Any

from support.sandbox.running_controller import flow, template

Json = dict[str, Any]
DURATION = "sandbox.jobflow.volcano.sh/duration"


def asking(name: str, duration: str = "", **requests: Any) -> Json:
    """Return a JobTemplate that runs so long and requests so much."""
    made = template(name)
    if duration:
        made["metadata"]["annotations"] = {DURATION: duration}
    container = made["spec"]["tasks"][0]["template"]["spec"]["containers"][0]
    container["resources"] = {"requests": requests}
    return made


def without_outputs() -> list[Json]:
    """Return a flow whose step b needs outputs of a, and c needs b."""
    made = flow("f", {"a": "", "b": "a", "c": "b"})
    made["spec"]["flows"][1]["forEach"] = {"from": 'steps["a"].outputs.shards'}
    return [*(asking(name, "10s") for name in "abc"), made]
