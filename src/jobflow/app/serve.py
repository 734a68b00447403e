"""Entry points of the serving process: `serve` on a cluster, `sandbox_world` on this machine.

Options are chosen and parts are made here. If a part dies, all end and PartDied is raised.
"""

import asyncio
import gc
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import structlog

from jobflow.api.resources import MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS
from jobflow.app.leading import LeaseOptions
from jobflow.app.replica import (
    MakeSource,
    ReplicaOptions,
    ServingReplica,
    WebhookOptions,
    from_files,
)
from jobflow.app.settings import Settings, split_names
from jobflow.controller.probes.pod_check import check_pod
from jobflow.controller.probes.prober import CheckPod
from jobflow.kube.client import Client
from jobflow.kube.credentials import ConfigError
from jobflow.kube.election.candidate import Timing
from jobflow.runtime.http_listener import PortInUse, in_use
from jobflow.runtime.task_group import either, together
from jobflow.sandbox.apiserver.kubeconfig import kubeconfig, written
from jobflow.sandbox.apiserver.requests.access import Access
from jobflow.sandbox.apiserver.server import ApiServer
from jobflow.sandbox.nodes.runner import Runner
from jobflow.sandbox.nodes.simulate import SimulateRunner, assume
from jobflow.sandbox.volcano.controller import JobController
from jobflow.webhook.certificates.files import CertificateFiles, write_development_pki
from jobflow.webhook.certificates.pki import CertificateError
from jobflow.webhook.certificates.ring import Policy
from jobflow.webhook.certificates.shared import SharedCertificate
from jobflow.webhook.configuration import command_configuration, webhook_configuration

START_ERRORS = (CertificateError, ConfigError, PortInUse)
"""Errors before anything has started; their text is for the user."""
LOOPBACK = "127.0.0.1"
LEASE = "jobflow"
WEBHOOK_SERVICE = "jobflow-webhook"
STATUS_SECONDS = 0.2
"""Status interval of the sandbox, where people watch, jobs take a second and writes are cheap."""

log = structlog.get_logger(__name__)


# ---------------------------------------------------------------------- a cluster


async def serve(settings: Settings, *, on_ready: Callable[[], None] = lambda: None) -> None:
    """Run a replica until SIGTERM or SIGINT, and call `on_ready` once it is ready.

    Raises one of START_ERRORS, or PartDied (`jobflow.runtime.task_group`).
    """
    async with await Client.from_kubeconfig(settings.kubeconfig) as client:
        replica = ServingReplica(client, _replica_options(settings, client))
        with _stop_signals() as stop:
            async with replica.running():
                log.info("started", webhook=replica.webhook_port, http=replica.http_port)
                await either(replica.wait_ready(), stop.wait())
                if not stop.is_set():
                    freeze_garbage_collector()
                    on_ready()
                await stop.wait()
                log.info("stopping")


def _replica_options(settings: Settings, client: Client) -> ReplicaOptions:
    system = settings.system_namespace or client.namespace
    return ReplicaOptions(
        webhook=None if settings.no_webhook else _webhook_options(settings, system),
        http_port=settings.http_port,
        controller=not settings.no_controller,
        lease=None if settings.no_leader_election else _lease_options(settings, system),
        namespace=settings.namespace,
        shutdown_delay=settings.shutdown_delay,
    )


def _webhook_options(settings: Settings, system: str) -> WebhookOptions:
    return WebhookOptions(
        settings.webhook_port,
        _certificates(settings, system),
        client_ca=settings.client_ca,
        rights=settings.subject_access_review,
    )


def _lease_options(settings: Settings, system: str) -> LeaseOptions:
    name = f"{LEASE}-{settings.namespace}" if settings.namespace else LEASE
    timing = Timing(
        lease=int(settings.lease_duration),
        renew=settings.renew_deadline,
        retry=settings.retry_period,
    )
    return LeaseOptions(system, settings.lease_name or name, timing)


def _certificates(settings: Settings, system: str) -> MakeSource:
    """Return a source of certificates from files if they are given, else one that makes and shares
    them. Raises CertificateError."""
    if settings.tls_cert and settings.tls_key:
        return from_files(CertificateFiles(settings.tls_cert, settings.tls_key))
    policy = Policy(
        hosts=tuple(split_names(settings.webhook_host) or [f"{WEBHOOK_SERVICE}.{system}.svc"]),
        serving=timedelta(seconds=settings.certificate_lifetime),
        authority=timedelta(seconds=settings.ca_lifetime),
    )
    return lambda client, live: SharedCertificate(
        client,
        live,
        policy,
        namespace=system,
        secret=settings.certificate_secret,
        configurations=split_names(settings.webhook_configuration),
    )


@contextmanager
def _stop_signals() -> Iterator[asyncio.Event]:
    """An event that SIGTERM and SIGINT set, instead of ending the process."""
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    try:
        yield stop
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)


def freeze_garbage_collector() -> None:
    """Exclude what has been read from garbage collection, and collect the rest seldom, because
    these values form no cycles (docs/performance.md)."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 50, 50)


# ---------------------------------------------------------------------- the sandbox


@dataclass(frozen=True, slots=True)
class SandboxOptions:
    """Options of a sandbox. Port 0 takes any free port."""

    port: int = 0
    webhook_port: int = 0
    kubeconfig: Path | None = None
    """File to write the kubeconfig to; None: a temporary one."""
    runner: Runner = field(default_factory=SimulateRunner)


@dataclass(frozen=True, slots=True)
class SandboxWorld:
    """An API server in this process, a replica that uses it, and a replacement for Volcano."""

    url: str
    """URL of the API server."""
    webhook_url: str
    kubeconfig: Path
    client: Client
    """For the user of the sandbox; the parts have clients of their own."""
    server: ApiServer
    replica: ServingReplica


@asynccontextmanager
async def sandbox_world(options: SandboxOptions | None = None) -> AsyncIterator[SandboxWorld]:
    """Run a sandbox that is ready when the body begins.

    The body is cancelled and PartDied is raised if a part dies. Raises PortInUse, ConfigError.
    """
    options = options or SandboxOptions()
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="jobflow-")))
        pki = write_development_pki(folder, [LOOPBACK, "localhost"])
        access = Access(tls=pki.serving.context(), ca=pki.ca_certificate.read_bytes())
        server = await _start_api_server(stack, options, access)
        path = options.kubeconfig or folder / "kubeconfig"
        stack.enter_context(written(path, kubeconfig(server.url, access)))
        trust = access.client_tls()
        users, volcanos, ours = [
            await stack.enter_async_context(Client.at(server.url, token=access.token, tls=trust))
            for _ in range(3)
        ]
        replica = ServingReplica(ours, _sandbox_replica(options, from_files(pki.serving)))
        parts = await stack.enter_async_context(together())
        parts.start("the stand-in for Volcano", JobController(volcanos, options.runner).run)
        await stack.enter_async_context(replica.running())
        await replica.wait_ready()
        url = f"https://{LOOPBACK}:{replica.webhook_port}"
        for kind, make in (
            (VALIDATING_WEBHOOKS, webhook_configuration),
            (MUTATING_WEBHOOKS, command_configuration),
        ):
            await users.create(kind, "", msgspec.json.encode(make(url, access.ca)))
        yield SandboxWorld(server.url, url, path, users, server, replica)


async def _start_api_server(
    stack: AsyncExitStack, options: SandboxOptions, access: Access
) -> ApiServer:
    server = ApiServer(LOOPBACK, options.port, access=access, logs=options.runner)
    try:
        return await stack.enter_async_context(server)
    except OSError as error:
        raise in_use(f"{LOOPBACK}:{options.port}", "--port", error) from error


def _sandbox_replica(options: SandboxOptions, certificates: MakeSource) -> ReplicaOptions:
    return ReplicaOptions(
        webhook=WebhookOptions(
            options.webhook_port, certificates, host=LOOPBACK, flow_rights=False
        ),
        check=_check(options.runner),
        status_seconds=STATUS_SECONDS,
    )


def _check(runner: Runner) -> CheckPod:
    """Probe processes of this machine over real connections, and simulated pods by assumption."""
    return assume if isinstance(runner, SimulateRunner) else partial(check_pod, loopback=True)
