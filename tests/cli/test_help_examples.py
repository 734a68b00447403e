"""The examples in the help of every command are valid calls, and run in a sandbox."""

import os
import re
import shlex
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from jobflow.cli.program import commands
from support.paths import ROOT
from support.sandbox.command_line import jobflow
from support.sandbox.flow_commands import JOBFLOW
from support.sandbox.manifests import jobflow as flow
from support.sandbox.manifests import template

PROGRAM: Any = commands()
RUN_UNTIL_CTRL_C = ("jobflow sandbox", "jobflow serve", "jobflow ui", "jobflow run --ui")
WORKFLOW = {
    "apiVersion": "argoproj.io/v1alpha1",
    "kind": "Workflow",
    "metadata": {"name": "hello"},
    "spec": {
        "entrypoint": "main",
        "templates": [{"name": "main", "container": {"image": "busybox", "command": ["true"]}}],
    },
}
JOB = {
    "apiVersion": "batch.volcano.sh/v1alpha1",
    "kind": "Job",
    "metadata": {"name": "train"},
    "spec": template("t")["spec"],
}
BOUND_SECONDS = 60


def examples() -> list[str]:
    """Return the examples in the help of all commands."""
    found: list[str] = []
    for command in PROGRAM.commands.values():
        below = command.epilog.split("Examples:\n")[1]
        found += [line.strip() for line in below.splitlines() if line.strip()]
    return found


EXAMPLES = examples()


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_flags_and_arguments_of_an_example_exist(example: str) -> None:
    calls = re.findall(r"(?:^|[|(] ?)jobflow ([^|>)#]+)", example)
    assert calls or "kubectl" in example
    for call in calls:
        name, *arguments = shlex.split(call)
        PROGRAM.commands[name].make_context(name, arguments)


@pytest.fixture(scope="module")
def sandbox(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    """Run a sandbox in which the flows of each example have ended, and return its kubeconfig."""
    folder = tmp_path_factory.mktemp("sandbox")
    kubeconfig, objects = folder / "kubeconfig", folder / "objects.yaml"
    chosen = [
        item.callspec.params["number"]
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.function is test_an_example_runs
    ]
    spaces = "\n---\n".join(namespace_with_flows(name) for name in map(space_of, chosen))
    objects.write_text(spaces)
    command = [JOBFLOW, "sandbox", "--speed", "20", "--kubeconfig", str(kubeconfig)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        while process.stdout.readline() != "ready\n":
            assert process.poll() is None
        kubectl = ["kubectl", "--kubeconfig", str(kubeconfig)]
        subprocess.run([*kubectl, "create", "-f", str(objects)], check=True, capture_output=True)
        ended = [JOBFLOW, "wait", "--kubeconfig", str(kubeconfig), "-A", "-l", "is=example"]
        subprocess.run(ended, check=False, capture_output=True)
        yield kubeconfig
        process.send_signal(signal.SIGINT)


def space_of(number: int) -> str:
    """Return the namespace of an example."""
    return f"example-{number}"


def namespace_with_flows(name: str) -> str:
    """Return a namespace and the objects in it that examples name."""
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    objects = [*yaml.safe_load_all(world()), JOB]
    for each in objects:
        each["metadata"] = each["metadata"] | {"namespace": name}
        if each["kind"] == "JobFlow":
            each["metadata"]["labels"] = each["metadata"].get("labels", {}) | {"is": "example"}
    return documents(space, *objects)


def documents(*objects: dict[str, Any]) -> str:
    return "---\n".join(yaml.safe_dump(each) for each in objects)


def cron(name: str, schedule: str) -> dict[str, Any]:
    """Return a CronJobFlow with the param that examples set."""
    made = flow(name, {"evaluate": []}, params=[{"name": "day", "value": ""}])
    spec = {"schedule": schedule, "jobFlowTemplate": {"spec": made["spec"]}}
    return made | {"kind": "CronJobFlow", "spec": spec}


def world(name: str = "train") -> str:
    """Return a flow with params that fails, with its templates, and two flows that succeed."""
    sweep = template("sweep")
    sweep["spec"]["tasks"][0]["name"] = "worker"
    steps = {"evaluate": [], "sweep": [], "check": ["evaluate"], "prepare": [], "samples": []}
    train = flow(name, steps)
    train["metadata"]["labels"] = {"team": "vision"}
    values = {"workers": 2, "rates": [1], "rate": 0.5}
    train["spec"]["params"] = [{"name": key, "value": value} for key, value in values.items()]
    train["spec"]["flows"][1]["forEach"] = {"count": 4}
    inner = [{"name": "qc", "template": "prepare"}]
    inner += [{"name": "align", "template": "prepare", "forEach": {"count": 2}}]
    train["spec"]["flows"][4] |= {"forEach": {"count": 4}, "flow": {"flows": inner}}
    templates = template("evaluate"), sweep, template("check", exit_code="3"), template("prepare")
    others = [flow(other, {"evaluate": []}) for other in ("evaluate", "nightly")]
    others += [cron("nightly", "0 0 * * *"), cron("hourly", "0 * * * *")]
    return documents(*templates, train, *(others if name == "train" else ()))


@pytest.mark.long
@pytest.mark.kubectl
@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
@pytest.mark.parametrize("number", range(len(EXAMPLES)), ids=EXAMPLES)
def test_an_example_runs(number: int, sandbox: Path, tmp_path: Path) -> None:
    """It ends with 0, or with 1 because a flow has failed or already finished; never with 2."""
    # an example that deletes the flows of the team does not take them from others
    example = EXAMPLES[number].replace("-n team", f"-n {space_of(number)}")
    environment = folder_for(sandbox, space_of(number), tmp_path)
    if " sites " in example:
        submit = ["jobflow", "submit", "examples/flows-in-flows.yaml", "--wait"]
        subprocess.run(submit, env=environment, cwd=tmp_path, check=True)
    bound = 3 if example.startswith(RUN_UNTIL_CTRL_C) else BOUND_SECONDS
    answer = subprocess.run(
        ["timeout", "-s", "INT", str(bound), "bash", "-o", "pipefail", "-c", f"exec {example}"]
        if example.startswith(RUN_UNTIL_CTRL_C)
        else ["timeout", str(bound), "bash", "-o", "pipefail", "-c", example],
        env=environment, cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    expected = (124,) if example.startswith(RUN_UNTIL_CTRL_C) else (0, 1)
    assert answer.returncode in expected, answer.stdout + answer.stderr
    assert "Traceback" not in answer.stderr


def folder_for(kubeconfig: Path, namespace: str, folder: Path) -> dict[str, str]:
    """Write the files that examples name, and return the environment of a shell in the folder."""
    config = yaml.safe_load(kubeconfig.read_text())
    config["contexts"][0]["context"]["namespace"] = namespace
    config["contexts"].append(config["contexts"][0] | {"name": "lab"})
    own = folder / ".kube" / "config"
    for path in (own, folder / ".jobflow" / "kubeconfig"):
        path.parent.mkdir(parents=True)
        path.write_text(yaml.safe_dump(config))
    (folder / "world.yaml").write_text(world())
    names = ("flow.yaml", "train.yaml", "night.yaml", "old.yaml", "templates/all.yaml")
    (folder / "templates").mkdir()
    for name in names:
        (folder / name).write_text(world(Path(name).stem))
    (folder / "templates" / "all.yaml").write_text(documents(template("other")))
    (folder / "workflows").mkdir()
    for name in ("workflow.yaml", "workflows/hello.yaml"):
        (folder / name).write_text(documents(WORKFLOW))
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "hook"}}
    (folder / "secrets.yaml").write_text(documents(secret))
    (folder / "hours.yaml").write_text("evaluate: 1h30m\n")
    (folder / "params.yaml").write_text("workers: 4\n")
    (folder / "job.yaml").write_text(documents(JOB))
    (folder / "examples").symlink_to(ROOT / "examples")
    (folder / ".config" / "fish" / "completions").mkdir(parents=True)
    (folder / "bin").mkdir()
    (folder / "bin" / "helm").write_text("#!/bin/sh\ncat flow.yaml\n")
    (folder / "bin" / "helm").chmod(0o755)
    if not (folder / "certs").exists():
        jobflow("certs", folder / "certs")
    path = os.pathsep.join((str(folder / "bin"), str(JOBFLOW.parent), os.environ["PATH"]))
    return os.environ | {"HOME": str(folder), "KUBECONFIG": str(own), "PATH": path}
