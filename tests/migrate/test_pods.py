"""Templates with containers: commands, outputs, pods, retries."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from support.argo.migrated import (
    dag,
    echo,
    inputs,
    migrate,
    parameters,
    shell,
    step,
    steps,
    workflow,
)


def output(name: str, path: str, **rest: Any) -> dict[str, Any]:
    return {"name": name, "valueFrom": {"path": path, **rest}}


def script(command: list[str], source: str) -> dict[str, Any]:
    return {"name": "code", "script": {"image": "i", "command": command, "source": source}}


def consumer(value: str) -> dict[str, Any]:
    """Return a steps template whose second step prints something of the first."""
    return steps("main", [step("a", "code")], [step("b", arguments=parameters(message=value))])


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (["bash", "-x"], ["bash", "-x", "-c"]),
        (["/usr/bin/python3.12"], ["/usr/bin/python3.12", "-c"]),
        (["node"], ["node", "-e"]),
    ],
)
def test_a_script_is_an_argument(command: list[str], expected: list[str]) -> None:
    found = migrate(workflow(script(command, "echo $$ $(HOSTNAME)")))
    assert found.step("code")["container"] == {
        "image": "i",
        "command": expected,
        "args": ["echo $$$$ $(HOSTNAME)"],
    }


def test_a_script_keeps_its_dollars() -> None:
    """Argo writes it to a file; the arguments of a container are expanded by Kubernetes."""
    found = migrate(workflow(script(["sh"], "kill $$; x=$(index) {{workflow.name}}")))
    assert found.step("code")["container"]["args"] == ["kill $$$$; x=$$(index) $(flow.name)"]


def test_an_unknown_interpreter_is_named() -> None:
    found = migrate(workflow(script(["cobol"], "x")))
    assert [path for path, _ in found.found()] == ["spec.templates[0].script"]
    assert "    # TODO: the interpreter" in found.text.out


def test_the_only_file_is_the_termination_message() -> None:
    code = shell("code", outputs={"parameters": [output("out", "/tmp/x")]})
    main = consumer("{{steps.a.outputs.parameters.out}}")
    found = migrate(workflow(main, code, echo(inputs=inputs("message"))))
    assert found.step("a")["container"]["terminationMessagePath"] == "/tmp/x"
    assert found.step("b")["container"]["args"] == ["$(steps.a.outputs.text)"]


def test_a_default_is_used_if_the_output_does_not_exist() -> None:
    code = shell("code", outputs={"parameters": [output("out", "/tmp/x", default="none")]})
    main = consumer("got {{steps.a.outputs.parameters.out}}")
    found = migrate(workflow(main, code, echo(inputs=inputs("message"))))
    assert found.step("b")["vars"] == {"out": 'get(steps["a"].outputs, "text", "none")'}
    assert found.step("b")["container"]["args"] == ["got $(vars.out)"]


def run_container(container: dict[str, Any], log: Path) -> subprocess.CompletedProcess[str]:
    """Run a command as the kubelet does, with another file for the termination message."""
    command = [each.replace("/dev/termination-log", str(log)) for each in container["command"]]
    arguments = [*command, *container.get("args", ())]
    environment = {"PATH": os.environ["PATH"]}
    return subprocess.run(arguments, capture_output=True, text=True, env=environment, check=False)


def test_stdout_is_the_termination_message(tmp_path: Path) -> None:
    main = consumer("{{steps.a.outputs.result}}")
    code = script(["sh"], "echo one\necho ' two'\nexit 3")
    found = migrate(workflow(main, code, echo(inputs=inputs("message"))))
    ended = run_container(found.step("a")["container"], tmp_path / "log")
    assert (ended.returncode, ended.stdout) == (3, "one\n two\n")
    assert (tmp_path / "log").read_text() == "one\n two\n"


@pytest.mark.parametrize("text", ["plain", 'a "quoted" \\ text\twith\nlines', "{}", ""])
def test_several_outputs_are_a_json_object(text: str, tmp_path: Path) -> None:
    files = {name: tmp_path / name for name in ("x", "z")}
    outputs = {"parameters": [output(name, str(path)) for name, path in files.items()]}
    code = shell("code", f'printf %s "$TEXT" > {files["x"]}; echo z > {files["z"]}; echo out')
    code["outputs"] = outputs
    message = " ".join(f"{{{{steps.a.outputs.{name}}}}}" for name in ("result", "parameters.x"))
    found = migrate(workflow(consumer(message), code, echo(inputs=inputs("message"))))
    container = found.step("a")["container"]
    container["args"] = [f"TEXT='{text}'; {container['args'][0]}"]
    ended = run_container(container, tmp_path / "log")
    assert (ended.returncode, ended.stdout) == (0, "out\n"), ended.stderr
    assert json.loads((tmp_path / "log").read_text()) == {"result": "out", "x": text, "z": "z"}
    assert found.step("b")["container"]["args"] == [
        "$(steps.a.outputs.result) $(steps.a.outputs.x)"
    ]


def test_outputs_of_an_image_without_a_command_are_named() -> None:
    code = {"name": "code", "container": {"image": "i"}}
    main = consumer("{{steps.a.outputs.result}}")
    found = migrate(workflow(main, code, echo(inputs=inputs("message"))))
    assert [path for path, _ in found.found()] == ["spec.templates[1].container"]


def test_pod_fields_make_a_job_spec() -> None:
    pod = {"nodeSelector": {"disk": "ssd"}, "metadata": {"labels": {"app": "x"}}}
    pod |= {"initContainers": [{"name": "first", "image": "i"}]}
    pod |= {"sidecars": [{"name": "beside", "image": "i", "mirrorVolumeMounts": True}]}
    main = shell("main", **pod)
    main["container"]["volumeMounts"] = [{"name": "v", "mountPath": "/v"}]
    volumes = [{"name": "v", "emptyDir": {}}, {"name": "other", "emptyDir": {}}]
    found = migrate(workflow(main, volumes=volumes, serviceAccountName="sa"))
    [task] = found.step("main")["jobSpec"]["tasks"]
    spec = task["template"]["spec"]
    assert task["template"]["metadata"] == {"labels": {"app": "x"}}
    assert (spec["nodeSelector"], spec["serviceAccountName"]) == ({"disk": "ssd"}, "sa")
    assert [(each["name"], each.get("restartPolicy")) for each in spec["initContainers"]] == [
        ("beside", "Always"),
        ("first", None),
    ]
    assert spec["initContainers"][0]["volumeMounts"] == main["container"]["volumeMounts"]
    assert spec["volumes"] == [volumes[0]]


def test_a_container_set_runs_in_order() -> None:
    containers = [
        {"name": "b", "image": "i", "dependencies": ["a"]},
        {"name": "a", "image": "i"},
        {"name": "c", "image": "i", "dependencies": ["b"]},
    ]
    found = migrate(workflow({"name": "main", "containerSet": {"containers": containers}}))
    spec = found.step("main")["jobSpec"]["tasks"][0]["template"]["spec"]
    assert [each["name"] for each in spec["initContainers"]] == ["a", "b"]
    assert [each["name"] for each in spec["containers"]] == ["c"]


def test_retries() -> None:
    strategy = {
        "limit": "3",
        "backoff": {"duration": "2", "factor": 3, "cap": "1m"},
        "expression": "asInt(lastRetry.exitCode) > 1 && lastRetry.status != 'Error'",
        "affinity": {"nodeAntiAffinity": {}},
    }
    found = migrate(workflow(shell("main", "echo {{retries}}", retryStrategy=strategy)))
    assert found.step("main")["retry"] == {
        "limit": 3,
        "backoff": {"duration": "2s", "max": "1m", "factor": 3},
        "when": 'failure.exitCode > 1 && (failure.disruption ? "Error" : "Failed") != "Error"',
        "avoidNodes": True,
    }
    assert found.step("main")["container"]["args"] == ["echo $(retries)"]


def test_a_limit_of_time_of_all_attempts_is_named() -> None:
    strategy = {"limit": 1, "backoff": {"duration": "1s", "maxDuration": "1m"}}
    found = migrate(workflow(shell("main", retryStrategy=strategy)))
    assert [path for path, _ in found.found()] == [
        "spec.templates[0].retryStrategy.backoff.maxDuration"
    ]


def test_limits_of_time() -> None:
    main = dag("main", step("a", "code", arguments=parameters(t="90")), step("b", "other"))
    code = shell("code", inputs=inputs("t"), timeout="{{inputs.parameters.t}}s")
    found = migrate(workflow(main, code, shell("other", activeDeadlineSeconds=5)))
    assert (found.step("a")["timeout"], found.step("b")["timeout"]) == ("90s", "5s")


def test_a_daemon_with_a_probe_and_its_address() -> None:
    server = shell("server", daemon=True)
    server["container"]["readinessProbe"] = {"httpGet": {"path": "/ready", "port": 80}}
    call = step("b", arguments=parameters(message="http://{{steps.a.ip}}:80"))
    main = steps("main", [step("a", "server")], [call])
    found = migrate(workflow(main, server, echo(inputs=inputs("message"))))
    assert found.step("a")["daemon"] is True
    assert found.step("b")["dependsOn"] == {
        "targets": ["a"],
        "probe": {"httpGetList": [{"taskName": "main", "path": "/ready", "port": 80}]},
    }
    address = "$(steps.a.job)-main-0.$(steps.a.job)"
    assert found.step("b")["container"]["args"] == [f"http://{address}:80"]
    assert found.spec["jobDefaults"] == {"plugins": {"svc": []}}


def test_a_suspend_template_is_an_approval() -> None:
    supplied = {"parameters": [{"name": "word", "valueFrom": {"supplied": {}}}]}
    main = steps(
        "main",
        [step("ask", "ask"), step("wait", "wait")],
        [step("b", arguments=parameters(message="{{steps.ask.outputs.parameters.word}}"))],
    )
    ask = {"name": "ask", "suspend": {}, "outputs": supplied}
    wait = {"name": "wait", "suspend": {"duration": "20"}}
    found = migrate(workflow(main, ask, wait, echo(inputs=inputs("message"))))
    assert found.step("ask")["approval"] == {
        "message": "ask: approve to continue with --output word"
    }
    assert found.step("wait")["approval"] == {
        "message": "wait: waits 20s",
        "timeout": "20s",
        "default": "Approve",
    }
    assert found.step("b")["container"]["args"] == ["$(steps.ask.outputs.word)"]


def test_a_patch_of_the_pod() -> None:
    limits = '{"limits": {"cpu": "{{workflow.parameters.cpu}}"}}'
    patch = f'{{"containers": [{{"name": "main", "resources": {limits}}}]}}'
    found = migrate(workflow(shell("main", podSpecPatch=patch), arguments=parameters(cpu="2")))
    [task] = found.step("main")["patch"]["jobSpec"]["tasks"]
    assert task["template"]["spec"]["containers"] == [
        {"name": "main", "resources": {"limits": {"cpu": "$(params.cpu)"}}}
    ]


def test_the_name_of_the_pod_and_texts_that_look_like_references() -> None:
    found = migrate(workflow(shell("main", "echo {{pod.name}} $(index) $(hostname)")))
    container = found.step("main")["container"]
    assert container["args"] == ["echo $(POD_NAME) $$(index) $(hostname)"]
    assert container["env"][0]["name"] == "POD_NAME"


@pytest.mark.parametrize("kind", ["resource", "http", "plugin", "data"])
def test_a_template_without_an_equal_fails_until_it_is_written(kind: str) -> None:
    main = steps("main", [step("a", "odd")], [step("b")])
    found = migrate(workflow(main, {"name": "odd", kind: {"action": "get"}}, echo()))
    assert [path for path, _ in found.found()] == [f"spec.templates[1].{kind}"]
    assert found.step("a")["container"]["command"][-1].endswith("; exit 1")
    assert f"<stdin>:{found.text.out and found.report.json[0]['line']}:" in found.text.err


@pytest.mark.parametrize(
    "extra",
    [
        {"synchronization": {"mutexes": [{"name": "m"}, {"name": "n"}]}},
        {"inputs": {"artifacts": [{"name": "in", "path": "/in"}]}},
        {"outputs": {"artifacts": [{"name": "out", "path": "/out"}]}},
    ],
)
def test_fields_without_an_equal_are_named(extra: dict[str, Any]) -> None:
    found = migrate(workflow(shell("main", **extra)))
    assert len(found.found()) == 1
    assert found.text.code == 1


@pytest.mark.parametrize("extra", [{"memoize": {"key": "k"}}, {"metrics": {"prometheus": []}}])
def test_fields_without_an_effect_are_left_out(extra: dict[str, Any]) -> None:
    found = migrate(workflow(shell("main", **extra)))
    assert (found.text.code, len(found.found("info"))) == (0, 1)


def test_the_lock_of_a_template_is_a_group_of_steps() -> None:
    lock = {"synchronization": {"mutexes": [{"name": "l"}]}}
    main = steps("main", [step("a", "pod")], [step("b", "below")])
    below = steps("below", [step("c", "echo")]) | {"synchronization": {"mutex": {"name": "m"}}}
    found = migrate(workflow(main, shell("pod", **lock), below, echo()))
    assert found.step("a")["concurrency"] == {"group": "l"}
    assert found.step("b")["concurrency"] == {"group": "m"}


def test_the_lock_of_the_first_template_is_named() -> None:
    main = steps("main", [step("a", "echo")]) | {"synchronization": {"mutex": {"name": "m"}}}
    found = migrate(workflow(main, echo()))
    assert [path for path, _ in found.found()] == ["spec.templates[0].synchronization"]
