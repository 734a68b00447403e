"""`jobflow cancel`, `suspend`, `resume` and `retry`: the Commands they send, and their errors."""

from pathlib import Path
from typing import Any

import pytest

from jobflow.api.resources import COMMANDS, CRDS, JOBFLOWS
from jobflow.sandbox.apiserver.requests.failures import failure
from support.sandbox.command_line import Result
from support.sandbox.flow_commands import (
    BUSY,
    IDLE,
    SUSPENDED,
    Status,
    forbid,
    run_command,
    set_status,
)
from support.sandbox.running_controller import NAMESPACE, Cluster, flow

RUNNING: Status = {"state": {"phase": "Running"}, "progress": "1/2"}
FAILED: Status = {"state": {"phase": "Failed", "reason": "StepFailed"}, "progress": "1/1"}
SUCCEED: Status = {"state": {"phase": "Succeed"}}
TOLERATED: Status = {**SUCCEED, "toleratedInChildren": True}
CANCELLED: Status = {"state": {"phase": "Running", "reason": "Cancelled"}}
TIMEOUT: Status = {"state": {"phase": "Running", "reason": "Timeout"}}
IS_STEP = "is a step of JobFlow f: write `jobflow why f"
FINALLY = {"finally": [{"name": "z", "template": "a"}]}


@pytest.mark.parametrize(
    ("command", "status", "action"),
    [
        ("cancel f", RUNNING, "TerminateJob"),
        ("cancel f --now", RUNNING, "TerminateNow"),
        ("suspend f", RUNNING, "SuspendFlow"),
        ("suspend f", {}, "SuspendFlow"),
        ("suspend f --abort", RUNNING, "AbortJob"),
        ("suspend f --abort", BUSY, "AbortJob"),
        ("resume f", SUSPENDED, "ResumeJob"),
        ("retry f", FAILED, "RestartJob"),
        ("retry f --tolerated", FAILED, "RetryTolerated"),
        ("retry f --tolerated", TOLERATED, "RetryTolerated"),
    ],
)
async def test_each_verb_sends_the_same_command_as_vcctl(
    world: Cluster, kubeconfig: Path, command: str, status: Status, action: str
) -> None:
    await world.apply(flow("f", {"a": ""}))
    await set_status(world, status)
    result = await run_command(kubeconfig, *command.split())
    [sent] = await world.raw(COMMANDS)
    uid = (await world.flow("f")).metadata.uid
    target = {"apiVersion": JOBFLOWS.api_version, "kind": "JobFlow", "name": "f", "uid": uid}
    assert (sent["action"], sent["target"]) == (action, target)
    assert sent["metadata"]["ownerReferences"] == [target]
    assert sent["metadata"]["generateName"] == f"f-{action.lower()}-"
    sentence = f"{command.split()[0]} requested (Command {sent['metadata']['name']})"
    assert result == Result(0, f"JobFlow f: {sentence}\n", "")


async def test_a_flow_that_was_created_suspended_is_resumed(
    world: Cluster, kubeconfig: Path
) -> None:
    await world.apply(flow("f", {"a": ""}, suspend=True))
    assert (await run_command(kubeconfig, "resume", "f")).code == 0


FINISHED = "has already finished: Failed, 1/1 steps finished (StepFailed)"
RESUME = "is already suspended; `jobflow resume f` resumes it"
HALTING = "is already being cancelled and finishes once its jobs have finished"
FINALLY_TOO = "and its finally has run; `jobflow cancel --now f` cancels finally too"


@pytest.mark.parametrize(
    ("command", "spec", "status", "sentence"),
    [
        ("cancel f", {}, SUCCEED, "has already finished: Succeed"),
        ("cancel f", {}, CANCELLED, f"{HALTING}; it has no finally"),
        ("cancel f --now", {}, CANCELLED, f"{HALTING}; it has no finally"),
        ("cancel f --wait", FINALLY, CANCELLED, f"{HALTING} {FINALLY_TOO}"),
        (
            "cancel f",
            FINALLY,
            TIMEOUT,
            "is already being ended (Timeout) and finishes once its jobs have finished "
            + FINALLY_TOO,
        ),
        *(
            (
                f"cancel f{now}",
                FINALLY,
                {**CANCELLED, "finallyCancelled": True},
                f"{HALTING}; its finally is being cancelled too",
            )
            for now in ("", " --now")
        ),
        ("suspend f", {}, FAILED, FINISHED),
        ("suspend f --abort", {}, FAILED, FINISHED),
        ("suspend f", {}, IDLE, RESUME),
        ("suspend f --abort", {}, IDLE, RESUME),
        ("suspend f", {}, BUSY, f"{RESUME}, `jobflow suspend --abort f` aborts its jobs"),
        ("resume f", {}, RUNNING, "is not suspended: Running, 1/2 steps finished"),
        ("resume f", {}, {}, "is not suspended: Pending"),
        ("resume f", {}, SUCCEED, "has already finished: Succeed"),
        ("resume f", {}, FAILED, f"{FINISHED}; `jobflow retry f` runs it again"),
        (
            "retry f",
            {},
            SUCCEED,
            "has succeeded; `jobflow resubmit f` runs its spec once more. `jobflow retry f --step "
            "STEP` runs only a step, and what was made of it, again",
        ),
        (
            "retry f --tolerated",
            {},
            SUCCEED,
            "has succeeded; `jobflow resubmit f` runs its spec once more. `jobflow retry f --step "
            "STEP` runs only a step, and what was made of it, again",
        ),
        (
            "retry f",
            {},
            TOLERATED,
            "has succeeded; `jobflow retry --tolerated f` runs its tolerated failures again, "
            "`jobflow resubmit f` runs its spec once more. `jobflow retry f --step STEP` runs only "
            "a step, and what was made of it, again",
        ),
        (
            "retry f",
            {},
            RUNNING,
            "is Running, 1/2 steps finished; only a Failed flow can be retried. `jobflow why f` "
            "explains what it waits for, `jobflow cancel f` cancels it",
        ),
        (
            "retry f",
            {},
            {"state": {"phase": "Failed", "reason": "Invalid"}},
            "is invalid, and a retry would fail again: correct its file, and submit it under "
            "another name: `jobflow submit FILE --name f-2`",
        ),
        ("retry f", {}, SUSPENDED, "is suspended; `jobflow resume f` resumes it"),
    ],
)
async def test_a_command_without_effect_is_refused(
    world: Cluster,
    kubeconfig: Path,
    command: str,
    spec: dict[str, Any],
    status: Status,
    sentence: str,
) -> None:
    await world.apply(flow("f", {"a": ""}, **spec))
    await set_status(world, status)
    result = await run_command(kubeconfig, *command.split())
    assert result == Result(1, "", f"jobflow: error: JobFlow f {sentence}\n")
    assert await world.raw(COMMANDS) == []


async def test_a_flow_that_is_being_deleted_is_not_cancelled(
    world: Cluster, kubeconfig: Path
) -> None:
    manifest = flow("f", {"a": ""})
    manifest["metadata"]["finalizers"] = ["example.com/hold"]
    await world.apply(manifest)
    await world.client.delete(JOBFLOWS, NAMESPACE, "f")
    result = await run_command(kubeconfig, "cancel", "f")
    assert result == Result(1, "", "jobflow: error: JobFlow f is being deleted\n")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("g",), 'JobFlow "g" does not exist in namespace "default"'),
        (("f", "-n", "elsewhere"), 'JobFlow "f" does not exist in namespace "elsewhere"'),
        (("f/status",), '"f/status" is not a JobFlow: write status or jf/status'),
        (("",), 'JobFlow "" does not exist in namespace "default"'),
        (
            ("nightyl",),
            'JobFlow "nightyl" does not exist in namespace "default"; did you mean "nightly"?',
        ),
    ],
)
async def test_a_missing_flow_is_an_error(
    world: Cluster, kubeconfig: Path, arguments: tuple[str, ...], sentence: str
) -> None:
    await world.apply(flow("f", {"a": ""}), flow("nightly", {"a": ""}))
    result = await run_command(kubeconfig, "cancel", *arguments)
    assert result == Result(2, "", f"jobflow: error: {sentence}\n")


async def test_a_missing_kubeconfig_is_an_error(tmp_path: Path) -> None:
    result = await run_command(tmp_path / "none", "cancel", "f")
    sentence = f"kubeconfig {tmp_path / 'none'}: no such file"
    assert result == Result(2, "", f"jobflow: error: {sentence}\n")


# ---------------------------------------------------------------------- several flows


async def test_each_named_flow_gets_its_command(world: Cluster, kubeconfig: Path) -> None:
    await world.apply(flow("f", {"a": ""}), flow("g", {"a": ""}), flow("h", {"a": ""}))
    result = await run_command(kubeconfig, "suspend", "f", "jf/g")
    assert (result.code, result.err) == (0, "")
    assert [line.split(" (")[0] for line in result.out.splitlines()] == [
        "JobFlow f: suspend requested",
        "JobFlow g: suspend requested",
    ]
    assert [sent["target"]["name"] for sent in await world.raw(COMMANDS)] == ["f", "g"]


@pytest.mark.parametrize("arguments", [("-l", "team=vision"), ("-A", "-l", "team=vision")])
async def test_each_selected_flow_gets_its_command(
    world: Cluster, kubeconfig: Path, arguments: tuple[str, ...]
) -> None:
    labelled = [flow(name, {"a": ""}) for name in "fg"]
    for each in labelled:
        each["metadata"]["labels"] = {"team": "vision"}
    await world.apply(*labelled, flow("h", {"a": ""}))
    result = await run_command(kubeconfig, "cancel", *arguments, "-o", "json")
    assert [each["name"] for each in result.json] == ["f", "g"]
    assert {sent["target"]["name"] for sent in await world.raw(COMMANDS)} == {"f", "g"}


@pytest.mark.parametrize(
    ("names", "code"), [(("done", "f"), 1), (("absent", "f"), 2), (("absent", "f", "done"), 2)]
)
async def test_a_refused_flow_does_not_stop_the_others(
    world: Cluster, kubeconfig: Path, names: tuple[str, ...], code: int
) -> None:
    await world.apply(flow("done", {"a": ""}), flow("f", {"a": ""}))
    await set_status(world, SUCCEED, "done")
    result = await run_command(kubeconfig, "cancel", *names, "-o", "json")
    assert result.code == code
    assert [each["name"] for each in result.json] == ["f"]
    errors = {
        "done": "JobFlow done has already finished: Succeed",
        "absent": 'JobFlow "absent" does not exist in namespace "default"',
    }
    assert sorted(result.err.splitlines()) == sorted(
        f"jobflow: error: {errors[name]}" for name in names if name != "f"
    )


@pytest.mark.parametrize("verb", ["cancel", "retry"])
@pytest.mark.parametrize(
    ("names", "step"),
    [(("f", "part/2"), "part/2"), (("part", "f"), "part"), (("f", "part"), "part")],
)
async def test_a_step_behind_its_flow_is_given_with_its_flag(
    world: Cluster, kubeconfig: Path, verb: str, names: tuple[str, ...], step: str
) -> None:
    await world.apply(flow("f", {"part": ""}))
    await set_status(world, FAILED if verb == "retry" else RUNNING)
    result = await run_command(kubeconfig, verb, *names)
    sentence = f'"{step}" is a step of JobFlow f: write `jobflow {verb} f --step {step}`'
    assert result == Result(2, "", f"jobflow: error: {sentence}\n")
    assert await world.raw(COMMANDS) == []


@pytest.mark.parametrize("verb", ["suspend", "delete", "wait"])
@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        (("f", "part/2"), f'"part/2" {IS_STEP} part` or `jobflow logs f part/2`'),
        (("f", "part"), f'"part" {IS_STEP} part` or `jobflow logs f part`'),
        (("part", "f"), f'"part" {IS_STEP} part` or `jobflow logs f part`'),
        (("f", "pod/x"), '"pod/x" is not a JobFlow: write x or jf/x'),
    ],
)
async def test_nothing_is_done_if_a_word_is_not_the_name_of_a_flow(
    world: Cluster, kubeconfig: Path, verb: str, names: tuple[str, ...], sentence: str
) -> None:
    await world.apply(flow("f", {"part": ""}))
    await set_status(world, FAILED if verb == "retry" else RUNNING)
    result = await run_command(kubeconfig, verb, *names)
    assert result == Result(2, "", f"jobflow: error: {sentence}\n")
    assert await world.raw(COMMANDS) == []


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((), "no flow is named: give a FLOW, or select flows with -l"),
        (("-A",), "no flow is named: give a FLOW, or select flows with -l"),
        (("f", "-l", "a=b"), "a FLOW excludes -l and -A: give names or a selection"),
        (("-l", "a=b"), 'no JobFlow in namespace "default" matches -l a=b'),
    ],
)
async def test_a_call_without_flows_is_an_error(
    world: Cluster, kubeconfig: Path, arguments: tuple[str, ...], sentence: str
) -> None:
    await world.apply(flow("f", {"a": ""}))
    result = await run_command(kubeconfig, "retry", *arguments)
    assert result == Result(2, "", f"jobflow: error: {sentence}\n")


# ---------------------------------------------------------------------- errors


def _replace(path: Path, old: str, new: str) -> None:
    path.write_text(path.read_text().replace(old, new))


async def test_an_unreachable_cluster_is_an_error(world: Cluster, kubeconfig: Path) -> None:
    _replace(kubeconfig, world.server.url, "http://127.0.0.1:1")
    result = await run_command(kubeconfig, "cancel", "f")
    assert result.code == 2
    assert result.err.startswith("jobflow: error: the API server does not answer: ")


@pytest.mark.parametrize(
    ("crd", "code", "sentence"),
    [
        (
            "commands.bus.volcano.sh",
            1,
            "this cluster has no Commands (bus.volcano.sh/v1alpha1), which cancelling needs: "
            "install Volcano",
        ),
        (
            "jobflows.flow.volcano.sh",
            2,
            "this cluster has no JobFlows: install them with `jobflow crds --apply`",
        ),
    ],
)
async def test_a_missing_definition_is_an_error(
    world: Cluster, kubeconfig: Path, crd: str, code: int, sentence: str
) -> None:
    await world.apply(flow("f", {"a": ""}))
    await world.client.delete(CRDS, "", crd)
    result = await run_command(kubeconfig, "cancel", "f")
    assert result == Result(code, "", f"jobflow: error: {sentence}\n")


@pytest.mark.parametrize(
    ("method", "end", "sentence"),
    [
        (
            "POST",
            "/commands",
            "cancelling needs the right to create commands.bus.volcano.sh in namespace "
            '"default": alice must not',
        ),
        (
            "GET",
            "/jobflows/f",
            "reading JobFlows here needs the role view, which an administrator can bind: "
            "alice must not",
        ),
    ],
)
async def test_a_missing_right_is_an_error(
    world: Cluster, kubeconfig: Path, method: str, end: str, sentence: str
) -> None:
    await world.apply(flow("f", {"a": ""}))
    forbid(world, method, end)
    result = await run_command(kubeconfig, "cancel", "f")
    assert result == Result(1, "", f"jobflow: error: {sentence}\n")


async def test_a_refusal_of_the_webhook_is_no_missing_right(
    world: Cluster, kubeconfig: Path
) -> None:
    message = (
        'admission webhook "commands.flow.volcano.sh" denied the request: flow f is reused by '
        "flow g: wait until it has ended"
    )
    world.fails("POST", "/commands", failure(403, "Forbidden", message), times=None)
    await world.apply(flow("f", {"a": ""}))
    result = await run_command(kubeconfig, "cancel", "f")
    assert result == Result(1, "", f"jobflow: error: {message}\n")
