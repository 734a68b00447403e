"""A flow by columns, each computed once for all rules. It holds no rule and judges nothing.

A rule looks at a column first, which takes well under a microsecond a step, and walks the steps
only where the column says that something is wrong: so rules stay small and a valid flow is cheap.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from jobflow.api.jobflow import DependsOn, JobFlow, Patch, Step
from jobflow.api.jobtemplate import JobTemplate
from jobflow.core.build import patch_of
from jobflow.core.graph import Graph
from jobflow.core.merge import merge
from jobflow.core.pod_names import PodNames, pod_names

RANDOM_SUFFIX = "x" * 5
"""Stands for the characters that an API server appends to `generateName`."""
_MAX_GENERATE_NAME = 58
"""What it keeps of `generateName` (k8s.io/apiserver/pkg/storage/names)."""


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of the cluster beside the object itself."""

    templates: Mapping[str, JobTemplate] | None = None
    """Those of the flow's namespace by name; None: nobody knows them, so nothing is said of
    them and nothing is checked through them."""
    queues: Mapping[str, str] | None = None
    """Queue name -> `status.state` ("Open", …); None: not known."""


class Use(NamedTuple):
    """A step whose template is known."""

    step: int
    """Its position in `spec.flows`."""
    template: JobTemplate
    spec: Mapping[str, Any]
    """The vcjob spec that the step has now: its template's, with the step's patch merged in."""
    pods: PodNames
    patched: bool


class Outline:
    """What the rules look at."""

    def __init__(self, flow: JobFlow, known: Known) -> None:
        self.flow = flow
        self.known = known
        self.steps: list[Step] = flow.spec.flows or []
        self.graph = Graph(self.steps)
        self.names = self.graph.names
        """Of the steps, by position."""
        self.dependencies: list[tuple[int, DependsOn]] = [
            (i, step.depends_on) for i, step in enumerate(self.steps) if step.depends_on is not None
        ]
        self.patches: list[tuple[int, Patch]] = [
            (i, step.patch) for i, step in enumerate(self.steps) if step.patch is not None
        ]

    @cached_property
    def flow_name(self) -> str:
        """The flow's name; for one that the API server is to choose, one of its length."""
        metadata = self.flow.metadata
        if metadata.name or not metadata.generate_name:
            return metadata.name
        return metadata.generate_name[:_MAX_GENERATE_NAME] + RANDOM_SUFFIX

    @cached_property
    def uses(self) -> list[Use]:
        """The steps whose templates are known, in order; none where templates are not known."""
        return list(self._uses())

    def _uses(self) -> Iterator[Use]:
        templates = self.known.templates
        if not templates:
            return
        plain: dict[str, PodNames] = {}
        for i, step in enumerate(self.steps):
            name = step.template or step.name
            template = templates.get(name)
            if template is None:
                continue
            patch = None if step.patch is None else patch_of(step)
            if patch:
                spec = merge(template.spec, patch)
                yield Use(i, template, spec, pod_names(spec), True)
                continue
            pods = plain.get(name)
            if pods is None:
                pods = plain[name] = pod_names(template.spec)
            yield Use(i, template, template.spec, pods, False)
