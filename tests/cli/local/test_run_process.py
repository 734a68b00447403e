"""`jobflow run --runner process`: logs of failed steps, real probes, and the end of processes."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from rich.text import Text

from jobflow.api.flow.jobflow import JobFlow
from jobflow.client.logs.stream import without_escapes
from jobflow.client.signals import interruption
from jobflow.display.results import failed_logs
from jobflow.sandbox.nodes.process_runner import ProcessRunner
from jobflow.sandbox.nodes.runner import FailedRun
from support.sandbox.command_line import Result, jobflow
from support.sandbox.processes import Json, Pids, living, pod_task, sh, wait_for_end

linux = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def flow(*steps: Json, **templates: Json) -> str:
    """Return a flow and templates with one task each, as JSON documents."""
    kinds = {"apiVersion": "flow.volcano.sh/v1alpha1"}
    documents: list[Json] = [
        {**kinds, "kind": "JobFlow", "metadata": {"name": "f"}, "spec": {"flows": list(steps)}}
    ]
    for name, task in templates.items():
        spec = {"minAvailable": task["replicas"], "tasks": [task]}
        meta = {"name": name}
        documents.append({**kinds, "kind": "JobTemplate", "metadata": meta, "spec": spec})
    return "\n---\n".join(msgspec.json.encode(document).decode() for document in documents)


def run(text: str, *options: str) -> Result:
    return jobflow("run", "--runner", "process", *options, "-", stdin=text)


@pytest.mark.long
def test_the_log_of_a_failed_item_is_printed(home: Path) -> None:
    step = {"name": "a", "forEach": {"count": 1}}
    answer = run(flow(step, a=pod_task(sh("echo no disk; exit 3"))))
    assert answer.code == 1
    assert "a: pod f-a-0-t-0 (c), exit code 3, log:\n  │ no disk\n" in answer.out


@pytest.mark.long
def test_the_last_line_of_the_log_of_a_container_is_its_message(home: Path) -> None:
    command = ["sh", "-c", "echo Traceback; echo \"KeyError: 'user_id'\"; exit 3"]
    container = {"image": "i", "command": command}
    kept_out = {**container, "terminationMessagePolicy": "File"}
    answer = run(flow({"name": "a", "container": container}, {"name": "b", "container": kept_out}))
    shown = [line for line in answer.out.splitlines() if " JobFailed: " in line]
    assert [line.endswith("KeyError: 'user_id'") for line in shown if "f-a" in line] == [True] * 2
    assert [line.endswith("on node sandbox") for line in shown if "f-b" in line] == [True] * 2


@pytest.mark.long
def test_dollars_of_params_items_and_outputs_arrive(home: Path) -> None:
    """Kubernetes expands `$$` and `$(NAME)` in the fields in which they are inserted."""
    data = ["pa$$w0rd", "costs $(PRICE) each", "$$"]
    script = (
        "import json, os, sys; words = [*sys.argv[1:], os.environ['A']]; "
        "json.dump({'words': words}, open(os.environ['TERMINATION_LOG'], 'w'))"
    )
    container = {"name": "c", "image": "x", "command": [sys.executable, "-c", script]}
    made = {"name": "b", "container": container, "env": {"A": "$(params.word)", "PRICE": "5"}}
    again = {**made, "name": "c", "dependsOn": {"targets": ["b"]}}
    again["args"] = ["$(steps.b.outputs.words.0)", "-$(steps.b.outputs.words.0)"]
    inner = {"params": {"word": "$(item)"}, "flows": [made, again]}
    inner["outputs"] = {"words": 'steps["c"].outputs.words'}
    answer = run(flow({"name": "a", "forEach": {"items": data}, "flow": inner}), "-o", "json")
    [status] = [
        each["status"] for each in answer.json["items"] if "-" not in each["metadata"]["name"]
    ]
    found = [each["outputs"]["words"] for each in status["conditions"]["f-a"]["runs"]]
    assert found == [[word, f"-{word}", word] for word in data]


@pytest.mark.long
def test_the_log_of_a_failed_step_of_a_child_flow_is_printed(home: Path) -> None:
    inner = {"flows": [{"name": "b", "template": "a"}]}
    step = {"name": "a", "forEach": {"count": 2}, "flow": inner, "continueOnFailure": True}
    answer = run(flow(step, a=pod_task(sh("echo no disk; exit 3"))))
    assert "a/0/b: pod f-a-0-b-t-0 (c), exit code 3, log:\n  │ no disk\n" in answer.out
    assert "a/1/b: pod f-a-1-b-t-0 (c), exit code 3, log:\n  │ no disk\n" in answer.out


@pytest.mark.long
def test_the_last_lines_of_a_failed_steps_log_are_printed(home: Path) -> None:
    script = "seq 30; printf '\\033[31mred\\033[0m\\a\\n10%%\\r20%%\\n' >&2; exit 3"
    answer = run(flow({"name": "a"}, a=pod_task(sh(script))))
    assert answer.code == 1
    lines = answer.out.splitlines()
    head = lines.index("a: pod f-a-t-0 (c), exit code 3, last 20 of 32 lines:")
    expected = [*map(str, range(13, 31)), "red\ufffd", "20%"]
    assert lines[head + 1 : head + 21] == [f"  │ {line}" for line in expected]
    log = lines[head + 21].removeprefix("  file: ")
    assert (home / log).read_text().startswith("1\n2\n3\n")
    assert lines[-1] == f"Logs: {Path(log).parents[2]}"


@pytest.mark.long
def test_json_has_real_outputs_and_nothing_else_is_printed(home: Path) -> None:
    script = "echo noise; echo '{\"acc\": 0.9}' > /dev/termination-log"
    answer = run(flow({"name": "a"}, a=pod_task(sh(script))), "-o", "json")
    [item] = answer.json["items"]
    assert (answer.code, answer.err) == (0, "")
    assert item["status"]["conditions"]["f-a"]["outputs"] == {"acc": 0.9}


@pytest.mark.long
def test_a_missing_command_is_an_error(home: Path) -> None:
    container = {"name": "c", "image": "x", "command": ["no-such"]}
    answer = run(flow({"name": "a"}, a=pod_task(container)))
    assert answer.code == 1
    error = 'not started: exec: "no-such": executable file not found in $PATH'
    assert f"a: pod f-a-t-0 (c), {error}\n" in answer.out


def test_a_container_without_a_command_gets_advice(home: Path) -> None:
    answer = run(flow({"name": "a"}, a=pod_task({"name": "c", "image": "busybox"})), "-o", "json")
    [item] = answer.json["items"]
    assert answer.code == 1
    assert "write the command out" in item["status"]["conditions"]["f-a"]["message"]


@pytest.mark.long
@linux
def test_a_step_starts_when_a_real_service_answers(home: Path) -> None:
    serve = (
        f"{sys.executable} -m http.server --bind $IP 8902 & "
        "while ! [ -e asked ]; do sleep 0.01; done"
    )
    ip = {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
    probe = {"httpGetList": [{"taskName": "t", "path": "/", "port": 8902}]}
    steps = {"name": "serve"}, {"name": "ask", "dependsOn": {"targets": ["serve"], "probe": probe}}
    service, ask = pod_task(sh(serve, env=[ip])), pod_task(sh("touch asked"))
    answer = run(flow(*steps, serve=service, ask=ask))
    assert (answer.code, (home / "asked").exists()) == (0, True)
    [log] = (home / ".jobflow").rglob("f-serve-t-0/c.log")
    assert '"GET / HTTP/1.1" 200' in log.read_text()


SECRET = {"name": "A", "valueFrom": {"secretKeyRef": {"name": "hook", "key": "url"}}}
SOURCES = """
---
apiVersion: v1
kind: Secret
metadata: {name: hook}
stringData: {url: the-url}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {SIZE: "7"}
"""


@pytest.mark.long
def test_secrets_and_config_maps_of_the_files_are_applied(home: Path) -> None:
    sizes = [{"configMapRef": {"name": "settings"}}]
    container = sh("echo $SIZE $A > out", env=[SECRET], envFrom=sizes)
    answer = run(flow({"name": "a"}, a=pod_task(container)) + SOURCES)
    assert (answer.code, (home / "out").read_text()) == (0, "7 the-url\n")


ITEMS: Json = {"name": "a", "forEach": {"count": 2}}
BESIDE_A_DAEMON: Json = {
    "name": "a",
    "dependsOn": {"targets": ["serve"]},
    "flow": {"flows": [{"name": "b", "template": "a"}]},
}


@pytest.mark.long
@pytest.mark.parametrize(
    ("step", "waits"),
    [(ITEMS, "a"), (BESIDE_A_DAEMON, "a, which waits for b")],
    ids=["items", "child flow"],
)
def test_a_flow_whose_pods_wait_for_a_missing_secret_is_given_up(
    home: Path, step: Json, waits: str
) -> None:
    steps = [step] if step is ITEMS else [{"name": "serve", "daemon": True}, step]
    waiting, serve = pod_task(sh("exit 1", env=[SECRET])), pod_task(sh("sleep 600"))
    answer = run(flow(*steps, a=waiting, serve=serve))
    assert answer.code == 2
    why = 'whose pods cannot start: secret "hook" not found; add it to the FILEs'
    assert answer.err == f"jobflow: error: JobFlow f waits for {waits}, {why}\n"


def test_a_secret_with_a_number_is_refused_without_its_value(home: Path) -> None:
    secret = SOURCES.replace("the-url", "5432")
    answer = run(flow({"name": "a"}, a=pod_task(sh("exit 1"))) + secret)
    assert answer.code == 2
    assert "stringData.url: Invalid value: must be a string; put it in quotes" in answer.err
    assert "5432" not in answer.out + answer.err


@pytest.mark.long
@linux
def test_a_step_calls_a_service_by_the_name_of_its_pod(home: Path) -> None:
    ip = {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
    server = pod_task(sh(f"{sys.executable} -m http.server --bind $IP 8903", env=[ip]))
    ask = f"{sys.executable} -c 'import sys, urllib.request as r; r.urlopen(sys.argv[1])' $URL"
    probe = {"httpGetList": [{"taskName": "t", "path": "/", "port": 8903}]}
    url = "http://$(steps.serve.job)-t-0.$(steps.serve.job):8903/"
    steps: list[Json] = [
        {
            "name": "serve",
            "daemon": True,
            "jobSpec": {"plugins": {"svc": []}, "tasks": [server]},
        },
        {
            "name": "ask",
            "dependsOn": {"targets": ["serve"], "probe": probe},
            "env": {"URL": url},
        },
    ]
    assert run(flow(*steps, ask=pod_task(sh(ask)))).code == 0


@pytest.mark.long
def test_a_system_with_one_loopback_address_is_a_warning(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ProcessRunner, "has_own_addresses", False)
    answer = run(flow({"name": "a"}, a=pod_task(sh("true"))))
    assert answer.code == 0
    assert "all pods have the address 127.0.0.1" in answer.err


def test_a_log_folder_that_cannot_be_created_is_an_error(home: Path) -> None:
    (home / ".jobflow").write_text("")
    answer = run(flow({"name": "a"}, a=pod_task(sh("true"))))
    assert (answer.code, answer.out) == (2, "")
    assert (
        answer.err
        == "jobflow: error: .jobflow/logs: Not a directory; it has to be a folder for the logs\n"
    )


class RunningCommand:
    """`jobflow run` as a process. Its step starts three processes that try to escape."""

    def __init__(self, home: Path, pids: Pids) -> None:
        task = pod_task(sh(pids.runaways()))
        (home / "flow.yaml").write_text(flow({"name": "a"}, a=task))
        command = ["-m", "jobflow.cli.main", "run", "--runner", "process", "flow.yaml"]
        self.process = subprocess.Popen(
            [sys.executable, *command],
            cwd=home,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=os.environ | {"NO_COLOR": "1"},
        )
        self.pids = pids.next(3)
        assert len(living(*self.pids)) == 3

    def wait_for(self, word: str) -> None:
        """Wait for a line of the output: the processes may be quicker than the status."""
        assert self.process.stdout is not None
        assert any(word in line for line in self.process.stdout), f"no line has {word}"

    def end(self, number: signal.Signals) -> tuple[int, str]:
        self.process.send_signal(number)
        out, _ = self.process.communicate(timeout=30)
        return self.process.returncode, out


@pytest.mark.long
@linux
def test_ctrl_c_leaves_no_process_behind(home: Path, pids: Pids) -> None:
    running = RunningCommand(home, pids)
    running.wait_for("Running")
    code, out = running.end(signal.SIGINT)
    assert not living(*running.pids)
    assert code == 130
    assert out.splitlines()[-3].split()[:3] == ["a", "f-a", "Running"]


@pytest.mark.long
@linux
def test_sigkill_leaves_no_process_behind(home: Path, pids: Pids) -> None:
    running = RunningCommand(home, pids)
    running.end(signal.SIGKILL)
    for pid in running.pids:
        wait_for_end(pid)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
async def test_other_signals_interrupt_too(number: signal.Signals) -> None:
    before = signal.signal(number, signal.SIG_DFL)  # nohup has SIGHUP ignored
    try:
        with interruption() as stop:
            os.kill(os.getpid(), number)
            await stop.wait()
    finally:
        signal.signal(number, before)


async def test_sighup_is_ignored_under_nohup() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with interruption():
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def failed_flow(flow_name: str, **more: str) -> JobFlow:
    condition = {"phase": "Failed", "job": "f-a", **more}
    steps = {"flows": [{"name": "a"}]}
    return msgspec.convert(
        {"metadata": {"name": flow_name, "namespace": "ns"}, "spec": steps,
         "status": {"conditions": {f"{flow_name}-a": condition}}},
        JobFlow,
    )  # fmt: skip


def failed_run(log: Path, pod: str = "f-a-t-0", container: str = "c", code: int = 1) -> FailedRun:
    return FailedRun("ns", "f-a", "t", pod, container, code, "", "", log)


def printed(flow: JobFlow, *runs: FailedRun, width: int | None = None) -> list[str]:
    return [line.plain for line in failed_logs(flow, runs, width)]


def test_the_log_is_that_of_the_container_in_the_status_or_of_the_first(
    tmp_path: Path,
) -> None:
    runs = [failed_run(tmp_path / "x", f"f-a-t-{n}", code=n) for n in (1, 2, 1, 3)]
    flow = failed_flow("f", failure={"pod": "f-a-t-2", "container": "c"})  # type: ignore[arg-type]
    assert printed(flow, *runs)[1] == "a: pod f-a-t-2 (c), exit code 2, empty log"
    assert printed(failed_flow("f"), *runs)[1] == "a: pod f-a-t-1 (c), exit code 1, empty log"
    assert printed(failed_flow("f", phase="Completed"), *runs) == []
    assert printed(failed_flow("f")) == []


def test_lines_are_shortened_to_the_width_of_the_terminal(tmp_path: Path) -> None:
    log = tmp_path / "c.log"
    log.write_text("日本語" * 50 + "\nshort")
    for width in (80, 160):
        lines = printed(failed_flow("f"), failed_run(log), width=width)
        assert all(Text(line).cell_len <= width for line in lines[:-1])
        assert lines[2].endswith("…")


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("\x1b]0;title\x07text", "text"),
        ("\x1b[2J\x1b[1;1Hover", "over"),
        ("a\tb", "a       b"),
        ("1%\r2%\r", "2%"),
        ("\x9b31mred \x00", "\ufffd31mred \ufffd"),
        ("\u202egpj", "\ufffdgpj"),
        ("", ""),
    ],
)
def test_escape_sequences_of_a_log_are_removed(line: str, text: str) -> None:
    assert without_escapes(line) == text
