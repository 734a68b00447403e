"""The outputs of a vcjob: the termination message of the first container of the first pod, that of
index 0 of the first task."""

from collections.abc import Iterable
from typing import Any

import msgspec

from jobflow.api.volcano.job import JobOutline
from jobflow.api.volcano.pod import Pod
from jobflow.core import limits
from jobflow.core.pods.failure import KUBELET_REASONS, decode_message, has_failed

FIELD_BYTES = len('"outputs":,')
"""Bytes of the field in which outputs are stored."""
_ESCAPE = len("\\u00e9")
"""The most characters with which JSON writes one byte of a text."""
_MAX_DEPTH = 32
"""Levels of maps and lists; programs that read a status may overflow their stack on more."""


class OutputsTooLarge(Exception):
    """Outputs have more bytes than allowed; the message is a clause that says how many are."""


class UnstorableJson(Exception):
    """A status cannot store this JSON unchanged."""


class OutputsRoom:
    """The bytes that are left for outputs of a flow."""

    def __init__(self, recorded: Iterable[dict[str, Any]]) -> None:
        self._left = limits.MAX_FLOW_OUTPUTS - sum(
            measure_outputs(outputs) + FIELD_BYTES for outputs in recorded
        )

    def take(self, outputs: dict[str, Any]) -> None:
        """Take the bytes of a step's outputs. Raises OutputsTooLarge, and then takes nothing."""
        size = measure_outputs(outputs)
        # nothing is taken, so smaller outputs may still fit
        if size + FIELD_BYTES > self._left:
            room = max(self._left - FIELD_BYTES, 0)
            raise OutputsTooLarge(
                f"have {size} bytes as JSON, and {room} are left of the {limits.MAX_FLOW_OUTPUTS} "
                "for all steps of a flow"
            )
        self._left -= size + FIELD_BYTES


def find_output_pod(spec: JobOutline, pods: Iterable[Pod]) -> Pod | None:
    """Return the pod whose container has the outputs, or None if it is not among `pods`."""
    task = (spec.tasks[0].name if spec.tasks else None) or "default0"
    return next((pod for pod in pods if pod.task == task and pod.index == 0), None)


def has_output_pod(spec: JobOutline) -> bool:
    return any((task.replicas or 0) > 0 for task in (spec.tasks or ())[:1])


def read_message(spec: JobOutline, pod: Pod, *, is_log: bool = False) -> str | None:
    """Return the termination message, or None while the container runs. `is_log`: whether that of a
    container that failed may be its log, which is no output."""
    # by the name in the vcjob: the statuses of a pod are sorted by name, and may include a sidecar
    containers = spec.tasks[0].pod.asking if spec.tasks else []
    name = containers[0].name if containers else None
    statuses = pod.status.container_statuses or []
    container = next((status for status in statuses if status.name == name), None)
    if container is None and len(statuses) == 1:
        container = statuses[0]
    ended = container.state.terminated if container is not None else None
    if ended is None:
        return "" if pod.ended else None
    is_none = ended.reason in KUBELET_REASONS or (is_log and has_failed(ended))
    return "" if is_none else ended.message


def message_limit(containers: int) -> int:
    """Return the bytes at which the kubelet cuts a termination message in a pod with so many
    containers, init containers included."""
    return min(limits.MAX_MESSAGE_BYTES, limits.MAX_POD_MESSAGE_BYTES // max(containers, 1))


def parse_outputs(message: str, containers: int = 1) -> dict[str, Any] | None:
    """Return a JSON object, or a list as `{"items": […]}`, any other text as `{"text": …}`, or None
    for an empty message. `containers`: those of the pod. Raises OutputsTooLarge, also for a message
    that the kubelet may have cut: one of the full size that is not JSON."""
    # no status can store half a surrogate pair
    text = message.encode("utf-8", "surrogatepass").decode("utf-8", "replace").encode()
    # a message that the kubelet has cut would be stored as a text that looks whole
    size, limit = len(text), message_limit(containers)
    found = decode_message(text) if size <= limits.MAX_MESSAGE_BYTES else None
    if size >= limit and not isinstance(found, dict | list | str):  # half a number is a number
        shared = f" in a pod of {containers} containers" if limit < limits.MAX_MESSAGE_BYTES else ""
        raise OutputsTooLarge(
            f"were cut at {limit} bytes, the most that a termination message can have{shared}"
        )
    try:
        found = {"items": found} if isinstance(found, list) else found
        outputs = _to_storable(found, 0) if isinstance(found, dict) else None
    except UnstorableJson:
        outputs = None
    if outputs is None:
        words = text.decode().strip()
        outputs = {"text": words} if words else {}
    return _bounded(outputs)


def _bounded(outputs: dict[str, Any]) -> dict[str, Any] | None:
    if (size := measure_outputs(outputs)) > limits.MAX_STEP_OUTPUTS:
        raise OutputsTooLarge(f"have {size} bytes as JSON, and a step has room for 4096")
    return outputs or None


def read_outputs(text: str) -> dict[str, Any] | None:
    """Return outputs that a user wrote as a JSON object, or None if it is empty. Raises
    OutputsTooLarge, and UnstorableJson if it is no JSON object that a status can store."""
    if len(text) > limits.MAX_STEP_OUTPUTS * _ESCAPE:
        raise OutputsTooLarge(f"have {len(text)} characters, and a step has room for 4096 bytes")
    found = decode_message(text)
    if not isinstance(found, dict):
        raise UnstorableJson
    return make_outputs(found)


def make_outputs(values: dict[str, Any]) -> dict[str, Any] | None:
    """Return values as outputs of a status, None without any. Raises as `read_outputs`."""
    return _bounded(_to_storable(values, 0))


def measure_outputs(outputs: dict[str, Any]) -> int:
    return len(msgspec.json.encode(outputs))


def _to_storable(value: Any, depth: int) -> Any:
    """Return JSON as the API server stores it."""
    if depth > _MAX_DEPTH:
        raise UnstorableJson
    if isinstance(value, dict):
        entries = value.items()
        # the merge patch that writes a status would remove nulls
        return {key: _to_storable(each, depth + 1) for key, each in entries if each is not None}
    if isinstance(value, list):
        return [_to_storable(item, depth + 1) for item in value]
    # Go reads such a number as a float
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        try:
            return float(value)
        except OverflowError:
            raise UnstorableJson from None
    return value
