"""A `jobflow sandbox` for the tests of this folder, and a kubectl that uses it."""

import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.cluster.kubectl import Kubectl

READY_WITHIN_SECONDS = 30


@pytest.fixture(scope="session")
def kubectl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    """Return a kubectl that uses a running sandbox. The sandbox must end cleanly on SIGINT."""
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not on PATH")
    home = tmp_path_factory.mktemp("sandbox")
    kubeconfig = home / "kubeconfig"
    command = [str(Path(sys.executable).with_name("jobflow")), "sandbox", "--port", "0"]
    command += ["--webhook-port", "0", "--kubeconfig", str(kubeconfig)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        lines = _until_ready(process)
        try:
            assert f"export KUBECONFIG={kubeconfig}" in lines
            yield Kubectl(kubeconfig, home)
        finally:
            process.send_signal(2)
            output = process.communicate(timeout=20)[0]
        assert process.returncode in {0, 130}, output
        assert "Traceback" not in output


def _until_ready(process: subprocess.Popen[str]) -> list[str]:
    """Return the lines before `ready`. Fail with them if it is not printed."""
    assert process.stdout is not None
    lines: list[str] = []
    killer = threading.Timer(READY_WITHIN_SECONDS, process.kill)
    killer.start()
    for line in process.stdout:
        lines.append(line.strip())
        if line.strip() == "ready":
            killer.cancel()
            return lines
    killer.cancel()
    pytest.fail("no `ready` from jobflow: error: " + "\n".join(lines))


@pytest.fixture
def namespace(kubectl: Kubectl, request: pytest.FixtureRequest) -> str:
    """Create a namespace for the test."""
    name = request.node.name.removeprefix("test_").replace("_", "-")[:60].rstrip("-")
    kubectl("create", "namespace", name)
    return name
