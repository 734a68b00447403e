"""Logs of processes: size, place, last lines."""

from pathlib import Path

import pytest

from jobflow.sandbox.nodes.logs import tail
from jobflow.sandbox.nodes.process_runner import Addresses, ProcessRunner
from support.sandbox.processes import pod_task, process_runner, run_pod, sh


async def test_a_long_log_is_truncated(
    runner: ProcessRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobflow.sandbox.nodes.pod.LOG_LIMIT", 100_000)
    await run_pod(runner, pod_task(sh("seq 1 100000")))
    sizes = {path.name: path.stat().st_size for path in runner.folder.rglob("c.log*")}
    assert sizes.keys() == {"c.log", "c.log.old"}
    assert max(sizes.values()) <= 100_000
    lines, count = tail(runner.folder / "default/j-t-0/c.log", 2)
    assert lines == ["99999", "100000"]
    assert count < 40_000


async def test_log_files_are_always_inside_the_folder(runner: ProcessRunner) -> None:
    await run_pod(runner, pod_task(sh("true", name="../../../up")))
    assert [path.name for path in runner.folder.rglob("*.log")] == ["_._.._.._up.log"]


async def test_a_log_that_cannot_be_created_is_a_start_error(runner: ProcessRunner) -> None:
    (runner.folder / "default").write_text("in the way")
    reports = await run_pod(runner, pod_task(sh("true")))
    state = reports.state()
    assert (state["exitCode"], state["reason"]) == (128, "StartError")
    assert "default" in state["message"]


def test_the_newest_folders_and_those_in_use_are_kept(tmp_path: Path) -> None:
    with process_runner(tmp_path) as first:
        for _ in range(25):
            with process_runner(tmp_path) as used:
                (used.folder / "default").mkdir()
        assert first.folder.exists()
        (first.folder / "default").mkdir()
    assert len(list(tmp_path.iterdir())) == 21


def test_a_folder_without_logs_is_removed(tmp_path: Path) -> None:
    with process_runner(tmp_path):
        assert list(tmp_path.iterdir())
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("text", "lines", "count"),
    [
        ("", [], 0),
        ("\n", [""], 1),
        ("a", ["a"], 1),
        ("a\nb\nc\n", ["b", "c"], 3),
        ("a\n\nb", ["", "b"], 3),
        ("\udcff\n", ["\ufffd"], 1),
    ],
)
def test_the_last_lines_of_a_log_are_returned(
    tmp_path: Path, text: str, lines: list[str], count: int
) -> None:
    log = tmp_path / "c.log"
    log.write_bytes(text.encode(errors="surrogateescape"))
    assert tail(log, 2) == (lines, count)


def test_a_missing_log_has_no_lines(tmp_path: Path) -> None:
    assert tail(tmp_path / "c.log", 2) == ([], 0)


def test_a_pod_name_has_one_address() -> None:
    addresses = Addresses()
    assigned = [addresses.of("ns", name) for name in ("a", "b", "a")]
    assert assigned[0] == assigned[2]
    assert addresses.of("other", "a") not in assigned[1:2]
