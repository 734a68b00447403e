"""What a vcjob leaves behind as its outputs: the termination message of one container.

It is the first container of the first pod of the first task. Whether the pods are there to be
looked at, and what becomes of outputs that are too large, is decided elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from jobflow.api.job import JobOutline
from jobflow.api.pod import ContainerStatus, Pod
from jobflow.core.limits import MAX_FLOW_OUTPUTS, MAX_MESSAGE_BYTES, MAX_STEP_OUTPUTS
from jobflow.core.pods.failure import KUBELET_REASONS

FIELD_BYTES = len('"outputs":,')
"""What it takes to store outputs besides them."""
_DEEPEST = 32
"""Levels of maps and lists that are kept as such; a status is read by programs with a stack."""


class OutputsTooLarge(Exception):
    """Outputs that are over what a step may have; the message says it."""


class UnstorableJson(Exception):
    """JSON that a status cannot hold as it is."""


class OutputsRoom:
    """What is left for further outputs of a flow."""

    def __init__(self, recorded: Iterable[dict[str, Any]]) -> None:
        self._left = MAX_FLOW_OUTPUTS - sum(
            measure_outputs(outputs) + FIELD_BYTES for outputs in recorded
        )

    def take(self, outputs: dict[str, Any]) -> None:
        """Raises TooLarge where they do not fit; then nothing is taken."""
        needed = measure_outputs(outputs) + FIELD_BYTES
        if needed > self._left:
            left = max(self._left - FIELD_BYTES, 0)
            raise OutputsTooLarge(
                f"have {measure_outputs(outputs)} bytes as JSON, and {left} are left of the 65536 that all "
                "steps of a flow have together"
            )
        self._left -= needed


def find_output_pod(spec: JobOutline, pods: Iterable[Pod]) -> Pod | None:
    """The pod whose container is read, where it is among `pods`."""
    task = _first_task(spec)
    return next((pod for pod in pods if pod.task == task and pod.index == 0), None)


def has_output_pod(spec: JobOutline) -> bool:
    """Whether there is such a pod at all."""
    return any((task.replicas or 0) > 0 for task in (spec.tasks or ())[:1])


def read_message(spec: JobOutline, pod: Pod) -> str | None:
    """The termination message; None as long as the container has not ended."""
    container = _first_container(spec, pod)
    ended = container.state.terminated if container is not None else None
    if ended is None:
        return "" if pod.ended else None
    return "" if ended.reason in KUBELET_REASONS else ended.message


def parse_outputs(message: str) -> dict[str, Any] | None:
    """A JSON object as it is, any other text under `text`, None for no text at all.

    A status is written by merge patches, in which null means to take away: so entries of a map
    that are null are left out. Raises TooLarge.
    """
    if len(text := _utf8(message)) >= MAX_MESSAGE_BYTES:
        raise OutputsTooLarge(f"have {len(text)} bytes, and a termination message is cut at 4096")
    outputs = _object(text)
    if outputs is None:
        words = text.decode().strip()
        outputs = {"text": words} if words else {}
    if measure_outputs(outputs) > MAX_STEP_OUTPUTS:
        raise OutputsTooLarge(
            f"have {measure_outputs(outputs)} bytes as JSON, and a step has room for 4096"
        )
    return outputs or None


def measure_outputs(outputs: dict[str, Any]) -> int:
    """Bytes of outputs as they are stored."""
    return len(msgspec.json.encode(outputs))


def _utf8(message: str) -> bytes:
    """What no UTF-8 can say is replaced."""
    return message.encode("utf-8", "surrogatepass").decode("utf-8", "replace").encode()


def _object(text: bytes) -> dict[str, Any] | None:
    try:
        found = msgspec.json.decode(text)
        return _fit(found, 0) if isinstance(found, dict) else None
    except (msgspec.DecodeError, RecursionError, UnstorableJson):
        return None


def _fit(value: Any, depth: int) -> Any:
    """As the API server will store it: its numbers are those of Go."""
    if depth > _DEEPEST:
        raise UnstorableJson
    if isinstance(value, dict):
        return {key: _fit(item, depth + 1) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_fit(item, depth + 1) for item in value]
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        try:
            return float(value)
        except OverflowError:
            raise UnstorableJson from None
    return value


def _first_task(spec: JobOutline) -> str:
    return (spec.tasks[0].name if spec.tasks else None) or "default0"


def _first_container(spec: JobOutline, pod: Pod) -> ContainerStatus | None:
    """By the name that the vcjob gives it: a pod's statuses are in the order of names, and a
    sidecar may have been put in."""
    containers = spec.tasks[0].pod.asking if spec.tasks else []
    name = containers[0].name if containers else None
    statuses = pod.status.container_statuses or []
    named = next((status for status in statuses if status.name == name), None)
    return named if named is not None or len(statuses) != 1 else statuses[0]
