"""The composition root: what runs in this process is decided, made, watched and stopped here.

The parts know nothing of each other's lives. If one of them dies, all end and PartDied is raised.
"""

from __future__ import annotations

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

from jobflow.api.resources import VALIDATING_WEBHOOKS
from jobflow.app.replica import Lease, MakeSource, Options, Product, Webhook, from_files
from jobflow.app.settings import Settings, listed
from jobflow.controller.probes.interface import MakeProbing
from jobflow.controller.probes.pod_check import check_pod
from jobflow.controller.probes.prober import Prober
from jobflow.kube.client import Client
from jobflow.kube.credentials import ConfigError
from jobflow.kube.election.candidate import Timing
from jobflow.runtime.event_loop import run
from jobflow.runtime.http_listener import PortInUse, in_use
from jobflow.runtime.task_group import PartDied, either, together
from jobflow.sandbox.apiserver.kubeconfig import kubeconfig, written
from jobflow.sandbox.apiserver.requests.access import Access
from jobflow.sandbox.apiserver.server import ApiServer
from jobflow.sandbox.nodes.runner import Runner
from jobflow.sandbox.nodes.simulate import SimulateRunner, assume
from jobflow.sandbox.volcano.controller import JobController
from jobflow.webhook.certificates import (
    CertificateError,
    CertificateFiles,
    Policy,
    SharedCertificate,
    write_development_pki,
)
from jobflow.webhook.configuration import webhook_configuration

__all__ = ["START_ERRORS", "PartDied", "Sandbox", "World", "run", "sandbox_world", "serve"]

START_ERRORS = (CertificateError, ConfigError, PortInUse)
"""What is wrong before anything has started; the text is for the user."""
LOOPBACK = "127.0.0.1"
LEASE = "jobflow"
WEBHOOK_SERVICE = "jobflow-webhook"
STATUS_SECONDS = 0.2
"""In the sandbox people look on, and jobs take a second; writes cost next to nothing."""

log = structlog.get_logger(__name__)


async def serve(settings: Settings, *, on_ready: Callable[[], None] | None = None) -> None:
    """The product, until SIGTERM or SIGINT.

    `on_ready` is called once it is ready. Raises one of START_ERRORS, or PartDied.
    """
    async with await Client.from_kubeconfig(settings.kubeconfig) as client:
        product = Product(client, _options(settings, client))
        with _signals() as stop:
            async with product.running():
                log.info("started", webhook=product.webhook_port, http=product.http_port)
                await either(product.wait_ready(), stop.wait())
                if not stop.is_set():
                    settle_memory()
                    (on_ready or (lambda: None))()
                await stop.wait()
                log.info("stopping")


def _options(settings: Settings, client: Client) -> Options:
    system = settings.system_namespace or client.namespace
    webhook = lease = None
    if not settings.no_webhook:
        webhook = Webhook(
            settings.webhook_port,
            _certificates(settings, system),
            client_ca=settings.client_ca,
            rights=settings.subject_access_review,
        )
    if not settings.no_leader_election:
        own = f"{LEASE}-{settings.namespace}" if settings.namespace else LEASE
        timing = Timing(
            lease=int(settings.lease_duration),
            renew=settings.renew_deadline,
            retry=settings.retry_period,
        )
        lease = Lease(system, settings.lease_name or own, timing)
    return Options(
        webhook=webhook,
        http_port=settings.http_port,
        controller=not settings.no_controller,
        lease=lease,
        namespace=settings.namespace,
        shutdown_delay=settings.shutdown_delay,
    )


def _certificates(settings: Settings, system: str) -> MakeSource:
    """From files where there are any, else made here and shared. Raises CertificateError."""
    if settings.tls_cert and settings.tls_key:
        return from_files(CertificateFiles(settings.tls_cert, settings.tls_key))
    policy = Policy(
        hosts=tuple(listed(settings.webhook_host) or [f"{WEBHOOK_SERVICE}.{system}.svc"]),
        serving=timedelta(seconds=settings.certificate_lifetime),
        authority=timedelta(seconds=settings.ca_lifetime),
    )
    return lambda client, live: SharedCertificate(
        client,
        live,
        policy,
        namespace=system,
        secret=settings.certificate_secret,
        configurations=listed(settings.webhook_configuration),
    )


# ---------------------------------------------------------------------- the sandbox


@dataclass(frozen=True, slots=True)
class Sandbox:
    """How to set up a sandbox. Port 0 takes any free one."""

    port: int = 0
    webhook_port: int = 0
    kubeconfig: Path | None = None
    """Where to write the kubeconfig; None: a place that goes with the world."""
    runner: Runner = field(default_factory=SimulateRunner)


@dataclass(frozen=True, slots=True)
class World:
    """An API server in this process, the product on it, and a stand-in for Volcano."""

    url: str
    """Of the API server."""
    webhook_url: str
    kubeconfig: Path
    client: Client
    """For whoever uses the world; the parts have their own."""
    server: ApiServer
    product: Product


@asynccontextmanager
async def sandbox_world(options: Sandbox | None = None) -> AsyncIterator[World]:
    """A world that admits flows and carries them out, ready when the body begins.

    The body is cancelled and PartDied raised when a part dies. Raises PortInUse, ConfigError.
    """
    options = options or Sandbox()
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="jobflow-")))
        pki = write_development_pki(folder, [LOOPBACK, "localhost"])
        access = Access(tls=pki.serving.context(), ca=pki.ca_certificate.read_bytes())
        server = ApiServer(LOOPBACK, options.port, access=access)
        try:
            await stack.enter_async_context(server)
        except OSError as error:
            raise in_use(f"{LOOPBACK}:{options.port}", "--port", error) from error
        path = options.kubeconfig or folder / "kubeconfig"
        stack.enter_context(written(path, kubeconfig(server.url, access)))
        trust = access.client_tls()
        clients = [
            await stack.enter_async_context(Client.at(server.url, token=access.token, tls=trust))
            for _ in range(3)
        ]
        ours, volcanos, users = clients
        webhook = Webhook(options.webhook_port, from_files(pki.serving), host=LOOPBACK)
        probing = _probing(options.runner)
        product = Product(
            ours, Options(webhook=webhook, probing=probing, status_seconds=STATUS_SECONDS)
        )
        parts = await stack.enter_async_context(together())
        stand_in = JobController(volcanos, options.runner)
        parts.start("the stand-in for Volcano", stand_in.run)
        await stack.enter_async_context(product.running())
        await product.wait_ready()
        url = f"https://{LOOPBACK}:{product.webhook_port}"
        await _register(users, url, access.ca)
        yield World(server.url, url, path, users, server, product)


def _probing(runner: Runner) -> MakeProbing:
    """By real connections to processes of this machine, or by assumption where there are none."""
    simulated = isinstance(runner, SimulateRunner)
    return partial(Prober, check=assume if simulated else partial(check_pod, loopback=True))


async def _register(client: Client, url: str, ca: bytes) -> None:
    """Let the API server ask the webhook."""
    manifest = msgspec.json.encode(webhook_configuration(url, ca))
    await client.create(VALIDATING_WEBHOOKS, "", manifest)


# ---------------------------------------------------------------------- the process


@contextmanager
def _signals() -> Iterator[asyncio.Event]:
    """An event that SIGTERM and SIGINT set instead of ending the process."""
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    try:
        yield stop
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)


def settle_memory() -> None:
    """Tell the garbage collector that what has been read stays: it need not look there again, and
    seldom elsewhere, for our values form no cycles (docs/performance.md)."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 50, 50)
