"""`jobflow submit` on a real API server: what became of each template."""

from pathlib import Path

import pytest

from jobflow.api.resources import JOBTEMPLATES
from support.cluster.real_cluster import RealCluster
from support.sandbox.flow_commands import run_process
from support.sandbox.manifests import template
from support.sandbox.submitted import write_flow

pytestmark = pytest.mark.cluster


async def test_each_template_is_created_configured_or_unchanged(
    real: RealCluster, tmp_path: Path
) -> None:
    namespace = real.new_namespace("submit")
    kubeconfig = real.plane.kubeconfig("alice")

    async def submit(*names: str, flags: tuple[str, ...] = (), queue: str = "default") -> list[str]:
        """Return the word for each template; a has this queue."""
        manifests = [template(name) for name in names]
        manifests[0]["spec"]["queue"] = queue
        file = write_flow(tmp_path, *manifests)
        result = await run_process(kubeconfig, "submit", file, "-n", namespace, *flags)
        assert (result.code, result.err) == (0, "")
        return [line.split()[1] for line in result.out.splitlines()]

    assert await submit("a", "b") == ["created", "created"]
    other = template("c")  # created by another tool, so the apply only adds an owner of its fields
    path = JOBTEMPLATES.path(namespace)
    real.admin.post(path, json=other).raise_for_status()
    words = ["configured", "unchanged", "unchanged", "created"]
    dry = ("--dry-run", "server")
    assert await submit("a", "b", "c", "d", flags=dry, queue="research") == words
    assert await submit("a", "b", "c", "d", queue="research") == words
    assert await submit("a", "b", "c", "d", queue="research") == ["unchanged"] * 4
