"""Known: the objects of the cluster that admission depends on."""

from collections.abc import Mapping
from dataclasses import dataclass

from jobflow.api.flow.jobflow import JobTemplate


@dataclass(frozen=True, slots=True)
class Known:
    """The cluster's objects that admission of a flow or template depends on."""

    templates: Mapping[str, JobTemplate] | None = None
    """JobTemplates of the flow's namespace by name. None: unknown, so nothing is checked against
    them."""
    queues: Mapping[str, str] | None = None
    """Queue name -> `status.state` ("Open", …). None: unknown."""
