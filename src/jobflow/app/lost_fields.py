"""Flows that lost fields: an API server drops from a stored object, at its next write by anybody,
what a foreign definition does not name (docs/decisions/schema-guard.md)."""

from itertools import islice

import structlog

from jobflow.api.flow.jobflow import JobFlow, JobFlowSpec
from jobflow.core.json_values import find_missing
from jobflow.kube.cache import Cache

MAX_FIELDS = 5
"""Fields of one flow that the log names."""

log = structlog.get_logger(__name__)


class LostFields:
    """Compares flows before and after a definition that did not fit. Flows that this process has
    not read before that are not known."""

    def __init__(self, flows: Cache[JobFlow]) -> None:
        self._flows = flows
        self._before: dict[str, JobFlowSpec] = {}
        self._lost: set[str] = set()
        """UIDs of flows."""

    def remember(self) -> None:
        """Keep the specs as they are: a definition does not fit."""
        for flow in self._flows:
            self._before.setdefault(flow.metadata.uid, flow.spec)

    def compare(self) -> None:
        """Log the flows whose specs lack fields, after they were read with the right definition."""
        for flow in self._flows:
            meta, before = flow.metadata, self._before.get(flow.metadata.uid)
            fields = list(islice(find_missing("spec", before, flow.spec), MAX_FIELDS))
            if fields:
                self._lost.add(meta.uid)
                log.error("flow lost fields", flow=f"{meta.namespace}/{meta.name}", fields=fields)
        self._before.clear()

    def count(self) -> int:
        """Return the number of flows that lost fields and still exist."""
        if self._lost:
            self._lost &= {flow.metadata.uid for flow in self._flows}
        return len(self._lost)
