"""`jobflow get` on the sandbox's API server: tables, trees, objects and errors."""

import asyncio
import json
from pathlib import Path

import pytest
import yaml

from jobflow.api.resources import JOBFLOWS, NAMESPACES
from jobflow.sandbox.apiserver.requests.access import kubeconfig as kubeconfig_text
from jobflow.sandbox.apiserver.requests.failures import failure
from support.network.scripted_server import Answer, ScriptedServer
from support.sandbox.command_line import Result
from support.sandbox.flow_commands import (
    FAILED,
    JOBFLOW,
    RUNNING,
    apply_flow,
    forbid,
    run_command,
    run_process,
    set_status,
)
from support.sandbox.running_controller import DIAMOND, NAMESPACE, Cluster, flow


def rows(result: Result) -> list[list[str]]:
    """Return the cells of a table without its column AGE, the last one."""
    assert result.code == 0, result.err
    return [line.split()[:-1] for line in result.out.splitlines()]


# ---------------------------------------------------------------------- lists


async def test_flows_are_listed_by_name(world: Cluster, kubeconfig: Path) -> None:
    await apply_flow(world, "train", RUNNING | {"startTime": None})
    await apply_flow(world, "nightly", FAILED)
    await apply_flow(world, "new")
    assert rows(await run_command(kubeconfig, "get")) == [
        ["NAME", "PHASE", "REASON", "PROGRESS", "DURATION"],
        ["new", "Pending", "0/2"],
        ["nightly", "Failed", "StepFailed", "2/2", "1m5s"],
        ["train", "Running", "1/2"],
    ]


async def test_wide_adds_the_message(world: Cluster, kubeconfig: Path) -> None:
    await apply_flow(world, "f", FAILED | {"state": {**FAILED["state"], "message": "a\x1b[2Jb"}})
    header, line = (await run_command(kubeconfig, "get", "-o", "wide")).out.splitlines()
    assert header.endswith("AGE   MESSAGE")
    assert line.endswith("a\ufffd[2Jb")


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (("-l", "app=train"), ["train"]),
        (("-l", "app!=train"), ["nightly"]),
        (("--phase", "failed"), ["nightly"]),
        (("--phase", "Running", "-l", "app"), ["train"]),
        (("nightly", "jf/train"), ["nightly", "train"]),
        (("train", "jf/train", "nightly", "train"), ["train", "nightly"]),
        (("jobflow.flow.volcano.sh/train", "-o", "table"), ["train"]),
    ],
)
async def test_flows_are_selected(
    world: Cluster, kubeconfig: Path, arguments: tuple[str, ...], names: list[str]
) -> None:
    await apply_flow(world, "train", RUNNING)
    await apply_flow(world, "nightly", FAILED)
    found = rows(await run_command(kubeconfig, "get", *arguments))
    assert [row[0] for row in found[1:]] == names


async def test_flows_of_all_namespaces_are_listed(world: Cluster, kubeconfig: Path) -> None:
    await apply_flow(world, "f", RUNNING)
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}
    await world.client.create(NAMESPACES, "", json.dumps(namespace).encode())
    elsewhere = flow("f", {"a": ""})
    elsewhere["metadata"]["namespace"] = "team"
    await world.client.create(JOBFLOWS, "team", json.dumps(elsewhere).encode())
    found = rows(await run_command(kubeconfig, "get", "-A"))
    assert [row[:2] for row in found] == [["NAMESPACE", "NAME"], [NAMESPACE, "f"], ["team", "f"]]


async def test_a_large_list_is_requested_in_pages(world: Cluster, kubeconfig: Path) -> None:
    await asyncio.gather(*(apply_flow(world, f"f-{n:04}") for n in range(501)))
    world.server.requests.clear()
    found = rows(await run_command(kubeconfig, "get"))
    assert [row[0] for row in found[1:]] == [f"f-{n:04}" for n in range(501)]
    lists = [request for request in world.server.requests if request.path.endswith("/jobflows")]
    assert [request.query["limit"] for request in lists] == ["500", "500"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((), 'no JobFlow in namespace "default"'),
        (("-A",), "no JobFlow in any namespace"),
        (("-l", "app=x"), 'no JobFlow in namespace "default" matches'),
        (("--phase", "Failed"), 'no JobFlow in namespace "default" matches'),
    ],
)
async def test_an_empty_list_says_so(
    kubeconfig: Path, arguments: tuple[str, ...], sentence: str
) -> None:
    result = await run_command(kubeconfig, "get", *arguments)
    assert result == Result(0, "", f"{sentence}\n")


@pytest.mark.parametrize("arguments", [("get",), ("get", "-o", "json"), ("why", "-l", "app=x")])
async def test_a_namespace_that_does_not_exist_is_an_error(
    kubeconfig: Path, arguments: tuple[str, ...]
) -> None:
    result = await run_command(kubeconfig, *arguments, "-n", "team")
    assert result == Result(2, "", 'jobflow: error: namespace "team" does not exist\n')


async def test_a_namespace_that_may_not_be_read_may_be_empty(
    world: Cluster, kubeconfig: Path
) -> None:
    forbid(world, "GET", "/namespaces/team")
    result = await run_command(kubeconfig, "get", "-n", "team")
    assert result == Result(0, "", 'no JobFlow in namespace "team"\n')


# ---------------------------------------------------------------------- one flow


async def test_one_flow_is_a_tree(world: Cluster, kubeconfig: Path) -> None:
    await world.apply(flow("f", DIAMOND))
    conditions = {
        "f-a": {"phase": "Completed", "job": "f-a"},
        "f-b": {"phase": "Waiting", "message": "waits for something"},
    }
    await set_status(world, FAILED | {"conditions": conditions})
    result = await run_command(kubeconfig, "get", "f", "jf/f")
    assert result.out.splitlines() == [
        "f  Failed  2/2  1m5s  StepFailed: step a failed",
        "└─ ✔ a        Completed",
        "   ├─ ○ b     Waiting            waits for something",
        "   ├─ ○ c     Waiting",
        "   └─ ○ d     Waiting            after b and c",
        "      └─ ○ e  Waiting",
    ]


@pytest.mark.long
async def test_items_are_listed_below_their_step(world: Cluster, kubeconfig: Path) -> None:
    manifest = flow("f", {"a": "", "b": "a"})
    manifest["spec"]["flows"][0]["forEach"] = {"items": ["eu", "us", "asia"]}
    await world.apply(manifest)
    runs = [
        {"index": 0, "phase": "Completed", "job": "f-a-0", "attempts": 2, "outputs": {"acc": 0.9}},
        {"index": 1, "phase": "Failed", "reason": "JobFailed", "message": "exit code 1"},
    ]
    await set_status(world, {"conditions": {"f-a": {"phase": "Running", "runs": runs}}})
    result = await run_command(kubeconfig, "get", "f", "--items")
    lines = [" ".join(line.split()) for line in result.out.splitlines()]
    assert lines[1].startswith("└─ ● a Running")
    assert lines[2:] == [
        "├─ ✔ a/0 Completed eu; attempt 2; acc=0.9",
        "├─ ✖ a/1 Failed us; JobFailed: exit code 1",
        "├─ ○ a/2 Waiting asia",
        "└─ ○ b Waiting",
    ]
    assert "a/0" not in (await run_command(kubeconfig, "get", "f")).out


# ---------------------------------------------------------------------- objects


async def test_json_is_the_object_as_the_server_has_it(tmp_path: Path) -> None:
    stored = b'{"kind":"JobFlow","z":[],"metadata":{"name":"f"},"spec":{"newField":1.10}}'
    async with ScriptedServer() as server:
        (tmp_path / "kubeconfig").write_text(kubeconfig_text(server.url, None))
        server.others.append(Answer(body=stored))
        result = await run_command(tmp_path / "kubeconfig", "get", "f", "-o", "json")
    assert (result.code, result.err) == (0, "")
    assert "".join(result.out.split()) == stored.decode()


async def test_several_objects_are_a_list(world: Cluster, kubeconfig: Path) -> None:
    await apply_flow(world, "b")
    await apply_flow(world, "a")
    stored = sorted(await world.raw(JOBFLOWS), key=lambda each: each["metadata"]["name"])
    expected = {"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": ""}}
    result = await run_command(kubeconfig, "get", "-o", "json")
    assert result.json == {**expected, "items": stored}
    result = await run_command(kubeconfig, "get", "a", "b", "-o", "yaml")
    assert yaml.safe_load(result.out) == {**expected, "items": stored}
    result = await run_command(kubeconfig, "get", "-l", "app=c", "-o", "json")
    assert result.json == {**expected, "items": []}


async def test_names_can_be_given_to_kubectl(world: Cluster, kubeconfig: Path) -> None:
    await apply_flow(world, "b")
    await apply_flow(world, "a")
    result = await run_command(kubeconfig, "get", "-o", "name")
    assert result.out == "jobflow.flow.volcano.sh/a\njobflow.flow.volcano.sh/b\n"


# ---------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ("get", "nightyl"),
            'JobFlow "nightyl" does not exist in namespace "default"; did you mean "nightly"?',
        ),
        (
            ("get", "--phase", "faild"),
            '"faild" is not a phase of a flow: use one of Pending, Running, Succeed, Failed, '
            'Terminating; did you mean "Failed"?',
        ),
        (("get", "f", "-l", "a=b"), "a FLOW excludes -l and -A: give names or a selection"),
        (("get", "vcjob/f"), '"vcjob/f" is not a JobFlow: write f or jf/f'),
        (("get", "--items", "-o", "json"), "--items lists items in a tree: leave out -o json"),
    ],
)
async def test_a_wrong_call_is_an_error(
    world: Cluster, kubeconfig: Path, arguments: tuple[str, ...], sentence: str
) -> None:
    await apply_flow(world, "nightly")
    result = await run_command(kubeconfig, *arguments)
    assert result == Result(2, "", f"jobflow: error: {sentence}\n")


@pytest.mark.long
@pytest.mark.parametrize("more", [(), ("-w",)])
async def test_a_step_behind_its_flow_is_an_error(
    world: Cluster, kubeconfig: Path, more: tuple[str, ...]
) -> None:
    await apply_flow(world, "f")
    result = await run_process(kubeconfig, "get", *more, "f", "b", "jf/b", "b/3")
    is_step = "is a step of JobFlow f: write `jobflow why f b` or `jobflow logs f b"
    assert result.err.splitlines() == [
        f'jobflow: error: "b" {is_step}`',
        f'jobflow: error: "b/3" {is_step}/3`',
    ]
    assert result.code == 2


async def test_a_missing_flow_does_not_hide_the_others(world: Cluster, kubeconfig: Path) -> None:
    await apply_flow(world, "f")
    result = await run_command(kubeconfig, "get", "none", "f", "-o", "name")
    missing = 'jobflow: error: JobFlow "none" does not exist in namespace "default"\n'
    assert result == Result(2, "jobflow.flow.volcano.sh/f\n", missing)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("arguments", [(), ("f",), ("-w",)])
async def test_a_missing_right_is_an_error(
    world: Cluster, kubeconfig: Path, arguments: tuple[str, ...]
) -> None:
    forbid(world, "GET", "/jobflows")
    forbid(world, "GET", "/jobflows/f")
    result = await run_process(kubeconfig, "get", *arguments)
    needs = "reading JobFlows here needs the role view, which an administrator can bind"
    assert result == Result(1, "", f"jobflow: error: {needs}: alice must not\n")


async def test_an_expired_login_is_an_error(world: Cluster, kubeconfig: Path) -> None:
    expired = failure(401, "Unauthorized", "Unauthorized")
    world.fails("GET", "/jobflows", expired, times=None)
    result = await run_command(kubeconfig, "get")
    sentence = "the cluster does not accept your login (401): log in again, then retry"
    assert result == Result(2, "", f"jobflow: error: {sentence}\n")


async def test_an_unknown_context_is_an_error(kubeconfig: Path) -> None:
    result = await run_command(kubeconfig, "get", "--context", "jobflow-sandbax")
    sentence = (
        f'kubeconfig {kubeconfig} has no context "jobflow-sandbax", only jobflow-sandbox; '
        'did you mean "jobflow-sandbox"?'
    )
    assert result == Result(2, "", f"jobflow: error: {sentence}\n")


def move_server(kubeconfig: Path, url: str, to: str) -> None:
    kubeconfig.write_text(kubeconfig.read_text().replace(url, to))


@pytest.mark.long
async def test_a_cluster_that_is_not_there_is_an_error(world: Cluster, kubeconfig: Path) -> None:
    move_server(kubeconfig, world.server.url, "http://127.0.0.1:1")
    sentence = (
        "the API server does not answer: 127.0.0.1:1: the connection was refused; check that the "
        "cluster runs and that the context is the right one"
    )
    for arguments in ((), ("f",), ("-w",)):
        result = await run_process(kubeconfig, "get", *arguments)
        assert result == Result(2, "", f"jobflow: error: {sentence}\n")


@pytest.mark.long
async def test_a_pipe_that_closes_ends_the_command_quietly(
    world: Cluster, kubeconfig: Path
) -> None:
    await apply_flow(world, "f")
    for arguments in ("", "-o json", "-w"):
        command = f"{JOBFLOW} get {arguments} --kubeconfig {kubeconfig} | true"
        process = await asyncio.create_subprocess_shell(command, stderr=asyncio.subprocess.PIPE)
        _, err = await process.communicate()
        assert err == b""
