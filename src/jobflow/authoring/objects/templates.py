"""Objects with metadata, and JobTemplates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jobflow.authoring.objects.job_fields import JobSpec
from jobflow.authoring.objects.places import Place, caller

Texts = Mapping[str, str]


class Manifest:
    """An object with metadata: a flow, a template or a schedule."""

    def __init__(self, name: str, metadata: Mapping[str, Any], place: Place) -> None:
        self.name = name
        """`metadata.name`; empty if the server generates it."""
        self._metadata = {key: value for key, value in metadata.items() if value}
        self._place = place

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"


class Template(Manifest):
    """A JobTemplate: the spec of a Volcano job that steps run. A flow sends it with itself if a
    step has it as `template`, or after `flow.add(template)`."""

    def __init__(
        self,
        name: str,
        spec: Mapping[str, Any] | JobSpec,
        *,
        namespace: str | None = None,
        labels: Texts | None = None,
        annotations: Texts | None = None,
    ) -> None:
        metadata = {"namespace": namespace, "labels": labels, "annotations": annotations}
        super().__init__(name, metadata, caller())
        self.spec = spec
