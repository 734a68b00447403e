"""Pods as processes: exit codes, logs, messages, restarts, several containers, deadlines."""

import asyncio
import os
import re
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from jobflow.sandbox.nodes.process_runner import ProcessRunner
from support.sandbox.processes import (
    Json,
    Pids,
    PodReports,
    assignment,
    job_of,
    living,
    pod_of,
    pod_task,
    process_runner,
    read_log,
    run_pod,
    sh,
    start_pod,
    wait_for_end,
)

linux = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")
STANDARD_SIGNALS = (1 << 31) - 1


async def test_the_output_of_a_command_is_logged(runner: ProcessRunner) -> None:
    reports = await run_pod(runner, pod_task(sh("echo out; echo err >&2; echo more")))
    assert reports.phases == ["Running", "Succeeded"]
    assert (reports.state()["exitCode"], reports.state()["reason"]) == (0, "Completed")
    assert read_log(runner) == "out\nerr\nmore\n"
    assert runner.failures == []


@pytest.mark.parametrize(
    ("script", "code"), [("exit 3", 3), ("kill -9 $$", 137), ("kill -SEGV $$", 139)]
)
async def test_a_pod_has_the_exit_code_of_its_process(
    runner: ProcessRunner, script: str, code: int
) -> None:
    reports = await run_pod(runner, pod_task(sh(script)))
    assert reports.phases[-1] == "Failed"
    assert (reports.state()["exitCode"], reports.state()["reason"]) == (code, "Error")
    [failure] = runner.failures
    assert (failure.job, failure.task, failure.pod, failure.container) == ("j", "t", "j-t-0", "c")
    assert (failure.exit_code, failure.log.name) == (code, "c.log")


@pytest.mark.parametrize(
    ("container", "code", "message"),
    [
        ({"command": ["no-such"]}, 127, 'exec: "no-such": executable file not found in $PATH'),
        ({"command": ["/no/such"]}, 127, 'exec: "/no/such": no such file or directory'),
        ({"command": ["/"]}, 126, 'exec: "/": permission denied'),
        ({"command": ["true"], "workingDir": "/no/such"}, 128, "workingDir /no/such: no such file"),
        ({"command": ["a\0b"]}, 128, 'exec: "a\0b": execve: embedded null'),
    ],
)
async def test_a_command_that_cannot_start_fails_the_pod(
    runner: ProcessRunner, container: Json, code: int, message: str
) -> None:
    reports = await run_pod(runner, pod_task({"name": "c", **container}))
    assert reports.phases == ["Failed"]
    state = reports.state()
    assert (state["exitCode"], state["reason"]) == (code, "StartError")
    assert state["message"].startswith(message)


async def test_a_command_has_its_working_directory_and_variables(
    runner: ProcessRunner, tmp_path: Path
) -> None:
    container = sh('pwd; echo "$A $HOSTNAME"', workingDir=str(tmp_path),
                   env=[{"name": "A", "value": "$(VC_TASK_INDEX)-x"}])  # fmt: skip
    await run_pod(runner, pod_task(container), plugins={"env": []})
    assert read_log(runner) == f"{tmp_path}\n$(VC_TASK_INDEX)-x j-t-0\n"


async def test_standard_input_is_empty_and_signals_have_their_defaults(
    runner: ProcessRunner,
) -> None:
    script = "cat; yes | head -1; (trap) 2>&1; grep -E 'Sig(Ign|Blk)' /proc/self/status || true"
    await run_pod(runner, pod_task(sh(script)))
    output = read_log(runner)
    assert output.startswith("y\n")
    assert "Broken pipe" not in output
    if sys.platform == "linux":
        masks = re.findall(r"Sig(?:Ign|Blk):\s+([0-9a-f]+)", output)
        # the C library owns the higher signals, and no program may change them
        assert [int(mask, 16) & STANDARD_SIGNALS for mask in masks] == [0, 0]


class TestMessages:
    """Termination messages."""

    @pytest.mark.parametrize(
        ("script", "message"),
        [
            ("echo '{\"acc\": 1}' > /dev/termination-log", '{"acc": 1}\n'),
            (r"printf 'a\377b' > /dev/termination-log", "a\ufffdb"),
            ("(yes a | head -c 5000; echo end) > $TERMINATION_LOG", "a\n" * 2046 + "end\n"),
        ],
    )
    async def test_the_message_is_the_end_of_the_file(
        self, runner: ProcessRunner, script: str, message: str
    ) -> None:
        reports = await run_pod(runner, pod_task(sh(script)))
        assert reports.state()["message"] == message

    @pytest.mark.long
    async def test_the_messages_of_a_pod_share_12_kib(self, runner: ProcessRunner) -> None:
        script = "yes a | head -c 5000 > $TERMINATION_LOG"
        task = pod_task(*(sh(script, name=f"c{n}") for n in range(6)))
        reports = await run_pod(runner, task)
        assert [len(reports.state(n)["message"]) for n in range(6)] == [2048] * 6

    @pytest.mark.parametrize(
        ("script", "message"),
        [
            ("echo why; exit 1", "why\n"),
            ("echo why", None),
            ("echo why; echo because > /dev/termination-log; exit 1", "because\n"),
            ("seq 100; exit 1", "\n".join(map(str, range(21, 101))) + "\n"),
            ("yes 12345678 | head -c 9000; exit 1", ("12345678\n" * 1000)[-2040:]),
        ],
    )
    async def test_the_policy_falls_back_to_logs_on_errors(
        self, runner: ProcessRunner, script: str, message: str | None
    ) -> None:
        policy = {"terminationMessagePolicy": "FallbackToLogsOnError"}
        state = (await run_pod(runner, pod_task(sh(script, **policy)))).state()
        if message is not None and "yes" in script:
            assert state["message"].count("\n") == 80
            assert message.endswith(state["message"][-100:])
        else:
            assert state.get("message") == message

    @pytest.mark.parametrize("command", ["mkdir {0}", "mkfifo {0}", "true"])
    async def test_a_replaced_or_deleted_message_file_is_ignored(
        self, runner: ProcessRunner, command: str
    ) -> None:
        script = "rm $TERMINATION_LOG; " + command.format("$TERMINATION_LOG")
        reports = await run_pod(runner, pod_task(sh(script)))
        assert reports.phases[-1] == "Succeeded"


class TestContainers:
    """Several containers, and restarts."""

    async def test_init_containers_run_one_after_another(
        self, runner: ProcessRunner, tmp_path: Path
    ) -> None:
        steps = [sh(f"echo {n} >> order", name=n, workingDir=str(tmp_path)) for n in "abc"]
        reports = await run_pod(runner, pod_task(steps[2], initContainers=steps[:2]))
        assert (tmp_path / "order").read_text() == "a\nb\nc\n"
        assert reports.phases == ["Pending", "Running", "Succeeded"]
        waiting = reports.progress[0].containers[0]
        assert (waiting.started, waiting.reason) == (None, "PodInitializing")

    async def test_a_failed_init_container_fails_the_pod(self, runner: ProcessRunner) -> None:
        init = [sh("exit 4", name="i"), sh("true", name="never")]
        reports = await run_pod(runner, pod_task(sh("true"), initContainers=init))
        assert reports.phases == ["Pending", "Failed"]
        assert reports.state(of="initContainerStatuses")["exitCode"] == 4
        assert "waiting" in reports.status["initContainerStatuses"][1]["state"]
        assert "waiting" in reports.status["containerStatuses"][0]["state"]

    async def test_containers_run_concurrently(self, runner: ProcessRunner, pids: Pids) -> None:
        """Each container waits for the other's message."""
        first = sh(f"cat {pids.path}.a > /dev/null; echo x > {pids.path}.b", name="a")
        second = sh(f"echo x > {pids.path}.a; cat {pids.path}.b > /dev/null", name="b")
        for end in ("a", "b"):
            os.mkfifo(f"{pids.path}.{end}")
        reports = await run_pod(runner, pod_task(first, second))
        assert reports.phases[-1] == "Succeeded"

    async def test_a_failed_container_fails_the_pod_after_all_have_ended(
        self, runner: ProcessRunner
    ) -> None:
        reports = await run_pod(runner, pod_task(sh("exit 2"), sh("true", name="d")))
        assert reports.phases[-1] == "Failed"
        assert [reports.state(n)["exitCode"] for n in (0, 1)] == [2, 0]

    async def test_a_restarted_container_has_its_own_log(
        self, runner: ProcessRunner, tmp_path: Path
    ) -> None:
        script = "echo try; [ -e second ] || { touch second; exit 7; }"
        container = sh(script, workingDir=str(tmp_path))
        reports = await run_pod(runner, pod_task(container, restartPolicy="OnFailure"))
        [status] = reports.status["containerStatuses"]
        assert (reports.phases[-1], status["restartCount"]) == ("Succeeded", 1)
        assert status["lastState"]["terminated"]["exitCode"] == 7
        assert (read_log(runner), read_log(runner, "c.2.log")) == ("try\n", "try\n")
        assert [failure.exit_code for failure in runner.failures] == [7]

    @pytest.mark.parametrize(
        ("policy", "script", "runs", "phase"),
        [
            ("OnFailure", "exit 1", 3, "Failed"),
            ("OnFailure", "true", 1, "Succeeded"),
            ("Always", "true", 3, "Succeeded"),
            ("Always", "exit 1", 3, "Failed"),
            (None, "true", 3, "Succeeded"),
            ("Never", "exit 1", 1, "Failed"),
        ],
    )
    async def test_restarts_are_counted(
        self, tmp_path: Path, policy: str | None, script: str, runs: int, phase: str
    ) -> None:
        with process_runner(tmp_path / "logs", restarts=2) as runner:
            reports = await run_pod(runner, pod_task(sh(script), restartPolicy=policy))
        assert reports.phases[-1] == phase
        assert reports.status["containerStatuses"][0]["restartCount"] == runs - 1
        assert len(list(runner.folder.rglob("c*.log"))) == runs

    async def test_a_container_is_in_a_crash_loop_before_a_restart(
        self, runner: ProcessRunner
    ) -> None:
        reports = await run_pod(runner, pod_task(sh("exit 1"), restartPolicy="OnFailure"))
        reasons = {each.containers[0].reason for each in reports.progress}
        assert "CrashLoopBackOff" in reasons
        assert reports.phases == ["Running", "Failed"]


class TestTermination:
    """Processes that are ended from outside the command."""

    async def test_child_processes_end_with_their_command(
        self, runner: ProcessRunner, pids: Pids
    ) -> None:
        script = pids.runaways().removesuffix("wait") + f"cat {pids.gate}; exit 5"
        running = asyncio.create_task(run_pod(runner, pod_task(sh(script))))
        found = await asyncio.to_thread(pids.next, 3)
        pids.release()
        reports = await running
        assert reports.state()["exitCode"] == 5
        assert not living(*found)

    async def test_a_deleted_pod_has_a_grace_period(
        self, runner: ProcessRunner, pids: Pids
    ) -> None:
        script = (
            f"trap 'echo bye; exit 0' TERM; echo $$ > {pids.path}; while :; do sleep 0.01; done"
        )
        reports = await delete_when_running(runner, pids, pod_task(sh(script)))
        assert read_log(runner) == "bye\n"
        assert (reports.phases[-1], runner.failures) == ("Succeeded", [])

    async def test_a_deleted_pod_reports_its_end_with_its_last_words(
        self, runner: ProcessRunner, pids: Pids
    ) -> None:
        script = (
            f"trap 'echo step 7 > /dev/termination-log; exit 143' TERM; echo $$ > {pids.path}; "
            "while :; do sleep 0.01; done"
        )
        reports = await delete_when_running(runner, pids, pod_task(sh(script)))
        state = reports.state()
        assert (reports.phases[-1], state["exitCode"]) == ("Failed", 143)
        assert state["message"] == "step 7\n"

    async def test_a_command_that_ignores_sigterm_is_killed(
        self, runner: ProcessRunner, pids: Pids
    ) -> None:
        script = f"trap '' TERM; echo $$ > {pids.path}; while :; do sleep 0.01; done"
        task = pod_task(sh(script), terminationGracePeriodSeconds=0)
        await delete_when_running(runner, pids, task)

    async def test_a_deleted_pod_is_not_restarted(self, runner: ProcessRunner, pids: Pids) -> None:
        task = pod_task(sh(pids.sleeper()), restartPolicy="Always")
        await delete_when_running(runner, pids, task)
        assert len(list(runner.folder.rglob("*.log"))) == 1

    @linux
    async def test_a_cancelled_run_leaves_no_process(
        self, runner: ProcessRunner, pids: Pids
    ) -> None:
        running = asyncio.create_task(run_pod(runner, pod_task(sh(pids.runaways()))))
        found = await asyncio.to_thread(pids.next, 3)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert not living(*found)

    @linux
    async def test_a_command_ends_with_its_killed_keeper(
        self, runner: ProcessRunner, pids: Pids
    ) -> None:
        script = f"echo $PPID > {pids.path}; echo $$ > {pids.path}; sleep 600 & wait"
        reports, running = start_pod(runner, pod_task(sh(script)))
        keeper, command = await asyncio.to_thread(pids.next, 2)
        await reports.received.wait()
        os.kill(keeper, signal.SIGKILL)
        await running
        assert (reports.state()["exitCode"], reports.state()["reason"]) == (
            137,
            "ContainerStatusUnknown",
        )
        wait_for_end(command)

    async def test_the_process_of_a_force_deleted_pod_ends(
        self, runner: ProcessRunner, pids: Pids
    ) -> None:
        """The status of the pod cannot be written, because the pod was force-deleted."""
        job = job_of(pod_task(sh(pids.sleeper())))
        found: list[int] = []

        async def report(progress: Any) -> None:
            found.extend(await asyncio.to_thread(pids.next, 1))
            raise LookupError("gone")

        with pytest.raises(LookupError):
            await runner.run(assignment(job, pod_of(job)), report)
        assert len(found) == 1
        assert not living(*found)

    async def test_a_pod_fails_after_its_deadline(self, runner: ProcessRunner) -> None:
        reports = await run_pod(runner, pod_task(sh("exec sleep 600"), activeDeadlineSeconds=0))
        assert (reports.status["phase"], reports.status["reason"]) == ("Failed", "DeadlineExceeded")
        assert reports.status["message"].startswith("Pod was active on the node longer than")

    async def test_a_pod_of_an_earlier_sandbox_is_lost(self, runner: ProcessRunner) -> None:
        job = job_of(pod_task(sh("true")))
        reports = PodReports(pod_of(job, phase="Running"))
        await runner.run(assignment(job, reports.pod), reports.report)
        assert reports.phases == ["Failed"]
        assert reports.state()["reason"] == "ContainerStatusUnknown"


async def delete_when_running(runner: ProcessRunner, pids: Pids, task: Json) -> PodReports:
    """Delete a pod after its process has reported its ID, and check that the process has ended."""
    reports, running = start_pod(runner, task)
    [pid] = await asyncio.to_thread(pids.next, 1)
    await runner.end(reports.pod)
    assert not living(pid)
    assert reports.phases[-1] in ("Succeeded", "Failed"), "reported before it is gone"
    await running
    return reports


async def test_a_pod_waits_for_the_end_of_a_pod_with_the_same_name(
    runner: ProcessRunner, pids: Pids
) -> None:
    first, old = start_pod(runner, pod_task(sh(pids.sleeper())))
    [before] = await asyncio.to_thread(pids.next, 1)
    second, new = start_pod(runner, pod_task(sh(pids.sleeper())), uid="another")
    await runner.end(first.pod)
    [after] = await asyncio.to_thread(pids.next, 1)
    assert not living(before)
    await runner.end(second.pod)
    await asyncio.gather(old, new)
    assert after != before


@linux
async def test_each_pod_has_its_own_address(runner: ProcessRunner) -> None:
    listen = "import socket,os; s = socket.create_server((os.environ['IP'], 8765)); print('up')"
    ip = {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
    container = {"name": "c", "command": [sys.executable, "-c", listen], "env": [ip]}
    job = job_of(pod_task(container, replicas=2))
    reports = [PodReports(pod_of(job, index=n)) for n in (0, 1)]
    await asyncio.gather(*(runner.run(assignment(job, t.pod), t.report) for t in reports))
    assert [t.phases[-1] for t in reports] == ["Succeeded"] * 2
    first, second = (t.status["podIP"] for t in reports)
    assert first != second
    assert first.startswith("127.")
