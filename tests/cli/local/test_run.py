"""`jobflow run`: the real server, webhook and controller, from files to exit code."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.sandbox.command_line import Said, jobflow

FLOW = """\
apiVersion: flow.volcano.sh/v1alpha1
kind: JobFlow
metadata: {{name: {name}}}
spec: {spec}
"""
TEMPLATE = """\
apiVersion: flow.volcano.sh/v1alpha1
kind: JobTemplate
metadata:
  name: {name}
  annotations: {{{annotations}}}
spec:
  minAvailable: 1
  tasks:
    - name: t
      replicas: 1
      template:
        spec:
          restartPolicy: Never
          containers: [{{name: c, image: busybox}}]
"""


def flow(steps: str, name: str = "f") -> str:
    return FLOW.format(name=name, spec=f"{{flows: [{steps}]}}")


def template(name: str, **annotations: str) -> str:
    given = ", ".join(
        f'sandbox.jobflow.volcano.sh/{key.replace("_", "-")}: "{value}"'
        for key, value in annotations.items()
    )
    return TEMPLATE.format(name=name, annotations=given)


def run(*documents: str, options: tuple[str, ...] = ()) -> Said:
    return jobflow("run", "--speed", "50", *options, "-", stdin="---\n".join(documents))


def test_flows_are_carried_through_whatever_the_order_in_the_file() -> None:
    answer = run(
        flow("{name: b, dependsOn: {targets: [a]}}, {name: a}"), template("b"), template("a")
    )
    assert (answer.code, answer.err) == (0, "")
    table = [line.split() for line in answer.out.splitlines()[-3:]]
    assert table[0] == ["STEP", "JOB", "PHASE", "START", "DURATION"]
    assert [row[:3] for row in table[1:]] == [
        ["b", "f-b", "Completed"],
        ["a", "f-a", "Completed"],
    ]


def test_off_a_terminal_there_is_a_line_a_change_and_no_escape_codes() -> None:
    answer = run(flow("{name: a}"), template("a"))
    assert "\x1b" not in answer.out
    lines = [line for line in answer.out.splitlines() if re.match(r"\d\d:\d\d:\d\d  ", line)]
    assert lines[-2][10:] == "f/a  Completed"
    assert lines[-1][10:] == "f  Succeed"


def test_a_failed_flow_is_exit_code_1() -> None:
    answer = run(flow("{name: a}"), template("a", exit_code="3"))
    assert answer.code == 1
    assert "f  Failed" in answer.out
    assert "JobFailed" in answer.out


def test_json_is_one_list_of_the_final_flows_and_nothing_else() -> None:
    answer = run(flow("{name: a}"), flow("{name: a}", "g"), template("a"), options=("-o", "json"))
    assert answer.code == 0
    assert (answer.json["apiVersion"], answer.json["kind"]) == ("v1", "List")
    assert [item["metadata"]["name"] for item in answer.json["items"]] == ["f", "g"]
    assert {item["status"]["state"]["phase"] for item in answer.json["items"]} == {"Succeed"}
    assert {item["kind"] for item in answer.json["items"]} == {"JobFlow"}


def test_waiting_for_templates_that_no_file_has_does_not_hang() -> None:
    answer = run(flow("{name: a}, {name: b, dependsOn: {targets: [a]}}, {name: c}"), template("a"))
    assert answer.code == 2
    assert answer.err.splitlines()[-1] == (
        "jobflow run: JobFlow f waits for the JobTemplates b, c, which no FILE has"
    )
    assert "waits for the JobTemplate b" in answer.out


def test_one_flow_failed_and_another_waits_for_ever() -> None:
    answer = run(flow("{name: a}"), flow("{name: x}", "g"), template("a", exit_code="1"))
    assert answer.code == 1
    assert "JobFlow g waits for the JobTemplate x" in answer.err


def test_refused_with_every_fault_at_once_and_nothing_is_run() -> None:
    wrong = template("b").replace("image: busybox", "").replace("minAvailable: 1", "x: 1")
    answer = run(flow("{name: A}, {name: b, dependsOn: {targets: [c]}}"), wrong)
    assert answer.code == 2
    assert answer.out == ""
    assert answer.err.count(" error: ") == 4
    assert answer.err.splitlines()[-1] == "4 faults in 1 file, 1 warning"


def test_the_first_users_manifest() -> None:
    answer = jobflow("run", "examples/refused/first-user.yaml")
    assert (answer.code, answer.out) == (2, "")
    for said in (
        'apiVersion: Unsupported value: "batch.volcano.sh/v1alpha1": for a JobFlow write flow.vol',
        'did you mean "CompleteJob"?',
        'spec.queue: Duplicate value: "queue"',
        'metadata.name: Invalid value: "A"',
        'spec.JobRetainPolicy: Forbidden: unknown field; did you mean "jobRetainPolicy"?',
        'targets[0]: Invalid value: "‘A’": no such step: its curly quotes are part of the name, ',
    ):
        assert said in answer.err


def test_what_only_the_server_refuses_has_its_place_too() -> None:
    labelled = template("a").replace("name: a\n", "name: a\n  labels: {team: ml/vision}\n", 1)
    answer = run(flow("{name: a}"), labelled)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith('<stdin>:10:3: error: metadata.labels: Invalid value: "ml/vision"')


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: @", "<stdin>:1:4: error: not YAML: no value begins with @; put it in quotes"),
        ("", "<stdin>: error: empty: no object in it"),
        ("kind: Namespace\napiVersion: v1", "<stdin>: error: no JobFlow and no JobTemplate in it"),
    ],
)
def test_unreadable(text: str, said: str) -> None:
    answer = run(text)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.splitlines()[0] == said


def test_templates_alone() -> None:
    answer = run(template("a"))
    assert answer.code == 2
    assert answer.err == (
        "jobflow run: there is no JobFlow in the files, so there is nothing to run\n"
    )


def test_other_namespaces_and_queues_are_made() -> None:
    documents = [
        doc.replace("metadata: {", "metadata: {namespace: team, ").replace(
            "metadata:\n", "metadata:\n  namespace: team\n"
        )
        for doc in (flow("{name: a}"), template("a").replace("spec:\n", "spec:\n  queue: gpu\n", 1))
    ]
    queue = (
        "apiVersion: scheduling.volcano.sh/v1beta1\nkind: Queue\nmetadata: {name: gpu}\nspec: {}\n"
    )
    namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: team}\n"
    answer = run(*documents, queue, namespace, namespace)
    assert (answer.code, answer.err) == (0, "")


@pytest.mark.parametrize("speed", ["0", "-1", "nan", "inf", "fast"])
def test_a_speed_is_a_positive_number(speed: str) -> None:
    answer = jobflow("run", "--speed", speed, "examples/diamond.yaml")
    assert answer.code == 2
    assert "--speed" in answer.err


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ("--runner process --speed 2", "'--speed': it goes with --runner simulate"),
        ("--max-restarts 2", "'--max-restarts': it goes with --runner process"),
        ("--runner process --max-restarts -1", "'--max-restarts': it has to be 0 or more"),
        ("--runner docker", "'docker' is not one of 'simulate', 'process'"),
    ],
)
def test_flags_that_do_not_go_together_are_named(flags: str, said: str) -> None:
    answer = jobflow("run", *flags.split(), "examples/diamond.yaml")
    assert answer.code == 2
    assert said in answer.err


def interrupted(*arguments: str, lines: int) -> tuple[int, str]:
    """Start the command, wait for so many lines of output, press Ctrl-C."""
    process = subprocess.Popen(
        [sys.executable, "-m", "jobflow.cli.main", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ | {"NO_COLOR": "1"},
    )
    assert process.stdout is not None
    read = [process.stdout.readline() for _ in range(lines)]
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=30)
    return process.returncode, "".join(read) + out


def test_ctrl_c_still_prints_the_table(tmp_path: Path) -> None:
    file = tmp_path / "flow.yaml"
    file.write_text(flow("{name: a}") + "---\n" + template("a", duration="10m"))
    code, out = interrupted("run", str(file), lines=2)
    assert code == 130
    assert "Traceback" not in out
    assert [line.split()[:3] for line in out.splitlines()[-2:]] == [
        ["STEP", "JOB", "PHASE"],
        ["a", "f-a", "Running"],
    ]


def test_the_sandbox_says_where_it_is_and_ends_cleanly(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "some folder" / "kubeconfig"
    code, out = interrupted("sandbox", "--kubeconfig", str(kubeconfig), lines=2)
    assert (code, out) == (0, f"export KUBECONFIG='{kubeconfig}'\nready\n")
    assert not kubeconfig.exists()
