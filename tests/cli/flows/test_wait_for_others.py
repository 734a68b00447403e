"""`jobflow suspend`, `resume` and `retry` with a controller that carries them out."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from jobflow.api.resources import JOBTEMPLATES
from jobflow.cli.flows.retry import RETRY
from jobflow.cli.flows.send_command import Order, Verb
from jobflow.cli.flows.send_command import asked as ask
from jobflow.cli.flows.suspend import SUSPEND, SUSPEND_AND_ABORT
from support.sandbox.flow_commands import asked, long_flow, stand_in
from support.sandbox.running_controller import NAMESPACE, Cluster, flow, set_phase, template

EXIT_CODE = "sandbox.jobflow.volcano.sh/exit-code"


async def waited(verb: Verb, kubeconfig: Path) -> int:
    """What a command with `--wait` ends with; it is carried out on the test's own loop."""
    return await ask(verb, Order("f", None, str(kubeconfig), wait=True, as_json=False))


def last_said(capsys: pytest.CaptureFixture[str]) -> str:
    """The last that the command said; the controller logs to the same place."""
    lines = capsys.readouterr().out.splitlines()
    return [line for line in lines if line.startswith("JobFlow f: ")][-1]


async def test_what_was_aborted_by_a_suspension_starts_anew_on_resume(
    world: Cluster, kubeconfig: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with stand_in(world), world.controller():
        await long_flow(world)
        await world.until_jobs(f_a="Running")
        assert await waited(SUSPEND_AND_ABORT, kubeconfig) == 0
        assert last_said(capsys).startswith("JobFlow f: Running, 0/2 steps over (Suspended)")
        assert await world.jobs() == {"f-a": "Aborted"}
        again = await asked(kubeconfig, "suspend", "f")
        assert (again.code, again.err) == (
            1,
            "jobflow suspend: JobFlow f is suspended already: `jobflow resume f` lets it go on\n",
        )
        assert (await asked(kubeconfig, "resume", "f")).code == 0
        await world.until_jobs(f_a_r1="Running")


async def test_what_runs_runs_to_its_end_and_nothing_starts(
    world: Cluster, kubeconfig: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with world.controller():
        await world.apply(template("a"), template("b"), flow("f", {"a": "", "b": "a"}))
        await world.until_jobs(f_a="")
        await set_phase(world.client, "f-a", "Running")
        waiting = asyncio.create_task(waited(SUSPEND, kubeconfig))
        await world.until("f", lambda flow: flow.status.suspended_at is not None)
        await set_phase(world.client, "f-a", "Completed")
        assert await waiting == 0
        assert last_said(capsys).startswith("JobFlow f: Running, 1/2 steps over (Suspended)")
        assert await world.jobs() == {"f-a": "Completed"}
        assert (await asked(kubeconfig, "resume", "f")).code == 0
        await world.until_jobs(f_b="")


async def test_a_flow_that_failed_is_carried_on_with_the_template_as_it_now_is(
    world: Cluster, kubeconfig: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = template("b")
    broken["metadata"]["annotations"] = {EXIT_CODE: "3"}
    async with stand_in(world), world.controller():
        await world.apply(template("a"), broken, flow("f", {"a": "", "b": "a"}))
        assert (await world.ended("f")).status.state.phase == "Failed"
        assert await waited(RETRY, kubeconfig) == 1
        assert last_said(capsys).startswith("JobFlow f: Failed, 2/2 steps over")
        mended = json.dumps({"metadata": {"annotations": {EXIT_CODE: None}}}).encode()
        await world.client.patch(JOBTEMPLATES, NAMESPACE, "b", mended)
        assert await waited(RETRY, kubeconfig) == 0
        assert last_said(capsys) == "JobFlow f: Succeed, 2/2 steps over"
        assert sorted(await world.jobs()) == ["f-a", "f-b", "f-b-r1", "f-b-r2"]
