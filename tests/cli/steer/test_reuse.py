"""`jobflow submit --reuse` and `resubmit --reuse` on the sandbox's API server."""

import json
from pathlib import Path
from typing import Any

import pytest

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.resources import JOBFLOWS, JOBS, NAMESPACES, VOLUME_CLAIMS
from support.sandbox.flow_commands import forbid, run_command, volcano_on
from support.sandbox.manifests import jobflow, template
from support.sandbox.running_controller import Cluster, flow
from support.sandbox.submitted import write_flow

FIVE: dict[str, list[str]] = {"a": [], "b": ["a"], "c": ["b"], "d": ["c"], "e": ["d"]}


def five(*, is_mended: bool, **spec: Any) -> list[dict[str, Any]]:
    """Return a chain of five steps, of which the third fails unless it is mended."""
    made = {name: template(name, duration="0s") for name in FIVE}
    if is_mended:
        container = made["c"]["spec"]["tasks"][0]["template"]["spec"]["containers"][0]
        container["command"] = ["sh", "-c", "exit 0"]
    else:
        made["c"] = template("c", duration="0s", exit_code="1")
    return [*made.values(), jobflow("train", FIVE, **spec)]


async def ended(world: Cluster, name: str) -> str:
    return (await world.ended(name)).status.state.phase


async def jobs_of(world: Cluster, name: str) -> list[str]:
    jobs = [each["metadata"]["name"] for each in await world.raw(JOBS)]
    return [job.removeprefix(f"{name}-") for job in jobs if job.startswith(f"{name}-")]


async def test_a_flow_of_five_goes_on_after_its_third_step_was_mended(
    world: Cluster, kubeconfig: Path, tmp_path: Path
) -> None:
    async with volcano_on(world), world.controller():
        await run_command(kubeconfig, "submit", write_flow(tmp_path, *five(is_mended=False)))
        assert await ended(world, "train") == "Failed"
        file = write_flow(tmp_path, *five(is_mended=True))
        result = await run_command(kubeconfig, "submit", file, "--reuse", "train")
        assert result.code == 0
        [name] = set(await world.flow_names()) - {"train"}
        assert name.startswith("train-")
        taken = "the name train is taken, so the new flow is named train-<random>"
        assert taken in result.err
        assert await ended(world, name) == "Succeed"
        assert await jobs_of(world, name) == ["c", "d", "e"]
    conditions = (await world.flow(name)).status.conditions or {}
    assert {key[-1] for key, each in conditions.items() if each.reason == "Reused"} == {*"ab"}


async def test_a_param_of_the_last_step_runs_that_alone(world: Cluster, kubeconfig: Path) -> None:
    container = {"image": "busybox", "command": ["train"]}
    steps = [
        {"name": "a", "container": container},
        {
            "name": "b",
            "dependsOn": {"targets": ["a"]},
            "container": {**container, "args": ["--rate", "$(params.rate)"]},
        },
    ]
    first = flow("first", {}, flows=steps, params=[{"name": "rate", "value": "0.01"}])
    async with volcano_on(world), world.controller():
        await world.apply(first)
        assert await ended(world, "first") == "Succeed"
        flags = ("--reuse", "--param", "rate=0.1", "--name", "second")
        assert (await run_command(kubeconfig, "resubmit", "first", *flags)).code == 0
        assert await ended(world, "second") == "Succeed"
        assert await jobs_of(world, "second") == ["b"]
        flags = ("--reuse", "--rerun", "a", "--name", "third")
        assert (await run_command(kubeconfig, "resubmit", "second", *flags)).code == 0
        assert await ended(world, "third") == "Succeed"
        assert await jobs_of(world, "third") == ["a", "b"]
    second, third = await world.flow("second"), await world.flow("third")
    assert third.spec.reuse is not None
    assert (third.spec.reuse.flow, third.spec.reuse.uid) == ("second", second.metadata.uid)
    policies = {step.name: step.reuse_policy for step in third.spec.flows or ()}
    assert policies == {"a": "Never", "b": None}


async def test_a_copy_without_reuse_reuses_nothing(world: Cluster, kubeconfig: Path) -> None:
    reuse = {"flow": "earlier", "uid": "of-earlier"}
    await world.apply(flow("train", {"a": ""}, reuse=reuse, suspend=True))
    result = await run_command(kubeconfig, "resubmit", "train", "--name", "again", "-o", "json")
    assert (result.code, result.json["spec"].get("reuse")) == (0, None)


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (("resubmit", "train", "--rerun", "a"), 2, "--rerun needs --reuse"),
        (("submit", "FILE", "--rerun", "a"), 2, "--rerun needs --reuse"),
        (
            ("resubmit", "train", "--reuse", "--rerun", "trian"),
            2,
            "--rerun trian: the flow has no such step; its steps are a and b",
        ),
        (
            ("submit", "FILE", "--reuse", "trian"),
            2,
            'JobFlow "trian" does not exist in namespace "default"; did you mean "train"?',
        ),
        (
            ("submit", "FILE", "--reuse", "train", "--name", "train"),
            2,
            "--name train: a flow cannot reuse itself: leave out --name, and the new flow gets a",
        ),
        (("submit", "FILE", "--reuse", "train", "--templates"), 2, "--templates excludes --reuse"),
        (
            ("submit", "FILE", "FILE2", "--reuse", "train"),
            2,
            "--reuse train: is about one JobFlow, but the files contain 2 JobFlows",
        ),
    ],
)
async def test_what_cannot_be_meant_is_an_error(
    world: Cluster,
    kubeconfig: Path,
    tmp_path: Path,
    arguments: tuple[str, ...],
    code: int,
    sentence: str,
) -> None:
    await world.apply(flow("train", {"a": "", "b": "a"}, suspend=True))
    (tmp_path / "2").mkdir()
    files = {
        "FILE": write_flow(tmp_path, *five(is_mended=True)),
        "FILE2": write_flow(tmp_path / "2", jobflow("other", {"a": []})),
    }
    result = await run_command(kubeconfig, *(files.get(each, each) for each in arguments))
    assert (result.code, result.out) == (code, "")
    assert sentence in result.err
    assert await world.flow_names() == ["train"]


def samples(command: str) -> dict[str, Any]:
    """Return a flow with a pipeline of two steps for each of three samples."""
    container = {"image": "busybox", "command": ["true"]}
    pipeline = [
        {"name": "clean", "container": {**container, "args": ["$(params.sample)"]}},
        {
            "name": "qc",
            "dependsOn": {"targets": ["clean"]},
            "container": {**container, "command": [command]},
        },
    ]
    child = {"params": {"sample": "$(item)"}, "flows": pipeline}
    steps = [
        {"name": "pipelines", "forEach": {"items": ["a", "b", "c"]}, "flow": child},
        {"name": "report", "dependsOn": {"targets": ["pipelines"]}, "container": container},
    ]
    return flow("samples", {}, flows=steps)


async def test_a_mended_step_in_child_flows_runs_alone_as_the_dry_run_says(
    world: Cluster, kubeconfig: Path, tmp_path: Path
) -> None:
    async with volcano_on(world), world.controller():
        await world.apply(samples("false"))
        assert await ended(world, "samples") == "Succeed"
        file = write_flow(tmp_path, samples("true"))
        arguments = ("submit", file, "--reuse", "samples", "--name", "again")
        result = await run_command(kubeconfig, *arguments, "--dry-run", "client", "-o", "name")
        assert "Reused from samples: pipelines/clean (3 of 3)\n" in result.err
        places = [f"pipelines/{index}/qc" for index in range(3)]
        for place in places:
            assert f"  {place}: command[0] differs: false → true\n" in result.err
        assert "  report: its target pipelines runs again\n" in result.err
        assert await world.flow_names() == ["samples", *(f"samples-pipelines-{i}" for i in "012")]
        assert (await run_command(kubeconfig, *arguments)).code == 0
        assert await ended(world, "again") == "Succeed"
        jobs = [*(f"pipelines-{index}-qc" for index in range(3)), "report"]
        assert await jobs_of(world, "again") == jobs
        unchanged = ("resubmit", "again", "--reuse", "--dry-run", "client", "-o", "json")
        result = await run_command(kubeconfig, *unchanged)
        reused = "pipelines/clean (3 of 3), pipelines/qc (3 of 3), report"
        assert f"Reused from again: {reused}\nNothing runs.\n" in result.err


async def test_a_dry_run_of_a_flow_that_cannot_be_reused_says_so(
    world: Cluster, kubeconfig: Path
) -> None:
    await world.apply(flow("train", {"a": ""}, suspend=True), template("a"))
    result = await run_command(kubeconfig, "resubmit", "train", "--reuse", "--dry-run", "client")
    assert (result.code, result.out) == (1, "")
    assert "spec.reuse: flow train is Pending; wait until it has ended" in result.err


async def test_a_dry_run_says_that_claims_move_and_by_whom_a_flow_was_spent(
    world: Cluster, kubeconfig: Path
) -> None:
    claim = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
    }
    mounts = [{"name": "data", "mountPath": "/data"}]
    steps = [{"name": "a", "container": {"image": "busybox", "volumeMounts": mounts}}]
    dry_run = ("resubmit", "first", "--reuse", "--dry-run", "client")
    async with volcano_on(world), world.controller():
        await world.apply(flow("first", {}, flows=steps, volumeClaims={"data": claim}))
        assert await ended(world, "first") == "Succeed"
        assert (await run_command(kubeconfig, *dry_run)).out.splitlines()[:-1] == [
            "Reused from first: a",
            "Nothing runs.",
            "The volume claim data of first moves to the new flow: first is then spent, and can be "
            "neither retried nor reused.",
        ]
        await run_command(kubeconfig, "resubmit", "first", "--reuse", "--name", "second")
        assert await ended(world, "second") == "Succeed"
        result = await run_command(kubeconfig, *dry_run)
    assert (result.code, result.out) == (1, "")
    spent = "flow first is spent, because its volume claims belong to the flow second"
    assert f"--reuse first: {spent}; name that one instead" in result.err


async def test_a_dry_run_reads_which_claims_move(
    world: Cluster, kubeconfig: Path, tmp_path: Path
) -> None:
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
    }
    names = ("moves", "gone", "taken", "wider", "unused")

    def first(name: str, *claims: str, **changed: Any) -> dict[str, Any]:
        steps = [
            {
                "name": claim,
                "container": {
                    "image": "busybox",
                    "volumeMounts": [{"name": claim, "mountPath": "/data"}],
                },
            }
            for claim in claims
        ]
        return flow(name, {}, flows=steps, volumeClaims=dict.fromkeys(claims, spec) | changed)

    async with volcano_on(world), world.controller():
        await world.apply(first("first", *names))
        assert await ended(world, "first") == "Succeed"
    claims = {name: f"first-{name}" for name in names}
    await world.client.delete(VOLUME_CLAIMS, "default", claims["gone"])
    await world.apply(flow("third", {}))
    third = await world.client.get(JOBFLOWS, "default", "third", JobFlow)
    taken = await world.client.get(VOLUME_CLAIMS, "default", claims["taken"], dict[str, Any])
    taken["metadata"]["ownerReferences"][0] |= {"name": "third", "uid": third.metadata.uid}
    body = json.dumps(taken).encode()
    await world.client.replace(VOLUME_CLAIMS, "default", claims["taken"], body)
    new = first("second", *names[:4], wider=spec | {"accessModes": ["ReadWriteMany"]})
    dry_run = ("submit", write_flow(tmp_path, new), "--reuse", "first", "--dry-run", "client")
    result = await run_command(kubeconfig, *dry_run)
    lines = result.out.splitlines()
    assert lines[:5] == [
        "Reused from first: moves",
        "Runs:",
        *(
            f"  {name}: tasks[main].template.spec.volumes[{name}].persistentVolumeClaim.claimName "
            f"differs: first-{name} → second-{name}"
            for name in names[1:4]
        ),
    ]
    again = "what mounts it runs again, on a new claim."
    assert lines[5:-1] == [
        "The volume claim moves of first moves to the new flow: first is then spent, and can be "
        "neither retried nor reused.",
        f"The volume claim gone of first is gone: {again}",
        f"The volume claim taken of first belongs to JobFlow third: {again}",
        f"The volume claim wider of first stays there, because its spec differs: {again}",
        "The volume claim unused of first stays there, because the new flow has none of this name.",
    ]
    forbid(world, "GET", "/persistentvolumeclaims")
    result = await run_command(kubeconfig, *dry_run)
    assert result.out.startswith("Reused from first: moves, gone, taken\n")
    assert (
        "\nThis assumes that they exist and have no other owner: you have no right to list "
        "PersistentVolumeClaims here.\n" in result.out
    )


async def test_the_flow_is_looked_for_in_the_namespace_of_the_file(
    world: Cluster, kubeconfig: Path, tmp_path: Path
) -> None:
    made = flow("train", {"a": ""}, suspend=True)
    made["metadata"]["namespace"] = "team"
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}
    await world.client.create(NAMESPACES, "", json.dumps(namespace).encode())
    await world.client.create(JOBFLOWS, "team", json.dumps(made).encode())
    dry_run = ("--reuse", "train", "--dry-run", "client")
    result = await run_command(kubeconfig, "submit", write_flow(tmp_path, made), *dry_run)
    assert result.code == 1
    assert "the name train is taken, so the new flow is named train-<random>" in result.err
    assert "spec.reuse: flow train is Pending" in result.err
    result = await run_command(kubeconfig, "submit", write_flow(tmp_path, made), "--reuse", "x")
    assert 'JobFlow "x" does not exist in namespace "team"' in result.err
