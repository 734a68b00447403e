"""Steps and templates for tests, as `plan_world.flow` accepts them."""

from collections.abc import Mapping
from typing import Any

from jobflow.api.flow.jobflow import JobTemplate
from jobflow.api.flow.step import DependsOn, Step
from jobflow.api.resources import ObjectMeta

TEMPLATE_SPEC: dict[str, Any] = {
    "minAvailable": 1,
    "tasks": [
        {
            "name": "t",
            "replicas": 1,
            "template": {"spec": {"containers": [{"name": "c", "image": "busybox"}]}},
        }
    ],
}


def mounting(*volumes: str) -> dict[str, Any]:
    """The spec of a template whose container mounts these volumes, which its pods do not have."""
    mounts = [{"name": name, "mountPath": f"/{name}"} for name in volumes]
    container = {"name": "c", "image": "busybox", "volumeMounts": mounts}
    (task,) = TEMPLATE_SPEC["tasks"]
    return {
        **TEMPLATE_SPEC,
        "tasks": [{**task, "template": {"spec": {"containers": [container]}}}],
    }


def after(
    targets: str,
    *,
    strategy: str | None = None,
    condition: str | None = None,
    conditions: dict[str, str] | None = None,
) -> DependsOn:
    """A `dependsOn`; targets are words of one string."""
    return DependsOn(
        targets=targets.split(), strategy=strategy, condition=condition, conditions=conditions
    )


def step(
    targets: str = "",
    *,
    strategy: str | None = None,
    condition: str | None = None,
    conditions: dict[str, str] | None = None,
    **fields: Any,
) -> Step:
    """A step without a name, for `flow`; targets are words of one string."""
    depends_on = after(targets, strategy=strategy, condition=condition, conditions=conditions)
    return Step(depends_on=depends_on if targets else None, **fields)


def template(name: str, spec: Mapping[str, Any] = TEMPLATE_SPEC) -> JobTemplate:
    return JobTemplate(
        metadata=ObjectMeta(name=name, namespace="ns", generation=1), spec=dict(spec)
    )
