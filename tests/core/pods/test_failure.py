"""The pod that made a vcjob fail, and its message."""

from datetime import UTC, datetime, timedelta
from itertools import permutations

import msgspec
import pytest

from jobflow.api.flow.status import StepFailure
from jobflow.api.volcano.pod import ContainerStatus, Pod
from jobflow.core.pods.failure import FACTS, FACTS_OF_CHILD, find_first_failure, read_facts
from support.plan.plan_pods import pod_of
from support.plan.plan_world import flow
from support.sandbox.containers import ended, restarted, running, waiting_container, with_containers

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
JOB = flow("b").job("b", "Failed")


def pod(task: str = "worker", index: int = 0, phase: str = "Failed") -> Pod:
    return pod_of(JOB, task, index, phase)


def after(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def text(*pods: Pod) -> str:
    found = find_first_failure(pods)
    return found.message if found is not None else ""


def test_a_failure_has_container_exit_code_and_node() -> None:
    found = find_first_failure([with_containers(pod(index=1), ended(3), node="n1")])
    assert found is not None
    assert found.sure
    assert found.failure == StepFailure(
        task="worker", pod="f-b-worker-1", container="c", exit_code=3, reason="Error", node="n1"
    )
    assert found.message == "pod f-b-worker-1 (task worker): exit code 3 (Error) on node n1"


def test_the_failed_one_of_several_containers_is_named() -> None:
    several = with_containers(pod(), ended(0, name="main"), ended(137, "OOMKilled", name="side"))
    assert (
        text(several) == "pod f-b-worker-0 (task worker, container side): exit code 137 (OOMKilled)"
    )


def test_a_failed_init_container_is_named() -> None:
    init = (ended(0, name="first"), ended(2, name="fetch"))
    found = with_containers(pod(), waiting_container("PodInitializing"), init=init)
    assert text(found) == "pod f-b-worker-0 (task worker, container fetch): exit code 2 (Error)"


def test_the_first_failure_is_found_in_any_order_of_pods() -> None:
    """The other pods were killed, or failed as a result."""
    pods = [
        with_containers(pod(index=0), ended(143, at=after(9))),
        with_containers(pod(index=1), ended(1, at=after(3))),
        with_containers(pod("ps"), ended(1)),
        with_containers(pod(index=2), ended(1, at=after(3))),
        with_containers(pod(index=3, phase="Succeeded"), ended(0, at=after(1))),
    ]
    found = {text(*order) for order in permutations(pods)}
    assert found == {"pod f-b-worker-1 (task worker): exit code 1 (Error)"}


def test_an_eviction_is_reported_instead_of_the_exit_code() -> None:
    evicted = with_containers(
        pod(), ended(137, at=after(1)), node="n2", reason="Evicted", message="low on memory"
    )
    found = find_first_failure([evicted])
    assert found is not None
    assert found.failure == StepFailure(
        task="worker",
        pod="f-b-worker-0",
        reason="Evicted",
        node="n2",
        message="low on memory",
        disruption=True,
    )
    assert found.message == "pod f-b-worker-0 (task worker): Evicted on node n2: low on memory"


def test_a_failed_pod_without_details_has_a_short_message() -> None:
    assert text(pod()) == "pod f-b-worker-0 (task worker): failed"


def test_a_start_error_has_the_message_of_the_kubelet() -> None:
    started = with_containers(pod(), ended(128, "StartError", message="exec: pythn:\n not found"))
    assert text(started) == (
        "pod f-b-worker-0 (task worker): exit code 128 (StartError): exec: pythn: not found"
    )


TRACEBACK = 'Traceback (most recent call last):\n  File "load.py", line 1\nValueError: no  rows\n\n'


@pytest.mark.parametrize(
    ("wrote", "told"),
    [
        ("no rows", ": no rows"),
        (TRACEBACK, ": ValueError: no rows"),
        ("99%\r\x1b[31mno rows", ": \x1b[31mno rows"),
        ("[Errno 2] no file", ": [Errno 2] no file"),
        ("no\udc80 rows", ": no? rows"),
        ("42", ": 42"),
        ('{"rows": 0}', ""),
        ("[]\n", ""),
        (" \n ", ""),
        ("[" * 4000, ": " + "[" * 4000),
    ],
)
def test_the_last_line_that_a_container_wrote_is_told_unless_it_wrote_outputs(
    wrote: str, told: str
) -> None:
    found = with_containers(pod(), ended(1, message=wrote), node="n")
    assert text(found) == f"pod f-b-worker-0 (task worker): exit code 1 (Error) on node n{told}"


def test_a_known_signal_is_named() -> None:
    assert text(with_containers(pod(), ended(0, "Killed", signal=9))) == (
        "pod f-b-worker-0 (task worker): signal 9 (Killed)"
    )


@pytest.mark.parametrize(
    ("container", "expected"),
    [
        (ended(1), "exit code 1 (Error)"),
        (restarted(ended(2)), "exit code 2 (Error)"),
        (
            waiting_container("ImagePullBackOff", message="no such image"),
            "ImagePullBackOff: no such image",
        ),
        (waiting_container("CrashLoopBackOff"), "CrashLoopBackOff"),
    ],
)
def test_a_pod_with_errors_is_named_if_no_pod_has_failed(
    container: ContainerStatus, expected: str
) -> None:
    found = find_first_failure([with_containers(pod(phase="Running"), container)])
    assert found is not None
    assert not found.sure
    assert found.message == f"pod f-b-worker-0 (task worker): {expected}"
    sure = with_containers(pod("z", 9), ended(7))
    assert text(with_containers(pod(phase="Running"), container), sure).startswith("pod f-b-z-9")


def test_a_container_in_a_crash_loop_has_its_last_exit_code() -> None:
    crash = msgspec.structs.replace(
        waiting_container("CrashLoopBackOff"), last_state=ended(5, at=after(2)).state
    )
    assert text(with_containers(pod(phase="Running"), crash)).endswith("exit code 5 (Error)")


@pytest.mark.parametrize(
    "harmless",
    [
        pod(phase="Running"),
        pod(phase="Pending"),
        pod(phase="Succeeded"),
        with_containers(pod(phase="Running"), ended(0), running("side")),
        with_containers(pod(phase="Pending"), waiting_container("ContainerCreating")),
        with_containers(pod(phase="Succeeded"), restarted(ended(1))),
    ],
)
def test_pods_without_errors_are_not_named(harmless: Pod) -> None:
    assert find_first_failure([harmless]) is None
    assert find_first_failure([]) is None


def test_a_pod_without_a_task_is_named_without_one() -> None:
    unlabelled = msgspec.structs.replace(
        pod(), metadata=msgspec.structs.replace(pod().metadata, labels=None)
    )
    assert text(with_containers(unlabelled, ended(1))) == "pod f-b-worker-0: exit code 1 (Error)"


def test_expressions_see_every_fact_also_if_no_pod_is_known() -> None:
    assert read_facts(None) == {
        "exitCode": -1,
        "signal": 0,
        "reason": "",
        "node": "",
        "task": "",
        "pod": "",
        "message": "",
        "seconds": 0,
        "disruption": False,
    }
    assert {*read_facts(None)} == FACTS.keys() - FACTS_OF_CHILD
    assert read_facts(None, of_child=True) == {**read_facts(None), "step": ""}


def test_expressions_see_the_facts_of_the_pod_that_failed() -> None:
    container = ended(137, "OOMKilled", at=after(42), message="out\nof  memory")
    terminated = msgspec.structs.replace(container.state.terminated, started_at=NOON)
    container = msgspec.structs.replace(
        container, state=msgspec.structs.replace(container.state, terminated=terminated)
    )
    found = find_first_failure([with_containers(pod(), container, node="n1")])
    assert found is not None
    assert read_facts(found.failure) == {
        "exitCode": 137,
        "signal": 9,
        "reason": "OOMKilled",
        "node": "n1",
        "task": "worker",
        "pod": "f-b-worker-0",
        "message": "out of memory",
        "seconds": 42,
        "disruption": False,
    }


@pytest.mark.parametrize(
    ("container", "signal", "message"),
    [
        (ended(3), 0, "exit code 3 (Error)"),
        (ended(143), 15, "exit code 143 (Error)"),
        (ended(255), 0, "exit code 255 (Error)"),
        (ended(0, "Killed", signal=9), 9, "signal 9 (Killed)"),
    ],
)
def test_the_message_of_a_container_without_one_is_its_end(
    container: ContainerStatus, signal: int, message: str
) -> None:
    found = find_first_failure([with_containers(pod(), container)])
    assert found is not None
    facts = read_facts(found.failure)
    assert (facts["signal"], facts["message"]) == (signal, message)


def test_the_fact_of_a_long_message_is_its_last_line() -> None:
    long = "File load.py, line 3\n" * 40 + "ValueError: no rows\n"
    found = find_first_failure([with_containers(pod(), ended(1, message=long))])
    assert found is not None
    assert found.failure.message == "ValueError: no rows"


@pytest.mark.parametrize("character", ["x", "ä", "\N{GRINNING FACE}", '"', "\x01"])
def test_a_long_message_is_cut_to_the_room_that_a_status_has(character: str) -> None:
    found = find_first_failure([with_containers(pod(), ended(1, message=character * 4000))])
    assert found is not None
    message = found.failure.message
    assert message.endswith("…")
    assert 245 < len(msgspec.json.encode(message)) - 2 <= 256
