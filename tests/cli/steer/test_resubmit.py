"""`jobflow resubmit` on the sandbox's API server."""

from pathlib import Path
from typing import Any

import pytest

from jobflow.api.resources import JOBFLOWS
from support.sandbox.command_line import Result
from support.sandbox.flow_commands import run_command, run_process, set_status, volcano_on
from support.sandbox.manifests import jobflow, template
from support.sandbox.running_controller import Cluster, flow

PARAMS = [{"name": "workers", "value": 2, "enum": [2, 4]}, {"name": "rate", "value": 0.1}]


async def apply(world: Cluster, **metadata: Any) -> None:
    """Apply the flow train, which has ended."""
    manifest = flow("train", {"a": "", "b": "a"}, params=PARAMS, suspend=True)
    manifest["metadata"] |= metadata
    await world.apply(manifest)
    await set_status(world, {"state": {"phase": "Failed"}}, "train")


async def test_the_new_flow_has_the_same_spec_labels_and_annotations(
    world: Cluster, kubeconfig: Path
) -> None:
    labels = {"team": "vision"}
    annotations = {
        "example.com/why": "nightly",
        "kubectl.kubernetes.io/last-applied-configuration": "{}",
        "flow.volcano.sh/force-delete": "true",
    }
    await apply(world, labels=labels, annotations=annotations, finalizers=["example.com/hold"])
    result = await run_command(kubeconfig, "resubmit", "jf/train")
    assert (result.code, result.err) == (0, "")
    old, new = await world.raw(JOBFLOWS)
    assert new["spec"] == old["spec"]
    meta = new["metadata"]
    assert result.out == f"jobflow.flow.volcano.sh/{meta['name']} created\n"
    assert meta["name"].startswith("train-") and meta["generateName"] == "train-"
    assert (meta["labels"], meta["annotations"]) == (labels, {"example.com/why": "nightly"})
    assert "finalizers" not in meta and "status" not in new


async def test_random_suffixes_do_not_add_up(world: Cluster, kubeconfig: Path) -> None:
    await apply(world)
    first = (await run_command(kubeconfig, "resubmit", "train", "-o", "name")).out.strip()
    second = (await run_command(kubeconfig, "resubmit", first, "-o", "name")).out.strip()
    assert len(first) == len(second) and first != second


async def test_params_and_name_are_set(world: Cluster, kubeconfig: Path) -> None:
    await apply(world)
    result = await run_command(
        kubeconfig, "resubmit", "train", "--param", "workers=4", "--name", "four", "-o", "json"
    )
    assert (result.code, result.json["metadata"]["name"]) == (0, "four")
    assert (await world.flow("four")).spec.params != (await world.flow("train")).spec.params
    values = [param["value"] for param in result.json["spec"]["params"]]
    assert values == [4, 0.1]


async def test_a_file_sets_params_and_a_changed_type_is_a_warning(
    world: Cluster, kubeconfig: Path, tmp_path: Path
) -> None:
    manifest = flow("train", {"a": ""}, params=[*PARAMS, {"name": "sha", "value": "abc"}])
    await world.apply(manifest)
    file = tmp_path / "params.json"
    file.write_text('{"workers": 4, "rate": 0.2}')
    given = ("--param-file", str(file), "--param", "rate=0.3", "--param", "sha=12")
    result = await run_command(kubeconfig, "resubmit", "train", *given, "-o", "json")
    assert [param["value"] for param in result.json["spec"]["params"]] == [4, 0.3, 12]
    change = "--param sha changes it from text to a number; --param 'sha=\"12\"' keeps it text"
    assert result.err == f"jobflow: warning: spec.params[2].value: {change}\n"


@pytest.mark.parametrize(
    ("flags", "code", "sentence"),
    [
        (("--param", "workers=3"), 1, "spec.params[0].value: Unsupported value: 3: supported"),
        (("--param", "wrkers=4"), 2, 'JobFlow train has no such param; did you mean "workers"?'),
        (("--param", "x=4"), 2, "has no such param; its params are workers and rate"),
        (("--name", "Train"), 1, 'jf/Train: error: metadata.name: Invalid value: "Train"'),
        (("--name", "train"), 1, 'JobFlow "train" already exists in namespace "default" (Failed)'),
    ],
)
async def test_faults_are_errors(
    world: Cluster, kubeconfig: Path, flags: tuple[str, ...], code: int, sentence: str
) -> None:
    await apply(world)
    result = await run_command(kubeconfig, "resubmit", "train", *flags)
    assert (result.code, result.out) == (code, "")
    assert sentence in result.err
    assert await world.flow_names() == ["train"]


async def test_a_missing_flow_is_an_error(world: Cluster, kubeconfig: Path) -> None:
    await apply(world)
    result = await run_command(kubeconfig, "resubmit", "trian")
    sentence = 'JobFlow "trian" does not exist in namespace "default"; did you mean "train"?'
    assert result == Result(2, "", f"jobflow: error: {sentence}\n")


@pytest.mark.long
async def test_wait_ends_with_the_new_flow(world: Cluster, kubeconfig: Path) -> None:
    async with volcano_on(world), world.controller():
        await world.apply(template("a"), jobflow("train", {"a": []}))
        await world.ended("train")
        result = await run_process(kubeconfig, "resubmit", "train", "--wait", "--name", "again")
    assert (result.code, result.err) == (0, "")
    assert result.out.splitlines()[-1] == "JobFlow again: Succeed, 1/1 steps finished"
