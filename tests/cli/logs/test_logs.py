"""`jobflow logs` on the sandbox's API server, with pods whose logs the test writes."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace as changed

from jobflow.api.flow.control import Approval, ForEach
from jobflow.api.flow.status import ReusedFlow, RunCondition, StepCondition
from jobflow.api.flow.step import Step
from jobflow.api.resources import PODS
from jobflow.cli.logs import printer as flow_logs
from jobflow.cli.logs.command import print_logs
from jobflow.client.errors import CommandError
from jobflow.client.flows.children import FlowFamily
from jobflow.client.logs import stream
from jobflow.client.logs.selection import LogSelection, why_none
from jobflow.client.options import Connection
from jobflow.runtime.logs import configure
from jobflow.sandbox.apiserver.requests.failures import bad_request, failure
from support.plan.flow_statuses import one
from support.sandbox.command_line import logging_restored
from support.sandbox.flow_commands import JOBFLOW, forbid, run_process, set_status
from support.sandbox.logged_pods import LoggedPods, running_flow
from support.sandbox.running_controller import NAMESPACE, Cluster

Print = Callable[..., Awaitable[str]]


@pytest.fixture
def pods() -> LoggedPods:
    return LoggedPods()


@pytest.fixture
async def world(pods: LoggedPods) -> AsyncIterator[Cluster]:
    async with running_flow(pods) as world:
        yield world


@pytest.fixture
def errors() -> list[str]:
    """The lines on stderr of the commands that `logs` has run."""
    return []


@pytest.fixture
def logs(
    kubeconfig: Path, capsys: pytest.CaptureFixture[str], errors: list[str]
) -> Iterator[Print]:
    """Return a function that runs the command on the test's own loop and returns the output."""

    async def run(step: str | None = None, *, code: int = 0, **options: Any) -> str:
        follow, since = options.pop("follow", False), options.pop("since", None)
        selection = replace(LogSelection(), **options)
        capsys.readouterr()
        connection = Connection(kubeconfig=str(kubeconfig))
        done = print_logs("f", connection, selection, step=step, follow=follow, since=since)
        assert await done == code
        out, err = capsys.readouterr()
        errors.extend(err.splitlines())
        return out

    with logging_restored():
        configure(level=logging.CRITICAL)
        yield run


async def refusal(logs: Print, *arguments: Any, **options: Any) -> str:
    """Return the code and the sentence of the error that ends the command."""
    with pytest.raises(CommandError) as caught:
        await logs(*arguments, **options)
    return f"{caught.value.code}: {caught.value}"


# ---------------------------------------------------------------------- which logs


@pytest.mark.long
async def test_pods_come_one_after_another_as_they_started(
    world: Cluster, pods: LoggedPods, kubeconfig: Path
) -> None:
    await pods.create(world, "f-b-0", "b", text="late\n", started=False)
    await pods.create(world, "f-a-0", "a", text="one\ntwo\n")
    await pods.create(world, "g-a-0", "a", text="of another flow\n", flow="g")
    await pods.start(world, "f-b-0")
    result = await run_process(kubeconfig, "logs", "jf/f")
    lines = ["a/f-a-0 │ one", "a/f-a-0 │ two", "b/f-b-0 │ late"]
    assert (result.code, result.err, result.out.splitlines()) == (0, "", lines)


async def several(world: Cluster, pods: LoggedPods) -> None:
    await pods.create(world, "f-a-0", "a", text="a0\n", task="ps")
    await pods.create(world, "f-a-1", "a", text="a1\n", task="worker")
    for index in (0, 1):
        await pods.create(world, f"f-c-{index}", "c", text=f"c{index}\n", index=index)
    two = {"containers": "main side", "init": "prepare"}
    await pods.create(world, "f-b-0", "b", text="b0\n", **two)
    pods.of("f-b-0", "side").text = b"beside\n"
    pods.of("f-b-0", "prepare").text = b"before\n"
    await set_status(
        world,
        {"conditions": {"f-c": {"phase": "Running", "runs": [{"index": 0}, {"index": 1}]}}},
    )


@pytest.mark.parametrize(
    ("step", "options", "texts"),
    [
        (None, {}, ["a0", "a1", "c0", "c1", "b0", "beside"]),
        ("a", {}, ["a0", "a1"]),
        ("c", {}, ["c0", "c1"]),
        ("c/1", {}, ["c1"]),
        ("a", {"task": "ps"}, ["a0"]),
        (None, {"pod": "f-a-1"}, ["a1"]),
        (None, {"container": "side"}, ["beside"]),
        ("b", {"container": "prepare"}, ["before"]),
        ("b", {"container": "main"}, ["b0"]),
    ],
)
async def test_logs_are_selected(
    world: Cluster,
    pods: LoggedPods,
    logs: Print,
    step: str | None,
    options: dict[str, str],
    texts: list[str],
) -> None:
    await several(world, pods)
    lines = (await logs(step, **options)).splitlines()
    assert [line.partition(" │ ")[2] for line in lines] == texts


@pytest.mark.long
async def test_a_container_is_named_if_its_pod_has_several(
    world: Cluster, pods: LoggedPods, logs: Print
) -> None:
    await several(world, pods)
    assert await logs("b") == "b/f-b-0/main │ b0\nb/f-b-0/side │ beside\n"


async def test_only_containers_with_an_error_are_failed(
    world: Cluster, pods: LoggedPods, logs: Print, errors: list[str]
) -> None:
    await several(world, pods)
    await pods.end(world, "f-b-0", main=0, side=3)
    await pods.end(world, "f-a-0")
    assert await logs(failed=True) == "b/f-b-0/side │ beside\n"
    assert await logs("a", failed=True) == ""
    assert errors == ['jobflow: info: no container of step "a" has ended with an error']


async def test_an_init_container_that_failed_is_shown(
    world: Cluster, pods: LoggedPods, logs: Print
) -> None:
    await pods.create(world, "f-a-0", "a", init="prepare", started=False)
    pods.of("f-a-0", "prepare").text = b"no data\n"
    failed = [{"name": "prepare", "state": {"terminated": {"exitCode": 1}}}]
    await pods.set_status(world, "f-a-0", phase="Failed", initContainerStatuses=failed)
    assert await logs(failed=True) == "a/f-a-0/prepare │ no data\n"


async def test_pods_of_a_deleted_flow_of_the_same_name_are_left_out(
    world: Cluster, pods: LoggedPods, logs: Print
) -> None:
    await pods.create(world, "f-a-0", "a", text="old\n")
    stored = world.server.storage.get("jobflows.flow.volcano.sh", (NAMESPACE, "f"))
    assert stored is not None
    later = {**stored.obj, "metadata": {**stored.obj["metadata"]}}
    later["metadata"]["creationTimestamp"] = "2100-01-01T00:00:00Z"
    world.server.storage.put("jobflows.flow.volcano.sh", stored.key, later)
    assert "has no pod" in await refusal(logs)


# ---------------------------------------------------------------------- lines


async def test_lines_are_selected_by_the_server(
    world: Cluster, pods: LoggedPods, logs: Print
) -> None:
    await pods.create(world, "f-a-0", "a", text="one\ntwo\nthree\n")
    assert await logs(tail=1) == "a/f-a-0 │ three\n"
    assert await logs(tail=1, timestamps=True) == "a/f-a-0 │ 2026-01-01T12:00:00.200000000Z three\n"
    assert await logs(since="1m30s") == ""
    path = f"{PODS.path(NAMESPACE)}/f-a-0/log"
    assert world.server.requests[-1].path == path
    assert world.server.requests[-1].query == {"container": "main", "sinceSeconds": "90"}


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        (b"\x1b[31mred\x1b[0m\n", "red"),
        (b"\x1b]0;title\x07\x9b2J\n", "\ufffd2J"),
        (b"10%\r50%\r100%\r\n", "100%"),
        (b"a\tb\n", "a\tb"),
        ("größer\u202e\n".encode(), "größer\ufffd"),
        (b"\xff\xfe\n", "\ufffd\ufffd"),
        (b"\n", ""),
        (b"no line break", "no line break"),
    ],
)
async def test_a_line_is_plain_text(
    world: Cluster, pods: LoggedPods, logs: Print, written: bytes, shown: str
) -> None:
    await pods.create(world, "f-a-0", "a", text=written)
    assert await logs() == f"a/f-a-0 │ {shown}\n"


async def test_a_huge_line_is_cut_between_characters(
    world: Cluster, pods: LoggedPods, logs: Print, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "LONGEST_LINE", 5)
    await pods.create(world, "f-a-0", "a", text="ööö\nab\n")
    assert await logs() == "a/f-a-0 │ öö\na/f-a-0 │ ö\na/f-a-0 │ ab\n"


def test_a_long_line_continues_on_rows_with_the_prefix(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in {"FORCE_COLOR": "1", "TERM": "xterm", "COLUMNS": "40"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("NO_COLOR", raising=False)
    printer = flow_logs.LogPrinter(["train", "test"])
    printer.print("train", "train/f-train-main-0", [b"x" * 25, b""])
    printer.print("test", "test/p", ["日本語".encode() * 6])
    assert capsys.readouterr().out.splitlines() == [
        "\x1b[36mtrain/…ain-main-0 │ \x1b[0m" + "x" * 20,
        "\x1b[36mtrain/…ain-main-0 │ \x1b[0m" + "x" * 5,
        "\x1b[36mtrain/…ain-main-0 │ \x1b[0m",
        "\x1b[32mtest/p │ \x1b[0m" + "日本語" * 5,
        "\x1b[32mtest/p │ \x1b[0m" + "日本語",
    ]


@pytest.mark.long
async def test_a_closed_pipe_ends_the_command_quietly(
    world: Cluster, pods: LoggedPods, kubeconfig: Path
) -> None:
    await pods.create(world, "f-a-0", "a", text="line of the log\n" * 100_000)
    script = '"$0" logs f --kubeconfig "$1" | head -1; echo "${PIPESTATUS[0]}"'
    command = ["bash", "-c", script, str(JOBFLOW), str(kubeconfig)]
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=pipe)
    out, err = await process.communicate()
    assert (out.decode().splitlines(), err) == (["a/f-a-0 │ line of the log", "0"], b"")


# ---------------------------------------------------------------------- what cannot be shown


async def test_a_container_that_waits_is_a_warning(
    world: Cluster, pods: LoggedPods, logs: Print, errors: list[str]
) -> None:
    await pods.create(world, "f-a-0", "a", started=False)
    reason = {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}
    await pods.set_status(world, "f-a-0", containerStatuses=[{"name": "main", "state": reason}])
    await pods.create(world, "f-b-0", "b", text="fine\n")
    assert await logs() == "b/f-b-0 │ fine\n"
    why = "no log yet: ImagePullBackOff: no such image"
    assert errors == [f"jobflow: warning: a/f-a-0: {why}"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("B",), '2: JobFlow f has no step "B"; did you mean "b"?'),
        (("a/0",), '2: step "a" has no items, because it has no forEach or repeat: write a'),
        (("c/7",), '2: step "c" has no item "7": the started ones are 0 to 1'),
        (("c/x",), '2: step "c" has no item "x": the started ones are 0 to 1'),
    ],
)
async def test_an_unknown_step_is_an_error(
    world: Cluster, pods: LoggedPods, logs: Print, arguments: tuple[str, ...], sentence: str
) -> None:
    await several(world, pods)
    assert await refusal(logs, *arguments) == sentence


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"pod": "f-a-2"}, '2: step "a" has no pod "f-a-2"; did you mean "f-a-1"?'),
        ({"task": "wroker"}, '2: step "a" has no task "wroker"; did you mean "worker"?'),
        ({"task": "x"}, '2: step "a" has no task "x": it has ps, worker'),
        ({"container": "mian"}, '2: step "a" has no container "mian"; did you mean "main"?'),
        (
            {"task": "ps", "pod": "f-a-1"},
            '2: step "a" has no pod with all of these: --pod f-a-1, --task ps',
        ),
        ({"since": "1x"}, '2: --since "1x" is not a duration: write it like 2s, 500ms or 1m30s'),
    ],
)
async def test_an_unknown_pod_task_or_container_is_an_error(
    world: Cluster, pods: LoggedPods, logs: Print, options: dict[str, str], sentence: str
) -> None:
    await several(world, pods)
    assert await refusal(logs, "a", **options) == sentence


@pytest.mark.parametrize(
    ("condition", "step", "why"),
    [
        (
            {"phase": "Waiting", "message": "waits for a"},
            "b",
            'step "b" has no pods, because it has not started: waits for a',
        ),
        (
            {"phase": "Skipped", "message": "a failed"},
            "b",
            'step "b" has no pods, because it was skipped: a failed',
        ),
        (
            {"phase": "Completed", "attempts": 1},
            "b",
            'step "b" has ended, and its pods are deleted, by ttlSecondsAfterFinished or by a user',
        ),
        (
            {"phase": "Failed", "reason": "Cancelled", "attempts": 1},
            "b",
            'step "b" has ended, and its pods are deleted: Volcano deletes the pods of a job that '
            "is aborted (b: Cancelled)",
        ),
        *(
            (
                {"phase": phase, "reason": reason, "attempts": 1},
                "b",
                'step "b" has ended, and its pods are deleted: Volcano deletes the pods of a job '
                f"that is aborted (b: {reason})",
            )
            for phase, reason in (("Skipped", "SkippedByUser"), ("Failed", "CancelledByUser"))
        ),
        (
            {"phase": "Skipped", "reason": "SkippedByUser", "message": "it was skipped by ann"},
            "b",
            'step "b" has no pods, because it was skipped: it was skipped by ann',
        ),
        (
            {"phase": "Pending", "attempts": 1},
            "b",
            'step "b" has no pods at present; -f shows the logs of those that will start',
        ),
        ({"phase": "Waiting"}, None, "JobFlow f has no pods, because it has not started"),
    ],
)
async def test_without_pods_the_reason_is_given(
    world: Cluster, logs: Print, condition: dict[str, Any], step: str | None, why: str
) -> None:
    await set_status(world, {"conditions": {"f-b": condition}})
    assert await refusal(logs, step) == f"2: {why}"


@pytest.mark.parametrize(
    ("selection", "why"),
    [
        (LogSelection("a"), "has no pods, because a step that waits for approval runs no job"),
        (LogSelection(), "has no pods, because nothing of it has started"),
    ],
)
def test_an_approval_never_had_pods(selection: LogSelection, why: str) -> None:
    rejected = StepCondition(phase="Failed", reason="Rejected", attempts=1)
    subject = one(Step(name="a", approval=Approval()), rejected, "Failed")
    assert why_none(FlowFamily(subject, (), ()), (), selection).endswith(why)


async def test_the_step_whose_timeout_deleted_the_pods_is_named(
    world: Cluster, logs: Print
) -> None:
    failed = {"phase": "Failed", "reason": "Timeout", "attempts": 1}
    state = {"phase": "Failed", "reason": "StepFailed"}
    await set_status(world, {"state": state, "conditions": {"f-b": failed}})
    assert await refusal(logs) == (
        "2: JobFlow f has ended, and its pods are deleted: Volcano deletes the pods of a job that "
        "is aborted (b: Timeout)"
    )


async def test_a_failed_step_that_was_skipped_later_was_not_aborted(
    world: Cluster, logs: Print
) -> None:
    skipped = {"phase": "Skipped", "reason": "SkippedByUser", "attempts": 1, "job": "f-b"}
    records = [{"name": "f-b", "state": "Failed"}]
    await set_status(world, {"conditions": {"f-b": skipped}, "jobStatusList": records})
    assert await refusal(logs, "b") == '2: step "b" has no pods, because it was skipped'


@pytest.mark.parametrize(
    ("selection", "jobs", "why"),
    [
        (LogSelection("a"), ["e-a-r1"], "its result is that of JobFlow e; {} `jobflow logs e a`"),
        (
            LogSelection("a", 1),
            ["e-a-7", "e-a-3-r2"],
            "its result is that of JobFlow e; {} `jobflow logs e a/3`",
        ),
        # e has reused it too
        (
            LogSelection("a", 0),
            ["first-a-3", ""],
            "its result is that of JobFlow e; {} `jobflow logs e a`",
        ),
        (LogSelection(), ["e-a"], "its results are those of JobFlow e; {} `jobflow logs e`"),
    ],
)
def test_the_log_of_a_reused_step_is_in_the_flow_that_ran_it(
    selection: LogSelection, jobs: list[str], why: str
) -> None:
    runs = [
        RunCondition(index=i, phase="Completed", reason="Reused", attempts=1, job=job)
        for i, job in enumerate(jobs)
        if job
    ]
    done = StepCondition(phase="Completed", reason="Reused", attempts=1, job=jobs[0])
    if len(jobs) > 1:
        done = changed(done, reason="", runs=runs)
    step = Step(name="a", for_each=ForEach(count=2) if len(jobs) > 1 else None)
    subject = one(step, done, "Succeed")
    subject = changed(subject, status=changed(subject.status, reuse=ReusedFlow(flow="e", uid="u")))
    said = why_none(FlowFamily(subject, (), ()), (), selection)
    told = f"has no pods, because it did not run here: {why.format('its log:')}"
    assert said.endswith(told)


async def test_pods_that_started_in_one_second_are_in_the_order_of_the_steps(
    world: Cluster, pods: LoggedPods, logs: Print
) -> None:
    made = [("p3", "c", 10), ("p2", "c", 9), ("p1", "b", None), ("p4", "a", None)]
    for name, step, index in made:
        await pods.create(world, name, step, text=f"{name}\n", index=index)
        await pods.set_status(world, name, startTime="2026-01-01T12:00:00Z")
    lines = (await logs()).splitlines()
    assert [line.partition(" │ ")[2] for line in lines] == ["p4", "p1", "p2", "p3"]


async def test_a_missing_right_is_named(world: Cluster, pods: LoggedPods, logs: Print) -> None:
    await pods.create(world, "f-a-0", "a", text="secret\n")
    needed = 'logs need the rights to list pods and get pods/log in namespace "default"'
    forbid(world, "GET", "/log")
    assert await refusal(logs) == f"1: {needed}: alice must not"
    assert await refusal(logs, follow=True) == f"1: {needed}: alice must not"
    forbid(world, "GET", "/pods")
    assert await refusal(logs) == f"1: {needed}: alice must not"


async def test_a_log_that_cannot_be_read_does_not_hide_the_others(
    world: Cluster, pods: LoggedPods, logs: Print
) -> None:
    await pods.create(world, "f-a-0", "a", text="lost\n")
    await pods.create(world, "f-b-0", "b", text="fine\n")
    fault = failure(500, "InternalError", "the kubelet does not answer")
    world.fails("GET", "/f-a-0/log", fault)
    assert await logs(code=1) == "b/f-b-0 │ fine\n"
    world.fails("GET", "/f-a-0/log", bad_request("waiting to start"))
    assert await logs(code=0) == "b/f-b-0 │ fine\n"
