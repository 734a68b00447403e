"""Pods as processes: exit codes, logs, messages, restarts, several containers, deadlines."""

import asyncio
import os
import re
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from jobflow.sandbox.nodes.process.runner import ProcessRunner
from support.sandbox.processes import (
    Json,
    Pids,
    Told,
    assignment,
    job_of,
    living,
    logged,
    pod_of,
    pod_task,
    process_runner,
    run_pod,
    sh,
    start_pod,
    wait_for_end,
)

linux = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")
STANDARD_SIGNALS = (1 << 31) - 1


async def test_a_command_runs_and_its_output_is_its_log(runner: ProcessRunner) -> None:
    told = await run_pod(runner, pod_task(sh("echo out; echo err >&2; echo more")))
    assert told.phases == ["Running", "Succeeded"]
    assert (told.state()["exitCode"], told.state()["reason"]) == (0, "Completed")
    assert logged(runner) == "out\nerr\nmore\n"
    assert runner.failures == []


@pytest.mark.parametrize(
    ("script", "code"), [("exit 3", 3), ("kill -9 $$", 137), ("kill -SEGV $$", 139)]
)
async def test_exit_codes_are_real(runner: ProcessRunner, script: str, code: int) -> None:
    told = await run_pod(runner, pod_task(sh(script)))
    assert told.phases[-1] == "Failed"
    assert (told.state()["exitCode"], told.state()["reason"]) == (code, "Error")
    [failure] = runner.failures
    assert (failure.job, failure.task, failure.pod, failure.container) == ("j", "t", "j-t-0", "c")
    assert (failure.exit_code, failure.log.name) == (code, "c.log")


@pytest.mark.parametrize(
    ("container", "code", "said"),
    [
        ({"command": ["no-such"]}, 127, 'exec: "no-such": executable file not found in $PATH'),
        ({"command": ["/no/such"]}, 127, 'exec: "/no/such": no such file or directory'),
        ({"command": ["/"]}, 126, 'exec: "/": permission denied'),
        ({"command": ["true"], "workingDir": "/no/such"}, 128, "workingDir /no/such: no such file"),
        ({"command": ["a\0b"]}, 128, 'exec: "a\0b": execve: embedded null'),
    ],
)
async def test_what_cannot_be_started(
    runner: ProcessRunner, container: Json, code: int, said: str
) -> None:
    told = await run_pod(runner, pod_task({"name": "c", **container}))
    assert told.phases == ["Failed"]
    state = told.state()
    assert (state["exitCode"], state["reason"]) == (code, "StartError")
    assert state["message"].startswith(said)


async def test_it_runs_where_it_is_told_with_what_it_is_told(
    runner: ProcessRunner, tmp_path: Path
) -> None:
    container = sh('pwd; echo "$A $HOSTNAME"', workingDir=str(tmp_path),
                   env=[{"name": "A", "value": "$(VC_TASK_INDEX)-x"}])  # fmt: skip
    await run_pod(runner, pod_task(container), plugins={"env": []})
    assert logged(runner) == f"{tmp_path}\n$(VC_TASK_INDEX)-x j-t-0\n"


async def test_standard_input_is_empty_and_signals_are_as_a_program_expects_them(
    runner: ProcessRunner,
) -> None:
    script = "cat; yes | head -1; (trap) 2>&1; grep -E 'Sig(Ign|Blk)' /proc/self/status || true"
    await run_pod(runner, pod_task(sh(script)))
    said = logged(runner)
    assert said.startswith("y\n")
    assert "Broken pipe" not in said
    if sys.platform == "linux":
        masks = re.findall(r"Sig(?:Ign|Blk):\s+([0-9a-f]+)", said)
        # what lies above is the C library's own, and nobody may change it
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
    async def test_the_end_of_the_file_is_the_message(
        self, runner: ProcessRunner, script: str, message: str
    ) -> None:
        told = await run_pod(runner, pod_task(sh(script)))
        assert told.state()["message"] == message

    async def test_the_messages_of_a_pod_share_12_kib(self, runner: ProcessRunner) -> None:
        script = "yes a | head -c 5000 > $TERMINATION_LOG"
        task = pod_task(*(sh(script, name=f"c{n}") for n in range(6)))
        told = await run_pod(runner, task)
        assert [len(told.state(n)["message"]) for n in range(6)] == [2048] * 6

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
    async def test_logs_stand_in_on_errors_where_the_policy_says_so(
        self, runner: ProcessRunner, script: str, message: str | None
    ) -> None:
        policy = {"terminationMessagePolicy": "FallbackToLogsOnError"}
        state = (await run_pod(runner, pod_task(sh(script, **policy)))).state()
        if message is not None and "yes" in script:
            assert state["message"].count("\n") == 80
            assert message.endswith(state["message"][-100:])
        else:
            assert state.get("message") == message

    @pytest.mark.parametrize("then", ["mkdir {0}", "mkfifo {0}", "true"])
    async def test_what_is_no_file_any_more_holds_nothing_up(
        self, runner: ProcessRunner, then: str
    ) -> None:
        script = "rm $TERMINATION_LOG; " + then.format("$TERMINATION_LOG")
        told = await run_pod(runner, pod_task(sh(script)))
        assert told.phases[-1] == "Succeeded"


class TestContainers:
    """Several containers, and restarts."""

    async def test_init_containers_come_one_after_another(
        self, runner: ProcessRunner, tmp_path: Path
    ) -> None:
        steps = [sh(f"echo {n} >> order", name=n, workingDir=str(tmp_path)) for n in "abc"]
        told = await run_pod(runner, pod_task(steps[2], initContainers=steps[:2]))
        assert (tmp_path / "order").read_text() == "a\nb\nc\n"
        assert told.phases == ["Pending", "Running", "Succeeded"]
        waiting = told.progress[0].containers[0]
        assert (waiting.started, waiting.reason) == (None, "PodInitializing")

    async def test_a_failed_init_container_fails_the_pod(self, runner: ProcessRunner) -> None:
        init = [sh("exit 4", name="i"), sh("true", name="never")]
        told = await run_pod(runner, pod_task(sh("true"), initContainers=init))
        assert told.phases == ["Pending", "Failed"]
        assert told.state(of="initContainerStatuses")["exitCode"] == 4
        assert "waiting" in told.status["initContainerStatuses"][1]["state"]
        assert "waiting" in told.status["containerStatuses"][0]["state"]

    async def test_containers_run_at_once(self, runner: ProcessRunner, pids: Pids) -> None:
        """Each container waits for the other's message."""
        first = sh(f"cat {pids.path}.a > /dev/null; echo x > {pids.path}.b", name="a")
        second = sh(f"echo x > {pids.path}.a; cat {pids.path}.b > /dev/null", name="b")
        for end in ("a", "b"):
            os.mkfifo(f"{pids.path}.{end}")
        told = await run_pod(runner, pod_task(first, second))
        assert told.phases[-1] == "Succeeded"

    async def test_one_that_failed_fails_the_pod_when_all_have_ended(
        self, runner: ProcessRunner
    ) -> None:
        told = await run_pod(runner, pod_task(sh("exit 2"), sh("true", name="d")))
        assert told.phases[-1] == "Failed"
        assert [told.state(n)["exitCode"] for n in (0, 1)] == [2, 0]

    async def test_a_failed_container_is_restarted_with_a_log_of_its_own(
        self, runner: ProcessRunner, tmp_path: Path
    ) -> None:
        script = "echo try; [ -e second ] || { touch second; exit 7; }"
        container = sh(script, workingDir=str(tmp_path))
        told = await run_pod(runner, pod_task(container, restartPolicy="OnFailure"))
        [status] = told.status["containerStatuses"]
        assert (told.phases[-1], status["restartCount"]) == ("Succeeded", 1)
        assert status["lastState"]["terminated"]["exitCode"] == 7
        assert (logged(runner), logged(runner, "c.2.log")) == ("try\n", "try\n")
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
            told = await run_pod(runner, pod_task(sh(script), restartPolicy=policy))
        assert told.phases[-1] == phase
        assert told.status["containerStatuses"][0]["restartCount"] == runs - 1
        assert len(list(runner.folder.rglob("c*.log"))) == runs

    async def test_between_two_runs_it_is_in_crash_loop(self, runner: ProcessRunner) -> None:
        told = await run_pod(runner, pod_task(sh("exit 1"), restartPolicy="OnFailure"))
        reasons = {each.containers[0].reason for each in told.progress}
        assert "CrashLoopBackOff" in reasons
        assert told.phases == ["Running", "Failed"]


class TestEnds:
    """Processes that are ended from outside."""

    async def test_what_a_command_leaves_behind_ends_with_it(
        self, runner: ProcessRunner, pids: Pids
    ) -> None:
        script = pids.runaways().removesuffix("wait") + f"cat {pids.gate}; exit 5"
        running = asyncio.create_task(run_pod(runner, pod_task(sh(script))))
        found = await asyncio.to_thread(pids.next, 3)
        pids.go()
        told = await running
        assert told.state()["exitCode"] == 5
        assert not living(*found)

    async def test_a_deleted_pod_has_its_grace_period(
        self, runner: ProcessRunner, pids: Pids
    ) -> None:
        script = (
            f"trap 'echo bye; exit 0' TERM; echo $$ > {pids.path}; while :; do sleep 0.01; done"
        )
        await delete_when_running(runner, pids, pod_task(sh(script)))
        assert logged(runner) == "bye\n"
        assert runner.failures == []

    async def test_who_does_not_listen_is_killed(self, runner: ProcessRunner, pids: Pids) -> None:
        script = f"trap '' TERM; echo $$ > {pids.path}; while :; do sleep 0.01; done"
        task = pod_task(sh(script), terminationGracePeriodSeconds=0)
        await delete_when_running(runner, pids, task)

    async def test_a_pod_that_is_deleted_is_not_restarted(
        self, runner: ProcessRunner, pids: Pids
    ) -> None:
        task = pod_task(sh(pids.sleeper()), restartPolicy="Always")
        await delete_when_running(runner, pids, task)
        assert len(list(runner.folder.rglob("*.log"))) == 1

    @linux
    async def test_cancelled_it_leaves_nothing(self, runner: ProcessRunner, pids: Pids) -> None:
        running = asyncio.create_task(run_pod(runner, pod_task(sh(pids.runaways()))))
        found = await asyncio.to_thread(pids.next, 3)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert not living(*found)

    @linux
    async def test_a_killed_keeper_takes_its_command_along(
        self, runner: ProcessRunner, pids: Pids
    ) -> None:
        script = f"echo $PPID > {pids.path}; echo $$ > {pids.path}; sleep 600 & wait"
        told, running = start_pod(runner, pod_task(sh(script)))
        keeper, command = await asyncio.to_thread(pids.next, 2)
        await told.first.wait()
        os.kill(keeper, signal.SIGKILL)
        await running
        assert (told.state()["exitCode"], told.state()["reason"]) == (137, "ContainerStatusUnknown")
        wait_for_end(command)

    async def test_a_pod_that_is_gone_runs_no_longer(
        self, runner: ProcessRunner, pids: Pids
    ) -> None:
        """Its status cannot be written, because the pod was force-deleted."""
        job = job_of(pod_task(sh(pids.sleeper())))
        found: list[int] = []

        async def report(progress: Any) -> None:
            found.extend(await asyncio.to_thread(pids.next, 1))
            raise LookupError("gone")

        with pytest.raises(LookupError):
            await runner.run(assignment(job, pod_of(job)), report)
        assert len(found) == 1
        assert not living(*found)

    async def test_a_deadline(self, runner: ProcessRunner) -> None:
        told = await run_pod(runner, pod_task(sh("exec sleep 600"), activeDeadlineSeconds=0))
        assert (told.status["phase"], told.status["reason"]) == ("Failed", "DeadlineExceeded")
        assert told.status["message"].startswith("Pod was active on the node longer than")

    async def test_a_pod_that_another_sandbox_began_is_lost(self, runner: ProcessRunner) -> None:
        job = job_of(pod_task(sh("true")))
        told = Told(pod_of(job, phase="Running"))
        await runner.run(assignment(job, told.pod), told.report)
        assert told.phases == ["Failed"]
        assert told.state()["reason"] == "ContainerStatusUnknown"


async def delete_when_running(runner: ProcessRunner, pids: Pids, task: Json) -> None:
    """Delete a pod after its process has reported its id; then no process and no report remains."""
    told, running = start_pod(runner, task)
    [pid] = await asyncio.to_thread(pids.next, 1)
    await runner.end(told.pod)
    assert not living(pid)
    await running
    assert told.phases in (["Running"], [])


async def test_a_pod_of_the_same_name_has_to_be_over_first(
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
async def test_every_pod_has_an_address_of_its_own(runner: ProcessRunner) -> None:
    listen = "import socket,os; s = socket.create_server((os.environ['IP'], 8765)); print('up')"
    ip = {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
    container = {"name": "c", "command": [sys.executable, "-c", listen], "env": [ip]}
    job = job_of(pod_task(container, replicas=2))
    told = [Told(pod_of(job, index=n)) for n in (0, 1)]
    await asyncio.gather(*(runner.run(assignment(job, t.pod), t.report) for t in told))
    assert [t.phases[-1] for t in told] == ["Succeeded"] * 2
    first, second = (t.status["podIP"] for t in told)
    assert first != second
    assert first.startswith("127.")
