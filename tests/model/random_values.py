"""Values of the fields of random steps, and the scripts of their vcjobs."""

from collections.abc import Mapping
from typing import Any

from jobflow.api.flow.control import Backoff, Param, Patch, Retry
from model.acting import NEVER, Script
from support.plan.steps import TEMPLATE_SPEC, mounting

PARAMS = [
    Param(name="n", value=1), Param(name="w", value="x"), Param(name="l", value=[1, 2]),
    Param(name="t", value="4s"), Param(name="m", value={"c": 2}),
]  # fmt: skip
TEMPLATES: dict[str, dict[str, Any]] = {
    "t": dict(TEMPLATE_SPEC),
    "u": {**mounting("data"), "queue": "q-of-u", "maxRetry": 1},
}
POLICIES = (None, "Wait", "Replace")
CLAIMS = {
    "data": {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": "$(flow.name)",
    }
}
CONTAINER = {"image": "busybox", "args": ["$(flow.name)"]}
CHILD: dict[str, Any] = {
    "flows": [{"name": "i", "template": "t"}],
    "outputs": {name: f'steps["i"].outputs.{name}' for name in "nl"},
}
"""A child flow."""
JOB_SPECS: tuple[dict[str, Any], ...] = (
    {"tasks": [{"template": {"spec": {"containers": [{"name": "c", "image": "busybox"}]}}}]},
    {**TEMPLATE_SPEC, "queue": "q-$(flow.name)", "maxRetry": 2},
)
WORKS: tuple[dict[str, Any], ...] = (
    {"container": CONTAINER},
    *({"job_spec": spec} for spec in JOB_SPECS),
)
"""What a step or a case runs without a template."""
OUTPUTS: tuple[Mapping[str, object] | None, ...] = (
    None, {"n": 0}, {"n": 1, "l": [1, 2]}, {"n": 2, "l": []}, {"n": "none", "l": 3},
)  # fmt: skip
SUCCEEDING = tuple(
    Script(lasts=n, output=out, watched=w) for out in OUTPUTS for n in (1, 3) for w in (True, False)
)
FAILING = tuple(
    Script(lasts=n, end=end, runs=runs, output=out, node=node)
    for end, runs, n, out, node in (
        ("Failed", True, 1, None, "n1"),
        ("Failed", True, 2, {"n": 1}, "n2"),
        ("Failed", False, 1, None, "n1"),
        ("Terminated", True, 2, {"n": 2}, "n3"),
        ("Aborted", True, 4, None, "n2"),
    )
)
DISRUPTED = (
    Script(lasts=1, end="Failed", disrupted=True),
    Script(lasts=2, end="Terminated", disrupted=True, node="n2", watched=False),
)
ABORTED = (
    Script(lasts=7),
    Script(lasts=7, obeys=3),
    Script(lasts=4, obeys=NEVER),
    Script(lasts=90, obeys=NEVER),
    Script(pending=3, lasts=5),
)
QUEUED = (Script(pending=NEVER), Script(pending=NEVER, obeys=NEVER), Script(pending=3), Script())
"""Scripts of vcjobs in a queue."""
FOREVER = (Script(lasts=None), Script(lasts=None, obeys=2), Script(lasts=None, obeys=NEVER))
RETRIES = (
    Retry(limit=1),
    Retry(limit=2, avoid_nodes=True),
    Retry(limit=2, backoff=Backoff(duration="3s", factor=1)),
    Retry(limit=3, backoff=Backoff(duration="1s", factor=3, max="4s")),
    Retry(limit=2, when="outputs.n > 1"),
    Retry(limit=2, when='reason == "Timeout"'),
    Retry(limit=2, when="failure.exitCode == 1"),
    Retry(limit=2, when='failure.node == "n1"'),
    Retry(limit=1, disruptions=1),
    Retry(limit=2, disruptions=0, when="!(failure.disruption)"),
    Retry(limit=3, when="!(attempt > 2)"),
    Retry(limit=3, when="!(retries > 0)"),
    Retry(limit=2, patch=Patch(job_spec={"queue": "q-$(failure.node)-$(failure.exitCode)-r"})),
    Retry(limit=1, disruptions=1, patch=Patch(job_spec={"maxRetry": "$(attempt)"})),
    Retry(limit=1, when='!(phase == "Failed")'),
)
ANSWERS = ("ApproveStep", 'ApproveStep {"n": 2}', "RejectStep")
UNTILS = ("true", "outputs.n > 1", "index > 0", "false", "!(outputs.n > 0)", 'phase == "Completed"',
          "last.index == 0", "!(last.outputs.n == 1)")  # fmt: skip
ITEMS: tuple[list[Any], ...] = ([1], ["x", "y"], [{"k": "v"}, {"k": 1}], [3, 2, 1], [])
