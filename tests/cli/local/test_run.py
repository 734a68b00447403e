"""`jobflow run`: the real server, webhook and controller, from files to exit code."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from jobflow.cli.local.run import assumptions
from jobflow.client.manifests.check import check_files
from jobflow.client.options import FileOptions, RunnerName
from support.sandbox.command_line import Result, jobflow
from support.sandbox.manifests import jobflow as flow
from support.sandbox.manifests import template

A, B = {"a": []}, {"b": ["a"], "a": []}


def documents(*objects: Mapping[str, Any]) -> str:
    return "\n---\n".join(map(json.dumps, objects))


def run(*objects: Mapping[str, Any], options: tuple[str, ...] = ()) -> Result:
    return jobflow("run", "--speed", "50", *options, "-", stdin=documents(*objects))


def test_flows_run_in_any_order_of_the_file() -> None:
    answer = run(flow("f", B), template("b"), template("a"))
    assert (answer.code, answer.err) == (0, "")
    table = [line.split() for line in answer.out.splitlines()[-3:]]
    assert table[0] == ["STEP", "JOB", "PHASE", "START", "DURATION"]
    assert [row[:3] for row in table[1:]] == [["b", "f-b", "Completed"], ["a", "f-a", "Completed"]]
    changes = [line for line in answer.out.splitlines() if re.match(r"\d\d:\d\d:\d\d  ", line)]
    assert changes[-1][10:] == "f  Succeed"
    assert {"f/a  Completed", "f/b  Completed"} < {line[10:] for line in changes}
    assert "\x1b" not in answer.out


def test_json_is_one_list_of_the_finished_flows() -> None:
    answer = run(flow("f", A), flow("g", A), template("a"), options=("-o", "json"))
    assert answer.code == 0
    assert (answer.json["apiVersion"], answer.json["kind"]) == ("v1", "List")
    found = [
        (item["kind"], item["metadata"]["name"], item["status"]["state"]["phase"])
        for item in answer.json["items"]
    ]
    assert found == [("JobFlow", "f", "Succeed"), ("JobFlow", "g", "Succeed")]


def test_a_job_that_waits_too_long_runs_in_another_queue() -> None:
    """The pod of the first attempt would run after ten minutes."""
    late = 'failure.reason == "QueueTimeout" ? [0, 1] : [600, 601]'
    phases = '{"t": [["Running", $(vars.late.0)], ["Succeeded", $(vars.late.1)]]}'
    annotations = {"sandbox.jobflow.volcano.sh/task-phases": phases}
    pod = {"containers": [{"name": "c", "image": "busybox"}]}
    task = {"name": "t", "template": {"metadata": {"annotations": annotations}, "spec": pod}}
    step = {
        "name": "a",
        "queueTimeout": "1s",
        "vars": {"late": late},
        "retry": {
            "limit": 1,
            "when": 'failure.reason == "QueueTimeout"',
            "backoff": {"duration": "100ms"},
            "patch": {"jobSpec": {"queue": "after-$(failure.reason)"}},
        },
        "jobSpec": {"minAvailable": 1, "tasks": [task]},
    }
    answer = run({**flow("f", {}), "spec": {"flows": [step]}}, options=("--speed", "1"))
    lines = [line[10:] for line in answer.out.splitlines()]
    assert answer.code == 0
    assert answer.out.splitlines()[-1].split()[:3] == ["a", "f-a-r1", "Completed"]
    why = "it was longer in the queue than its queueTimeout of 1s"
    assert f"f/a  Waiting  Retrying: runs again (1 of 1): {why}; the job f-a ended Aborted" in lines


def test_an_exception_of_a_plan_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a mistake of ours")

    monkeypatch.setattr("jobflow.controller.reconciler.plan_flow", failing)
    answer = run(flow("f", A), template("a"))
    assert answer == Result(
        2,
        "",
        "jobflow: error: the controller died: JobFlow f cannot be planned because of an error in "
        "JobFlow itself: ZeroDivisionError: a mistake of ours\n",
    )


def test_a_template_that_is_in_no_file_is_an_error() -> None:
    answer = run(flow("f", {"a": [], "b": ["a"], "c": []}), template("a"))
    assert answer.code == 2
    assert answer.err.splitlines()[-1] == (
        "jobflow: error: JobFlow f waits for the JobTemplates b, c: add them to the FILEs"
    )
    assert "waits for the JobTemplate b" in answer.out


def test_a_failed_flow_and_a_waiting_flow_are_both_reported() -> None:
    answer = run(flow("f", A), flow("g", {"x": []}), template("a", exit_code="1"))
    assert answer.code == 1
    assert "f  Failed" in answer.out and "JobFailed" in answer.out
    assert "JobFlow g waits for the JobTemplate x: add it to the FILEs" in answer.err


def test_no_line_is_cut_in_a_pipe() -> None:
    name = "a-step-with-a-long-name-of-many-words"
    answer = run(flow("f", {name: []}), template(name, exit_code="1"))
    assert answer.code == 1
    [header] = [line for line in answer.out.splitlines() if line.startswith("f  Failed")]
    assert header.endswith("exit code 1 (Error) on node sandbox") and len(header) > 160


def test_all_faults_are_reported_and_nothing_runs() -> None:
    broken = template("b")
    broken["spec"] |= {"x": broken["spec"].pop("minAvailable")}
    del broken["spec"]["tasks"][0]["template"]["spec"]["containers"][0]["image"]
    answer = run(flow("f", {"A": [], "b": ["c"]}), broken)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.count(" error: ") == 4
    assert answer.err.splitlines()[-1] == "4 faults in 1 file, 1 warning"


def test_the_faults_of_the_first_user_are_reported() -> None:
    answer = jobflow("run", "examples/refused/first-user.yaml")
    assert (answer.code, answer.out) == (2, "")
    for fault in (
        'apiVersion: Unsupported value: "batch.volcano.sh/v1alpha1": for a JobFlow write flow.vol',
        'did you mean "CompleteJob"?',
        'spec.queue: Duplicate value: "queue"',
        'metadata.name: Invalid value: "A"',
        'spec.JobRetainPolicy: Forbidden: unknown field; did you mean "jobRetainPolicy"?',
        'targets[0]: Invalid value: "‘A’": no such step: its curly quotes are part of the name, ',
    ):
        assert fault in answer.err


@pytest.mark.long
def test_a_refusal_of_the_server_has_a_place_in_the_file() -> None:
    labelled = template("a")
    labelled["metadata"]["labels"] = {"team": "ml/vision"}
    answer = run(flow("f", A), labelled)
    assert (answer.code, answer.out) == (2, "")
    place, _, sentence = answer.err.partition(": error: ")
    column = json.dumps(labelled).index('"labels"') + 1
    assert place == f"<stdin>:3:{column}"
    assert sentence.startswith('metadata.labels: Invalid value: "ml/vision"')


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a: @", "<stdin>:1:4: error: not YAML: no value begins with @; put it in quotes"),
        ("", "<stdin>: error: contains no object"),
        (
            "kind: Namespace\napiVersion: v1",
            "<stdin>: error: contains no JobFlow, JobTemplate or CronJobFlow",
        ),
        (
            json.dumps(template("a")),
            "jobflow: error: the files contain no JobFlow: add one that uses these JobTemplates",
        ),
    ],
)
def test_files_without_a_flow_are_an_error(text: str, sentence: str) -> None:
    answer = jobflow("run", "-", stdin=text)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.splitlines()[0] == sentence


def test_other_namespaces_and_queues_are_created() -> None:
    objects = flow("f", A), template("a")
    for each in objects:
        each["metadata"]["namespace"] = "team"
    objects[1]["spec"]["queue"] = "gpu"
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}
    version, metadata = "scheduling.volcano.sh/v1beta1", {"name": "gpu"}
    queue = {"apiVersion": version, "kind": "Queue", "metadata": metadata, "spec": {}}
    answer = run(*objects, queue, namespace, namespace)
    assert (answer.code, answer.err) == (0, "")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        *(
            (f"--speed {speed}", f'--speed "{speed}" is not a number above 0')
            for speed in (0, -1, "nan", "inf")
        ),
        ("--speed fast", '--speed "fast" is not a number'),
        ("--runner process --speed 2", "--speed needs --runner simulate"),
        ("--max-restarts 2", "--max-restarts needs --runner process"),
        (
            "--runner process --max-restarts -1",
            '"-1" is not a whole number of 0 or more',
        ),
        ("--runner docker", '--runner "docker" is not one of simulate, process'),
    ],
)
def test_invalid_flags_are_refused(flags: str, message: str) -> None:
    answer = jobflow("run", *flags.split(), "examples/diamond.yaml")
    assert answer.code == 2
    assert message in answer.err


@pytest.mark.parametrize(
    ("example", "runner", "count"),
    [
        ("probed-service", RunnerName.SIMULATE, 1),
        ("probed-service", RunnerName.PROCESS, 0),
        ("parameter-server", RunnerName.SIMULATE, 0),
        ("diamond", RunnerName.SIMULATE, 0),
    ],
)
def test_network_probes_are_not_simulated(example: str, runner: RunnerName, count: int) -> None:
    flows = check_files(FileOptions([f"examples/{example}.yaml"])).flows
    warnings = list(assumptions(flows, runner))
    assert (len(flows), len(warnings)) == (1, count)
    assert all(each.startswith("HTTP and TCP probes pass as soon as") for each in warnings)


def run_and_interrupt(*arguments: str, after: str) -> tuple[int, str]:
    """Run a command, interrupt it after a line with this end, and return exit code and output."""
    process = subprocess.Popen(
        [sys.executable, "-m", "jobflow.cli.main", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ | {"NO_COLOR": "1"},
    )
    assert process.stdout is not None
    first: list[str] = []
    while not (first and first[-1].endswith(f"{after}\n")):
        first.append(process.stdout.readline())
        assert first[-1], first
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=30)
    return process.returncode, "".join(first) + out


@pytest.mark.long
def test_ctrl_c_prints_the_table(tmp_path: Path) -> None:
    file = tmp_path / "flow.yaml"
    file.write_text(documents(flow("f", A), template("a", duration="10m")))
    code, out = run_and_interrupt("run", str(file), after="f/a  Running")
    assert code == 130
    assert "Traceback" not in out
    table = [line.split()[:3] for line in out.splitlines()[-2:]]
    assert table == [["STEP", "JOB", "PHASE"], ["a", "f-a", "Running"]]


@pytest.mark.long
def test_the_sandbox_prints_its_kubeconfig_and_deletes_it_at_the_end(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "some folder" / "kubeconfig"
    code, out = run_and_interrupt("sandbox", "--kubeconfig", str(kubeconfig), after="ready")
    assert (code, out) == (0, f"export KUBECONFIG='{kubeconfig}'\nready\n")
    assert not kubeconfig.exists()
