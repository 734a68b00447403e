"""A sandbox that `jobflow doctor` examines."""

import json
from collections.abc import AsyncIterator

import pytest
from structlog.testing import capture_logs

from jobflow.app.sandbox_world import SandboxWorld
from jobflow.cli.cluster.doctor.command import CHECKS, diagnose
from jobflow.cli.flags import ClusterOptions
from jobflow.display.formats import Output
from support.sandbox.doctor_world import Doctor, prepared
from support.sandbox.recorded_world import recorded_world


@pytest.fixture
async def world() -> AsyncIterator[SandboxWorld]:
    """A sandbox with what a real API server also has, and Volcano's Deployments."""
    with capture_logs():  # standard output is that of the command
        async with recorded_world() as world:
            yield await prepared(world)


@pytest.fixture
def doctor(world: SandboxWorld, capsys: pytest.CaptureFixture[str]) -> Doctor:
    async def examine(namespace: str | None = None) -> dict[str, list[str]]:
        options = ClusterOptions(namespace, str(world.kubeconfig), output=Output.JSON)
        capsys.readouterr()
        code = await diagnose(options)
        findings = json.loads(capsys.readouterr().out)
        found: dict[str, list[str]] = {name: [] for name in CHECKS}
        for each in findings:
            assert set(each) == {"check", "status", "message", "remedy"}
            assert bool(each["remedy"]) or each["status"] == "ok" or "serve" in each["message"]
            text = f"{each['status']}: {each['message']} | {each['remedy']}"
            found[each["check"]].append(text)
        assert code == any(each["status"] == "fault" for each in findings)
        assert all(found.values()), "a check has no result"
        return found

    return examine
