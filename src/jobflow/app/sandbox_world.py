"""The sandbox: an API server, a replica and a replacement for Volcano in one process."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from jobflow.api.resources import MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS
from jobflow.app.replica import ReplicaOptions, ServingReplica, WebhookOptions, from_files
from jobflow.controller.wants import PROCESSES, SIMULATED
from jobflow.kube.client import Client
from jobflow.runtime.event_loop import together
from jobflow.runtime.http_listener import PortInUse
from jobflow.sandbox.apiserver.requests.access import Access, kubeconfig, kubeconfig_file
from jobflow.sandbox.apiserver.requests.in_process import in_process_client
from jobflow.sandbox.apiserver.server import ApiServer
from jobflow.sandbox.nodes.runner import Runner
from jobflow.sandbox.nodes.simulate import SimulateRunner
from jobflow.sandbox.volcano.controller import JobController
from jobflow.webhook.certificates.live import write_development_pki
from jobflow.webhook.configuration import command_configuration, webhook_configuration

LOOPBACK = "127.0.0.1"
STATUS_SECONDS = 0.2
"""Status interval of the sandbox, where people watch, jobs take a second and writes are cheap."""


@dataclass(frozen=True, slots=True)
class SandboxOptions:
    """Options of a sandbox. Port 0 takes any free port; without a kubeconfig, it is temporary."""

    port: int = 0
    webhook_port: int = 0
    kubeconfig: Path | None = None
    runner: Runner = field(default_factory=SimulateRunner)
    gives_up: bool = False
    """Whether an exception of a plan ends the sandbox (`ReplicaOptions`)."""


@dataclass(frozen=True, slots=True)
class SandboxWorld:
    url: str
    kubeconfig: Path
    client: Client
    """For the user of the sandbox; the parts have clients of their own."""
    server: ApiServer
    replica: ServingReplica


@asynccontextmanager
async def sandbox_world(options: SandboxOptions | None = None) -> AsyncIterator[SandboxWorld]:
    """Run a sandbox that is ready when the body begins, which is cancelled with PartDied if a part
    dies. Raises PortInUse, ConfigError."""
    options = options or SandboxOptions()
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="jobflow-")))
        pki = write_development_pki(folder, [LOOPBACK, "localhost"])
        access = Access(tls=pki.serving.context(), ca=pki.ca_certificate.read_bytes())
        # first, because all others are its clients
        server = ApiServer(LOOPBACK, options.port, access=access, logs=options.runner)
        try:
            await stack.enter_async_context(server)
        except OSError as error:
            raise PortInUse(f"{LOOPBACK}:{options.port}", "--port", error) from error
        # a temporary one goes with the sandbox
        path = options.kubeconfig or folder / "kubeconfig"
        stack.enter_context(kubeconfig_file(path, kubeconfig(server.url, access)))
        users, volcanos, ours = [
            await stack.enter_async_context(in_process_client(server, token=token))
            for token in (access.token, access.token, access.controller_token)
        ]
        # processes of this machine are probed over real connections, simulated pods by assumption
        is_simulated = isinstance(options.runner, SimulateRunner)
        replica = ServingReplica(
            ours,
            ReplicaOptions(
                webhook=WebhookOptions(
                    options.webhook_port, from_files(pki.serving), host=LOOPBACK
                ),
                outside=SIMULATED if is_simulated else PROCESSES,
                gives_up=options.gives_up,
                status_seconds=STATUS_SECONDS,
            ),
        )
        parts = await stack.enter_async_context(together())
        parts.start("the stand-in for Volcano", JobController(volcanos, options.runner).run)
        await stack.enter_async_context(replica.running())
        # before this, the webhook would refuse the first flow of a user
        await replica.wait_ready()
        url = f"https://{LOOPBACK}:{replica.webhook_port}"
        for kind, make in (
            (VALIDATING_WEBHOOKS, webhook_configuration),
            (MUTATING_WEBHOOKS, command_configuration),
        ):
            await users.create(kind, "", msgspec.json.encode(make(url, access.ca)))
        yield SandboxWorld(server.url, path, users, server, replica)
