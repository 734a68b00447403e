"""Outputs in termination messages."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobflow.api.volcano.job import JobOutline
from jobflow.core.limits import MAX_FLOW_OUTPUTS, MAX_STEP_OUTPUTS
from jobflow.core.pods.outputs import (
    FIELD_BYTES,
    OutputsRoom,
    OutputsTooLarge,
    find_output_pod,
    has_output_pod,
    message_limit,
    parse_outputs,
    read_message,
    read_outputs,
)
from support.plan.plan_pods import pod_of, pods_of
from support.plan.plan_world import flow
from support.sandbox.containers import ended, outlined, running, with_containers

JOB = outlined(flow("a").job("a", "Completed"), "ps=1", "worker=2")


@pytest.mark.parametrize(
    ("message", "outputs"),
    [
        ('{"acc": 0.9, "path": "/m/1"}', {"acc": 0.9, "path": "/m/1"}),
        ('\n {"a": {"b": [1, null]}} \n', {"a": {"b": [1, None]}}),
        ("0.9", {"text": "0.9"}),
        ('[1, null, {"a": null}]', {"items": [1, None, {}]}),
        ("[]", {"items": []}),
        ("[1, 2", {"text": "[1, 2"}),
        ('"word"', {"text": '"word"'}),
        (" done\n", {"text": "done"}),
        ('{"acc": 0.9', {"text": '{"acc": 0.9'}),
        ("{'acc': 0.9}", {"text": "{'acc': 0.9}"}),
        ('{"a": NaN}', {"text": '{"a": NaN}'}),
        ("größer", {"text": "größer"}),
        ("a\x00b", {"text": "a\x00b"}),
        ("", None),
        (" \n", None),
        ("{}", None),
        ('{"a": null}', None),
        ('{"a": 1, "b": null, "c": {"d": null}}', {"a": 1, "c": {}}),
    ],
)
def test_json_objects_are_parsed_and_other_messages_are_text(message: str, outputs: object) -> None:
    assert parse_outputs(message) == outputs


def test_invalid_utf8_is_replaced() -> None:
    assert parse_outputs("caf\udce9") == {"text": "caf\ufffd\ufffd\ufffd"}
    assert parse_outputs('{"a": "\\ud800"}') == {"text": '{"a": "\\ud800"}'}


def test_numbers_that_the_api_server_cannot_store_are_converted() -> None:
    assert parse_outputs('{"n": 9223372036854775807}') == {"n": 2**63 - 1}
    assert parse_outputs('{"n": 9223372036854775808}') == {"n": float(2**63)}
    for number in ("1e400", "9" * 400):
        message = f'{{"n": {number}}}'
        assert parse_outputs(message) == {"text": message}


@pytest.mark.parametrize("opening", ['{"a":', "["])
@pytest.mark.parametrize("levels", [31, 33, 300])
def test_objects_nested_too_deep_are_text(opening: str, levels: int) -> None:
    closing = "}" if opening[0] == "{" else "]"
    message = f'{{"a":{opening * levels}1{closing * levels}}}'
    found = parse_outputs(message)
    assert found is not None
    assert (found.keys() == {"a"}) == (levels < 32)
    assert levels < 32 or found == {"text": message}


def test_a_message_that_the_kubelet_may_have_truncated_is_too_large() -> None:
    longest = '{"a": "' + "x" * 4084 + '"}'
    assert len(longest) == 4093
    assert parse_outputs(longest) is not None
    for message in ("x" * 4096, "ä" * 2048, "x" * 10**6, '{"a": "' + "x" * 4089):
        with pytest.raises(OutputsTooLarge, match="bytes"):
            parse_outputs(message)


@pytest.mark.parametrize("containers", [1, 3, 4, 5, 12])
def test_a_message_of_the_full_size_counts_if_it_is_whole_json(containers: int) -> None:
    """Real Kubernetes shares 12 KiB among the containers of a pod."""
    limit = message_limit(containers)
    assert limit == min(4096, 12_288 // containers)
    whole = '{"a": "' + "x" * (limit - 9) + '"}'
    assert parse_outputs(whole, containers) == {"a": "x" * (limit - 9)}
    assert parse_outputs("x" * (limit - 11), containers) is not None
    for cut in (whole[:-1] + "x", "x" * limit, "1" * limit):
        with pytest.raises(OutputsTooLarge, match=f"were cut at {limit} bytes"):
            parse_outputs(cut, containers)


def test_text_counts_in_utf_8_and_not_as_it_is_escaped() -> None:
    text = "é" * 2000
    assert read_outputs(json.dumps({"a": text})) == {"a": text}
    for write in (json.dumps, lambda value: json.dumps(value, ensure_ascii=False)):
        with pytest.raises(OutputsTooLarge, match="have 4108 bytes"):
            read_outputs(write({"a": "é" * 2050}))


def test_outputs_that_exceed_the_limit_as_json_are_too_large() -> None:
    with pytest.raises(OutputsTooLarge, match="have 18011 bytes as JSON"):
        parse_outputs("\x01" * 3000)


@given(
    st.text(max_size=4200) | st.binary(max_size=4200).map(lambda b: b.decode("utf-8", "replace"))
)
def test_any_message_fits_a_status_or_is_too_large(message: str) -> None:
    try:
        found = parse_outputs(message)
    except OutputsTooLarge:
        assert len(message.encode("utf-8", "surrogatepass")) > 600
        return
    stored = msgspec.json.encode(found)
    assert len(stored) <= MAX_STEP_OUTPUTS
    assert msgspec.json.decode(stored) == found


# ------------------------------------------------------------------ the pod of the outputs


def test_the_output_pod_is_the_first_pod_of_the_first_task() -> None:
    pods = pods_of(JOB, worker="Succeeded Succeeded", ps="Succeeded")
    found = find_output_pod(JOB.spec, pods.values())
    assert found is not None
    assert found.metadata.name == "f-a-ps-0"
    del pods["f-a-ps-0"]
    assert find_output_pod(JOB.spec, pods.values()) is None


def test_a_task_without_a_name_has_the_name_that_volcano_gives() -> None:
    spec = msgspec.convert({"tasks": [{"replicas": 1}]}, JobOutline)
    found = find_output_pod(spec, [pod_of(JOB, "default0", 0)])
    assert found is not None


@pytest.mark.parametrize("spec", [{}, {"tasks": []}, {"tasks": [{"replicas": 0}]}, {"tasks": [{}]}])
def test_a_job_without_pods_has_no_output_pod(spec: dict[str, object]) -> None:
    assert not has_output_pod(msgspec.convert(spec, JobOutline))
    assert has_output_pod(JOB.spec)


def test_the_message_is_that_of_the_first_container_of_the_spec() -> None:
    """The statuses of a pod are sorted by name, and may include a sidecar."""
    pod = pod_of(JOB, "ps", 0, "Succeeded")
    statuses = (ended(0, name="a-sidecar", message="no"), ended(0, name="c", message="yes"))
    assert read_message(JOB.spec, with_containers(pod, *statuses)) == "yes"
    single = with_containers(pod, ended(0, name="other", message="who else"))
    assert read_message(JOB.spec, single) == "who else"
    two = with_containers(pod, ended(0, name="x"), ended(0, name="y"))
    assert read_message(JOB.spec, two) == ""


def test_there_is_no_message_before_the_container_has_ended() -> None:
    pod = pod_of(JOB, "ps", 0, "Running")
    assert read_message(JOB.spec, with_containers(pod, running())) is None
    assert (
        read_message(JOB.spec, with_containers(pod, ended(0, message="m"), running("side"))) == "m"
    )
    assert read_message(JOB.spec, pod_of(JOB, "ps", 0, "Failed")) == ""


def test_a_message_of_the_kubelet_is_no_output() -> None:
    pod = pod_of(JOB, "ps", 0, "Failed")
    message = ended(128, "StartError", message="exec: pythn: not found")
    assert read_message(JOB.spec, with_containers(pod, message)) == ""


# ------------------------------------------------------------------- the limit of a flow


def test_all_outputs_of_a_flow_share_one_limit() -> None:
    each = {"text": "x" * 1000}
    size = len(msgspec.json.encode(each)) + FIELD_BYTES
    room = OutputsRoom([each] * 10)
    for _ in range(MAX_FLOW_OUTPUTS // size - 10):
        room.take(each)
    with pytest.raises(
        OutputsTooLarge, match=r"have 1011 bytes as JSON, and 117 are left of the 65536 for"
    ):
        room.take(each)
    room.take({"a": 1})
