"""Steps and templates for tests, as `plan_world.flow` accepts them."""

from collections.abc import Mapping
from typing import Any

from jobflow.api.jobflow import DependsOn, Step
from jobflow.api.jobtemplate import JobTemplate
from jobflow.api.meta import ObjectMeta

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


def after(targets: str, *, strategy: str | None = None, condition: str | None = None) -> DependsOn:
    """A `dependsOn`; targets are words of one string."""
    return DependsOn(targets=targets.split(), strategy=strategy, condition=condition)


def step(
    targets: str = "", *, strategy: str | None = None, condition: str | None = None, **fields: Any
) -> Step:
    """A step without a name, for `flow`; targets are words of one string."""
    depends_on = after(targets, strategy=strategy, condition=condition) if targets else None
    return Step(depends_on=depends_on, **fields)


def template(name: str, spec: Mapping[str, Any] = TEMPLATE_SPEC) -> JobTemplate:
    return JobTemplate(
        metadata=ObjectMeta(name=name, namespace="ns", generation=1), spec=dict(spec)
    )
