"""`jobflow serve` as a process beside a real API server, for tests that stop and kill it."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from control_plane import free_port
from jobflow.api.resources import JOBFLOWS, VALIDATING_WEBHOOKS
from jobflow.webhook.certificates import write_development_pki
from jobflow.webhook.configuration import webhook_configuration
from real_cluster import RealCluster

READY_WITHIN_SECONDS = 30


class Served:
    """One replica. `start` it, `stop` or `kill` it, `start` it again on the same ports."""

    def __init__(
        self,
        real: RealCluster,
        home: Path,
        *flags: str,
        user: str = "jobflow",
        webhook: bool = True,
    ) -> None:
        self.webhook_port = free_port()
        self.http_port = free_port()
        self.ca = b""
        self.said = home / f"serve-{user}.log"
        command = [str(Path(sys.executable).with_name("jobflow")), "serve", *flags]
        command += ["--kubeconfig", str(real.plane.kubeconfig(user))]
        command += ["--http-port", str(self.http_port)]
        if webhook:
            pki = write_development_pki(home / "certs", ["127.0.0.1"])
            self.ca = pki.ca_certificate.read_bytes()
            command += ["--webhook-port", str(self.webhook_port)]
            command += ["--tls-cert", str(pki.serving.certificate)]
            command += ["--tls-key", str(pki.serving.key)]
        else:
            command += ["--no-webhook"]
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def webhook_url(self) -> str:
        return f"https://127.0.0.1:{self.webhook_port}"

    @contextmanager
    def running(self) -> Iterator[None]:
        """Ready while the body runs, as far as the body lets it."""
        self.start()
        try:
            yield
        finally:
            if self._process is not None:
                self.stop()

    def start(self) -> None:
        """Returns when it says that it is ready."""
        self.launch()
        deadline = time.monotonic() + READY_WITHIN_SECONDS
        while not self.ready():
            assert self._process is not None and self._process.poll() is None, self.log()
            assert time.monotonic() < deadline, self.log()
            time.sleep(0.05)

    def launch(self) -> None:
        """Returns at once."""
        assert self._process is None
        with self.said.open("ab") as said:
            self._process = subprocess.Popen(self._command, stdout=said, stderr=said)

    def ready(self) -> bool:
        try:
            url = f"http://127.0.0.1:{self.http_port}/readyz"
            return httpx.get(url, trust_env=False).status_code == 200
        except httpx.TransportError:
            return False

    def stop(self) -> None:
        """SIGTERM; it must end well."""
        assert self._end(hard=False) == 0, self.log()
        assert "Traceback" not in self.log(), self.log()

    def kill(self) -> None:
        """SIGKILL."""
        self._end(hard=True)

    def log(self) -> str:
        return self.said.read_text()

    def _end(self, *, hard: bool) -> int:
        process, self._process = self._process, None
        assert process is not None
        process.kill() if hard else process.terminate()
        return process.wait(READY_WITHIN_SECONDS)


@contextmanager
def registered(real: RealCluster, served: Served) -> Iterator[None]:
    """The API server asks this replica's webhook; returns when it has begun to."""
    path = VALIDATING_WEBHOOKS.path()
    made = webhook_configuration(served.webhook_url, served.ca)
    real.admin.post(path, json=made).raise_for_status()
    name = made["metadata"]["name"]
    try:
        _await_refusal(real)
        yield
    finally:
        real.admin.delete(f"{path}/{name}").raise_for_status()


def _await_refusal(real: RealCluster) -> None:
    """An API server hears of a new configuration a moment later."""
    own_target = {"name": "a", "dependsOn": {"targets": ["a"]}}
    flow = {
        "apiVersion": JOBFLOWS.api_version,
        "kind": JOBFLOWS.kind,
        "metadata": {"name": "refused"},
        "spec": {"flows": [own_target]},
    }
    deadline = time.monotonic() + READY_WITHIN_SECONDS
    url = f"{JOBFLOWS.path('default')}?dryRun=All"
    while (answer := real.admin.post(url, content=json.dumps(flow))).status_code != 422:
        assert time.monotonic() < deadline, answer.text
        time.sleep(0.05)
