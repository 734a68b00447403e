"""`jobflow run --runner process`: commands that really run, and what is left of them: nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from rich.text import Text

from jobflow.api.jobflow import JobFlow
from jobflow.cli.display.failed_logs import failures, harmless
from jobflow.cli.signals import interruption
from jobflow.sandbox.nodes.process.runner import FailedRun
from support.sandbox.command_line import Said, jobflow
from support.sandbox.processes import Json, Pids, living, pod_task, sh, wait_for_end

linux = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def pids(tmp_path: Path) -> Iterator[Pids]:
    made = Pids(tmp_path)
    yield made
    made.close()


def flow(*steps: Json, **templates: Json) -> str:
    """A flow of these steps, and templates of one task each, as YAML (JSON is some)."""
    kinds = {"apiVersion": "flow.volcano.sh/v1alpha1"}
    documents: list[Json] = [
        {**kinds, "kind": "JobFlow", "metadata": {"name": "f"}, "spec": {"flows": list(steps)}}
    ]
    for name, task in templates.items():
        spec = {"minAvailable": task["replicas"], "tasks": [task]}
        meta = {"name": name}
        documents.append({**kinds, "kind": "JobTemplate", "metadata": meta, "spec": spec})
    return "\n---\n".join(msgspec.json.encode(document).decode() for document in documents)


def run(text: str, *options: str) -> Said:
    return jobflow("run", "--runner", "process", *options, "-", stdin=text)


def test_of_a_failed_item_the_end_of_its_log_is_shown(home: Path) -> None:
    answer = run(
        flow({"name": "a", "forEach": {"count": 1}}, a=pod_task(sh("echo no disk; exit 3")))
    )
    assert answer.code == 1
    lines = answer.out.splitlines()
    assert "a: pod f-a-0-t-0 (c), exit code 3, it wrote:" in lines
    assert "  │ no disk" in lines


def test_a_failed_step_shows_the_end_of_its_log(home: Path) -> None:
    script = "seq 30; printf '\\033[31mred\\033[0m\\a\\n10%%\\r20%%\\n' >&2; exit 3"
    answer = run(flow({"name": "a"}, a=pod_task(sh(script))))
    assert answer.code == 1
    lines = answer.out.splitlines()
    head = lines.index("a: pod f-a-t-0 (c), exit code 3, last 20 of 32 lines:")
    shown = [*map(str, range(13, 31)), "red\ufffd", "20%"]
    assert lines[head + 1 : head + 21] == [f"  │ {line}" for line in shown]
    log = lines[head + 21].removeprefix("  log: ")
    assert (home / log).read_text().startswith("1\n2\n3\n")
    assert lines[-1] == f"Logs: {Path(log).parents[2]}"


def test_json_is_json_alone_and_outputs_are_real(home: Path) -> None:
    script = "echo noise; echo '{\"acc\": 0.9}' > /dev/termination-log"
    answer = run(flow({"name": "a"}, a=pod_task(sh(script))), "-o", "json")
    [item] = answer.json["items"]
    assert (answer.code, answer.err) == (0, "")
    assert item["status"]["conditions"]["f-a"]["outputs"] == {"acc": 0.9}


def test_a_command_that_does_not_exist(home: Path) -> None:
    answer = run(
        flow({"name": "a"}, a=pod_task({"name": "c", "image": "x", "command": ["no-such"]}))
    )
    assert answer.code == 1
    said = 'not started: exec: "no-such": executable file not found in $PATH'
    assert f"a: pod f-a-t-0 (c), {said}\n" in answer.out


def test_a_container_without_a_command_says_what_to_do(home: Path) -> None:
    answer = run(flow({"name": "a"}, a=pod_task({"name": "c", "image": "busybox"})), "-o", "json")
    [item] = answer.json["items"]
    assert answer.code == 1
    assert "write the command out" in item["status"]["conditions"]["f-a"]["message"]


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


def test_no_place_for_logs(home: Path) -> None:
    (home / ".jobflow").write_text("")
    answer = run(flow({"name": "a"}, a=pod_task(sh("true"))))
    assert (answer.code, answer.out) == (2, "")
    assert answer.err == "jobflow run: .jobflow/logs: Not a directory; logs are kept there\n"


class Started:
    """`jobflow run` as a process of its own, with three processes that run and hide."""

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

    def end(self, number: signal.Signals) -> tuple[int, str]:
        self.process.send_signal(number)
        out, _ = self.process.communicate(timeout=30)
        return self.process.returncode, out


@linux
def test_ctrl_c_leaves_no_process_behind(home: Path, pids: Pids) -> None:
    started = Started(home, pids)
    code, out = started.end(signal.SIGINT)
    assert not living(*started.pids)
    assert code == 130
    assert out.splitlines()[-3].split()[:3] == ["a", "f-a", "Running"]


@linux
def test_killed_it_leaves_no_process_behind(home: Path, pids: Pids) -> None:
    started = Started(home, pids)
    started.end(signal.SIGKILL)
    for pid in started.pids:
        wait_for_end(pid)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
async def test_other_signals_end_it_in_order_too(number: signal.Signals) -> None:
    before = signal.signal(number, signal.SIG_DFL)  # nohup has SIGHUP ignored
    try:
        with interruption() as stop:
            os.kill(os.getpid(), number)
            await stop.wait()
    finally:
        signal.signal(number, before)


async def test_what_nohup_ignores_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with interruption():
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def failed(flow_name: str, **more: str) -> JobFlow:
    condition = {"phase": "Failed", "job": "f-a", **more}
    steps = {"flows": [{"name": "a"}]}
    return msgspec.convert(
        {"metadata": {"name": flow_name, "namespace": "ns"}, "spec": steps,
         "status": {"conditions": {f"{flow_name}-a": condition}}},
        JobFlow,
    )  # fmt: skip


def failed_run(log: Path, pod: str = "f-a-t-0", container: str = "c", code: int = 1) -> FailedRun:
    return FailedRun("ns", "f-a", "t", pod, container, code, "", "", log)


def shown(flow: JobFlow, *runs: FailedRun, width: int | None = None) -> list[str]:
    return [line.plain for line in failures(flow, runs, width)]


def test_the_container_that_status_names_is_shown_else_the_first_that_failed(
    tmp_path: Path,
) -> None:
    runs = [failed_run(tmp_path / "x", f"f-a-t-{n}", code=n) for n in (1, 2, 1, 3)]
    named = failed("f", failure={"pod": "f-a-t-2", "container": "c"})  # type: ignore[arg-type]
    assert shown(named, *runs)[1] == "a: pod f-a-t-2 (c), exit code 2, wrote nothing"
    assert shown(failed("f"), *runs)[1] == "a: pod f-a-t-1 (c), exit code 1, wrote nothing"
    assert shown(failed("f", phase="Completed"), *runs) == []
    assert shown(failed("f")) == []


def test_lines_are_cut_to_the_terminal(tmp_path: Path) -> None:
    log = tmp_path / "c.log"
    log.write_text("日本語" * 50 + "\nshort")
    for width in (80, 160):
        lines = shown(failed("f"), failed_run(log), width=width)
        assert all(Text(line).cell_len <= width for line in lines[:-1])
        assert lines[2].endswith("…")


@pytest.mark.parametrize(
    ("line", "harmless_line"),
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
def test_a_log_cannot_play_with_the_terminal(line: str, harmless_line: str) -> None:
    assert harmless(line) == harmless_line
