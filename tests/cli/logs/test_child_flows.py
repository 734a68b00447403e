"""`jobflow logs` of a flow with child flows: the logs of their pods too, with their steps."""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from jobflow.api.resources import PODS
from jobflow.cli.logs.command import print_logs
from jobflow.cli.logs.follow import follow_logs
from jobflow.client.errors import CommandError
from jobflow.client.logs.selection import LogSelection
from jobflow.client.options import Connection
from jobflow.runtime.logs import configure
from jobflow.sandbox.apiserver.resources.metadata import now
from support.sandbox.child_flows import create_child
from support.sandbox.command_line import logging_restored
from support.sandbox.flow_commands import set_status
from support.sandbox.logged_pods import LoggedPods
from support.sandbox.running_controller import Cluster, cluster, flow


@pytest.fixture
def pods() -> LoggedPods:
    return LoggedPods()


@pytest.fixture
async def world(pods: LoggedPods) -> AsyncIterator[Cluster]:
    """A server with the running flow f: the step a, train of two child flows, and one of one."""
    async with cluster(logs=pods) as world:
        manifest = flow("f", {"a": ""})
        inner = {"flows": [{"name": "fetch"}, {"name": "fit"}]}
        manifest["spec"]["flows"] += [
            {"name": "train", "forEach": {"count": 2}, "flow": inner},
            {"name": "one", "flow": inner},
        ]
        await world.apply(manifest)
        await set_status(world, {"state": {"phase": "Running"}})
        yield world


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with logging_restored():
        configure(level=logging.CRITICAL)
        yield


async def family(world: Cluster, pods: LoggedPods) -> None:
    """Three children and a grandchild, each with a pod."""
    await pods.create(world, "f-a-0", "a", text="own\n")
    for index in (0, 1):
        child = await create_child(world, "f", "train", index=index)
        await pods.create(
            world, f"{child}-fit-0", "fit", text=f"fit{index}\n", flow=child, root="f"
        )
    child = await create_child(world, "f", "one", nested="eval")
    await pods.create(world, f"{child}-fetch-0", "fetch", text="data\n", flow=child, root="f")
    inner = await create_child(world, child, "eval", steps={"deep": ""})
    await pods.create(world, f"{inner}-deep-0", "deep", text="below\n", flow=inner, root="f")


OWN = "a/f-a-0 │ own"
TRAIN = ["train/0/fit/f-train-0-fit-0 │ fit0", "train/1/fit/f-train-1-fit-0 │ fit1"]
FETCH = "one/fetch/f-one-fetch-0 │ data"
DEEP = "one/eval/deep/f-one-eval-deep-0 │ below"


@pytest.mark.parametrize(
    ("name", "step", "options", "lines"),
    [
        ("f", None, {}, [OWN, *TRAIN, FETCH, DEEP]),
        ("f", "a", {}, [OWN]),
        ("f", "train", {}, TRAIN),
        ("f", "train/1", {}, TRAIN[1:]),
        ("f", "one", {}, [FETCH, DEEP]),
        ("f", "train/1/fit", {}, TRAIN[1:]),
        ("f", "one/eval", {}, [DEEP]),
        ("f", "one/eval/deep", {}, [DEEP]),
        ("f", None, {"pod": "f-one-eval-deep-0"}, [DEEP]),
        ("f-one", None, {}, ["fetch/f-one-fetch-0 │ data", "eval/deep/f-one-eval-deep-0 │ below"]),
        ("f-one", "eval", {}, ["eval/deep/f-one-eval-deep-0 │ below"]),
        ("f-train-0", None, {}, ["fit/f-train-0-fit-0 │ fit0"]),
    ],
)
async def test_logs_of_child_flows_have_their_steps(
    world: Cluster,
    pods: LoggedPods,
    kubeconfig: Path,
    capsys: pytest.CaptureFixture[str],
    name: str,
    step: str | None,
    options: dict[str, str],
    lines: list[str],
) -> None:
    await family(world, pods)
    selection = LogSelection(**options)  # type: ignore[arg-type]
    connection = Connection(kubeconfig=str(kubeconfig))
    assert await print_logs(name, connection, selection, step=step) == 0
    assert capsys.readouterr().out.splitlines() == lines


async def test_only_failed_containers_of_child_flows_are_shown(
    world: Cluster, pods: LoggedPods, kubeconfig: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    await family(world, pods)
    await pods.end(world, "f-one-eval-deep-0", main=3)
    await print_logs("f", Connection(kubeconfig=str(kubeconfig)), LogSelection(failed=True))
    assert capsys.readouterr().out.splitlines() == [DEEP]


async def test_pods_of_other_items_are_not_named(
    world: Cluster, pods: LoggedPods, kubeconfig: Path
) -> None:
    await family(world, pods)
    selection, connection = (
        LogSelection(pod="f-train-0-fit-0"),
        Connection(kubeconfig=str(kubeconfig)),
    )
    with pytest.raises(CommandError, match='has no pod .*did you mean "f-train-1-fit-0"'):
        await print_logs("f", connection, selection, step="train/1")


@pytest.mark.parametrize(
    ("step", "subject"),
    [(None, "JobFlow f"), ("train", 'step "train"'), ("train/1", 'step "train", item 1,')],
)
async def test_the_step_of_a_child_flow_whose_timeout_deleted_the_pods_is_named(
    world: Cluster, kubeconfig: Path, step: str | None, subject: str
) -> None:
    for index in (0, 1):
        child = await create_child(world, "f", "train", index=index)
    late = {"phase": "Failed", "reason": "Timeout", "attempts": 1}
    await set_status(world, {"conditions": {f"{child}-fit": late}}, child)
    conditions = {"f-train": {"phase": "Failed", "attempts": 2}}
    await set_status(world, {"state": {"phase": "Failed"}, "conditions": conditions})
    with pytest.raises(CommandError) as caught:
        await print_logs("f", Connection(kubeconfig=str(kubeconfig)), LogSelection(), step=step)
    assert str(caught.value) == (
        f"{subject} has ended, and its pods are deleted: Volcano deletes the pods of a job that is "
        "aborted (train/1/fit: Timeout)"
    )


@pytest.mark.parametrize(
    ("step", "sentence"),
    [
        ("train/7/fit", 'step "train/7" has not started, so it has no flow yet'),
        ("train/0/fitt", 'JobFlow f-train-0 has no step "fitt"; did you mean "fit"?'),
        ("a/fit", 'step "a" has no items, because it has no forEach or repeat: write a'),
    ],
)
async def test_a_wrong_path_is_an_error(
    world: Cluster, pods: LoggedPods, kubeconfig: Path, step: str, sentence: str
) -> None:
    await family(world, pods)
    with pytest.raises(CommandError) as caught:
        await print_logs("f", Connection(kubeconfig=str(kubeconfig)), LogSelection(), step=step)
    assert str(caught.value) == sentence


async def test_child_flows_that_start_later_are_followed(
    world: Cluster, pods: LoggedPods, capsys: pytest.CaptureFixture[str]
) -> None:
    await pods.create(world, "f-a-0", "a", text="own\n")
    async with asyncio.timeout(20), asyncio.TaskGroup() as tasks:
        tasks.create_task(follow_logs(world.client, await world.flow("f")))
        await pods.of("f-a-0").opened.wait()
        child = await create_child(world, "f", "one", nested="eval")
        inner = await create_child(world, child, "eval", steps={"deep": ""})
        await pods.create(world, f"{inner}-deep-0", "deep", text="below\n", flow=inner, root="f")
        await pods.of("f-one-eval-deep-0").opened.wait()
        for pod in ("f-a-0", "f-one-eval-deep-0"):
            await pods.end(world, pod)
        await set_status(world, {"state": {"phase": "Succeed"}})
    assert capsys.readouterr().out.splitlines() == [OWN, DEEP]


async def test_a_pod_that_is_seen_before_its_child_flow_is_followed(
    world: Cluster,
    pods: LoggedPods,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # All in one second: a pod that is older than its flow belongs to a deleted one of the name.
    second = now()
    monkeypatch.setattr("jobflow.sandbox.apiserver.resources.metadata.now", lambda: second)
    await pods.create(world, "f-a-0", "a", text="own\n")
    async with asyncio.timeout(20), asyncio.TaskGroup() as tasks:
        tasks.create_task(follow_logs(world.client, await world.flow("f")))
        await pods.of("f-a-0").opened.wait()
        await pods.create(world, "f-one-fetch-0", "fetch", text="data\n", flow="f-one", root="f")
        await pods.create(world, "f-a-1", "a", text="own\n")
        await pods.of("f-a-1").opened.wait()
        await create_child(world, "f", "one")
        await pods.of("f-one-fetch-0").opened.wait()
        for pod in ("f-a-0", "f-a-1", "f-one-fetch-0"):
            await pods.end(world, pod)
        await set_status(world, {"state": {"phase": "Succeed"}})
    assert FETCH in capsys.readouterr().out.splitlines()


async def test_following_an_item_ends_with_the_item(
    world: Cluster, pods: LoggedPods, capsys: pytest.CaptureFixture[str]
) -> None:
    await family(world, pods)
    async with asyncio.timeout(20), asyncio.TaskGroup() as tasks:
        selection = LogSelection(step="train", index=1)
        tasks.create_task(follow_logs(world.client, await world.flow("f"), selection))
        await pods.of("f-train-1-fit-0").opened.wait()
        await pods.end(world, "f-train-1-fit-0")
        ended = {"index": 1, "phase": "Completed", "flow": "f-train-1"}
        await set_status(world, {"conditions": {"f-train": {"phase": "Running", "runs": [ended]}}})
    assert capsys.readouterr().out.splitlines() == TRAIN[1:]


async def test_a_flow_without_child_flows_needs_one_list_of_pods(
    world: Cluster, pods: LoggedPods, kubeconfig: Path
) -> None:
    await pods.create(world, "f-a-0", "a", text="own\n")
    before = world.count("GET", PODS)
    connection = Connection(kubeconfig=str(kubeconfig))
    await print_logs("f", connection, LogSelection(step="a"), step="a")
    assert world.count("GET", PODS) - before == 2  # the list and the log
