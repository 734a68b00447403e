"""`events.k8s.io/v1` Events: the same objects as `v1` Events under other names of their fields.

Source: k8s.io/kubernetes pkg/apis/events/v1/conversion.go.
"""

from __future__ import annotations

from collections.abc import Mapping

from jobflow.sandbox.apiserver.kinds import Object, Projection

_CORE_TO_EVENTS = {
    "involvedObject": "regarding",
    "message": "note",
    "reportingComponent": "reportingController",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
}
_EVENTS_TO_CORE = {new: old for old, new in _CORE_TO_EVENTS.items()}


def _renamed(event: Object, names: Mapping[str, str], api_version: str) -> Object:
    renamed = {names.get(key, key): value for key, value in event.items()}
    return renamed | {"apiVersion": api_version}


PROJECTION = Projection(
    show=lambda event: _renamed(event, _CORE_TO_EVENTS, "events.k8s.io/v1"),
    take=lambda event: _renamed(event, _EVENTS_TO_CORE, "v1"),
)
