"""`jobflow serve` as a process with a real API server, for tests that stop and kill it."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx

from jobflow.api.resources import JOBFLOWS, MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS
from jobflow.webhook.certificates.live import write_development_pki
from jobflow.webhook.configuration import command_configuration, webhook_configuration
from support.cluster.control_plane import free_port
from support.cluster.real_cluster import RealCluster

READY_WITHIN_SECONDS = 30
OTHER_REPLICA = {"JOBFLOW_CONTROLLER_USER": "jobflow-2"}
"""The user of a second replica. An earlier version ignores the variable."""


class Served:
    """One replica. After `stop` or `kill`, `start` starts it again on the same ports. `under` is a
    command that runs it, such as a profiler; `program` is that of another version."""

    def __init__(
        self,
        real: RealCluster,
        home: Path,
        *flags: str,
        user: str = "jobflow",
        webhook: bool = True,
        files: bool = True,
        kubeconfig: Path | None = None,
        under: Sequence[str] = (),
        program: Sequence[str] = (str(Path(sys.executable).with_name("jobflow")),),
    ) -> None:
        self.webhook_port = free_port()
        self.http_port = free_port()
        self.ca = b""
        self.log_path = home / f"serve-{user}.log"
        command = [*under, *program, "serve", *flags]
        command += ["--kubeconfig", str(kubeconfig or real.plane.kubeconfig(user))]
        command += ["--http-port", str(self.http_port)]
        if webhook:
            command += ["--webhook-port", str(self.webhook_port), "--webhook-host", "127.0.0.1"]
        else:
            command += ["--no-webhook"]
        if webhook and files:
            self.pki = write_development_pki(home / "certs", ["127.0.0.1"])
            self.ca = self.pki.ca_certificate.read_bytes()
            command += ["--tls-cert", str(self.pki.serving.certificate)]
            command += ["--tls-key", str(self.pki.serving.key)]
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def webhook_url(self) -> str:
        return f"https://127.0.0.1:{self.webhook_port}"

    @property
    def pid(self) -> int:
        """Its process; it is running."""
        assert self._process is not None
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None

    @contextmanager
    def running(self, *, ready: bool = True) -> Iterator[None]:
        """Run it while the body runs; it is ready when the body starts, unless `ready` is False."""
        try:
            self.start() if ready else self.launch()
            yield
        except BaseException:
            if self._process is not None:
                self.kill()
            raise
        if self._process is not None:
            self.stop()

    def start(self) -> None:
        """Start it; returns when it is ready."""
        self.launch()
        deadline = time.monotonic() + READY_WITHIN_SECONDS
        while not self.ready():
            assert self._process is not None and self._process.poll() is None, self.log()
            assert time.monotonic() < deadline, self.log()
            time.sleep(0.05)

    def launch(self) -> None:
        """Start it; returns at once."""
        assert self._process is None
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdout=log, stderr=log, env=os.environ | OTHER_REPLICA
            )

    def ready(self) -> bool:
        return self.waiting_for() == []

    def waiting_for(self) -> list[str] | None:
        """Return what /readyz waits for; None without an answer."""
        try:
            answer = self.get("/readyz").json()
        except httpx.TransportError:
            return None
        assert answer["ready"] == (answer["waiting_for"] == [])
        found: list[str] = answer["waiting_for"]
        return found

    def metric(self, name: str) -> float | None:
        """The value of a metric without labels."""
        lines = self.get("/metrics").text.splitlines()
        found = [line.split()[1] for line in lines if line.startswith(f"jobflow_{name} ")]
        return float(found[0]) if found else None

    def get(self, path: str) -> httpx.Response:
        return httpx.get(f"http://127.0.0.1:{self.http_port}{path}", trust_env=False)

    def exit_code(self) -> int:
        """Wait for a process that ends by itself and return its exit code."""
        process, self._process = self._process, None
        assert process is not None
        return process.wait(READY_WITHIN_SECONDS)

    def stop(self) -> None:
        """Send SIGTERM. It must exit with 0."""
        assert self._end(hard=False) == 0, self.log()
        assert "Traceback" not in self.log(), self.log()

    def kill(self) -> None:
        """Send SIGKILL."""
        self._end(hard=True)

    def freeze(self) -> None:
        """Stop the process (SIGSTOP) until `thaw`."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Continue the process (SIGCONT)."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def log(self) -> str:
        return self.log_path.read_text()

    def _end(self, *, hard: bool) -> int:
        process, self._process = self._process, None
        assert process is not None
        process.kill() if hard else process.terminate()
        return process.wait(READY_WITHIN_SECONDS)


@contextmanager
def registered(real: RealCluster, served: Served) -> Iterator[None]:
    """Let the API server call the webhook of this replica; returns after the first call."""
    commands = command_configuration(served.webhook_url, served.ca)
    # as the chart does: a controller must be able to cancel flows while no webhook answers
    others = "!(request.userInfo.username in ['jobflow', 'jobflow-2'])"
    for webhook in commands["webhooks"]:
        condition = {"name": "not-by-the-controller", "expression": others}
        webhook["matchConditions"].append(condition)
    made = {
        VALIDATING_WEBHOOKS.path(): webhook_configuration(served.webhook_url, served.ca),
        MUTATING_WEBHOOKS.path(): commands,
    }
    for path, configuration in made.items():
        real.admin.post(path, json=configuration).raise_for_status()
    try:
        _await_refusal(real)
        yield
    finally:
        for path, configuration in made.items():
            name = configuration["metadata"]["name"]
            real.admin.delete(f"{path}/{name}").raise_for_status()


def _await_refusal(real: RealCluster) -> None:
    """Wait until the API server calls the webhook, a moment after its registration."""
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


async def until(holds: Callable[[], object], *, within: float = 60.0) -> None:
    """Wait until the condition holds; it may block."""
    async with asyncio.timeout(within):
        while not await asyncio.to_thread(holds):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
