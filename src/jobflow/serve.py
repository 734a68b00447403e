"""The composition root: every part is constructed here, started, watched and stopped in order.

The parts know nothing of each other's lives. If one of them dies, all end and PartDied is raised.
"""

from __future__ import annotations

import asyncio
import gc
import signal
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import msgspec
import structlog
import uvloop

from jobflow import health
from jobflow.api.jobflow import FlowPhase
from jobflow.api.resources import VALIDATING_WEBHOOKS
from jobflow.controller.controller import Controller
from jobflow.kube.client import Client
from jobflow.kube.credentials import ConfigError
from jobflow.listener import Listener, PortInUse, in_use
from jobflow.metrics import Metrics
from jobflow.parts import PartDied, Task, together
from jobflow.sandbox.runner import Runner
from jobflow.sandbox.server import ApiServer
from jobflow.sandbox.simulate import SimulateRunner
from jobflow.sandbox.volcano import JobController
from jobflow.settings import Settings
from jobflow.store import Store, feeds
from jobflow.webhook.app import create_app
from jobflow.webhook.certificates import (
    CertificateError,
    CertificateFiles,
    CertificateSource,
    write_development_pki,
)
from jobflow.webhook.cluster import StoreCluster
from jobflow.webhook.configuration import webhook_configuration

__all__ = ["START_ERRORS", "PartDied", "Sandbox", "World", "run", "sandbox_world", "serve"]

T = TypeVar("T")

START_ERRORS = (CertificateError, ConfigError, PortInUse)
"""What is wrong before anything has started; the text is for the user."""
LOOPBACK = "127.0.0.1"

log = structlog.get_logger(__name__)


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on a uvloop event loop: how every command of ours runs."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main)


async def serve(settings: Settings, *, on_ready: Callable[[], None] | None = None) -> None:
    """The product, until SIGTERM or SIGINT.

    `on_ready` is called once the cluster has been read. Raises one of START_ERRORS, or PartDied.
    """
    async with await Client.from_kubeconfig(settings.kubeconfig) as client:
        product = Product(client, _options(settings))
        with _signals() as stop:
            async with product.running():
                log.info("started", webhook=product.webhook_port, http=product.http_port)
                await _either(product.store.wait_synced(), stop.wait())
                if not stop.is_set():
                    settle_memory()
                    log.info("ready")
                    (on_ready or (lambda: None))()
                await stop.wait()
                log.info("stopping")


# ---------------------------------------------------------------------- the product


@dataclass(frozen=True, slots=True)
class Webhook:
    """Where the webhook listens, and with what certificate."""

    port: int
    certificates: CertificateSource
    host: str = ""


@dataclass(frozen=True, slots=True)
class Options:
    """Which parts the product has."""

    webhook: Webhook | None
    http_port: int | None = None
    controller: bool = True
    namespace: str = ""


class Product:
    """Webhook, controller, health and what they share; ports are bound when it is made.

    Raises one of START_ERRORS.
    """

    def __init__(self, client: Client, options: Options) -> None:
        self.store = Store()
        self.metrics = Metrics()
        client.observe = self.metrics.requested
        self._stop = asyncio.Event()
        self._feeds = feeds(self.store, client, namespace=options.namespace)
        self._controller: Controller | None = None
        if options.controller:
            self._controller = Controller(client, self.store, hooks=self.metrics.controller)
        self._webhook: Listener | None = None
        if options.webhook is not None:
            cluster = StoreCluster(self.store, client, only=options.namespace)
            self._webhook = _webhook(cluster, self.metrics, options.webhook)
        self._http: Listener | None = None
        if options.http_port is not None:
            app = health.create_app(self.waiting_for, self.metrics.text)
            try:
                self._http = Listener(app, port=options.http_port, flag="--http-port")
            except PortInUse:
                if self._webhook:
                    self._webhook.close()
                raise
        self._measure()

    @property
    def webhook_port(self) -> int | None:
        """The webhook's port; None without a webhook."""
        return self._webhook.port if self._webhook else None

    @property
    def http_port(self) -> int | None:
        """The port of health and metrics; None without one."""
        return self._http.port if self._http else None

    def waiting_for(self) -> list[str]:
        """Why the product is not ready, a clause each; empty when it is."""
        if self._stop.is_set():
            return ["its end: it is being stopped"]
        if self.store.synced:
            return []
        unread = [feed.resource.plural for feed in self._feeds if not feed.cache.synced]
        return [f"the API server to list {plural}" for plural in unread]

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """All parts run while the body does. Raises PartDied.

        They stop in order: readiness goes, what has begun is finished, and only then do the
        copies of the cluster grow old and the health port close.
        """
        async with together() as parts:
            for feed in self._feeds:
                parts.start(f"the reflector of {feed.resource.plural}", feed.run)
            working: list[Task] = []
            if self._webhook:
                working.append(parts.start("the webhook", self._webhook.serve))
            if self._controller:
                working.append(parts.start("the controller", self._control))
            if self._http:
                parts.start("the HTTP server", self._http.serve)
            yield
            parts.stopping = True
            self._stop.set()
            for part in (self._webhook, self._controller):
                if part is not None:
                    part.stop()
            if working:
                await asyncio.wait(working)

    async def _control(self) -> None:
        """Carry flows out once the cluster has been read; stopped before, nothing has begun."""
        await _either(self.store.wait_synced(), self._stop.wait())
        if self._controller and not self._stop.is_set():
            await self._controller.run()

    def _measure(self) -> None:
        flows, jobs = self.store.flows, self.store.jobs
        self.metrics.watch_phases(
            "flows", lambda: [flow.status.state.phase or FlowPhase.PENDING for flow in flows]
        )
        self.metrics.watch_phases("jobs", lambda: [job.phase for job in jobs])
        self.metrics.watch_ages(
            lambda: {feed.resource.plural: feed.heard_at for feed in self._feeds}
        )


def _options(settings: Settings) -> Options:
    webhook = None
    if not settings.no_webhook and settings.tls_cert and settings.tls_key:
        files = CertificateFiles(settings.tls_cert, settings.tls_key)
        webhook = Webhook(settings.webhook_port, files)
    return Options(
        webhook=webhook,
        http_port=settings.http_port,
        controller=not settings.no_controller,
        namespace=settings.namespace,
    )


def _webhook(cluster: StoreCluster, metrics: Metrics, options: Webhook) -> Listener:
    return Listener(
        create_app(cluster, metrics.reviewed),
        port=options.port,
        host=options.host,
        tls=options.certificates.context(),
        flag="--webhook-port",
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

    The body is cancelled and PartDied raised when a part dies. Raises PortInUse.
    """
    options = options or Sandbox()
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="jobflow-")))
        pki = write_development_pki(folder, [LOOPBACK, "localhost"])
        server = ApiServer(LOOPBACK, options.port)
        try:
            await stack.enter_async_context(server)
        except OSError as error:
            raise in_use(f"{LOOPBACK}:{options.port}", "--port", error) from error
        kubeconfig = options.kubeconfig or folder / "kubeconfig"
        server.write_kubeconfig(kubeconfig)
        clients = [await stack.enter_async_context(Client.at(server.url)) for _ in range(3)]
        ours, volcanos, users = clients
        webhook = Webhook(options.webhook_port, pki.serving, host=LOOPBACK)
        product = Product(ours, Options(webhook=webhook))
        parts = await stack.enter_async_context(together())
        stand_in = JobController(volcanos, options.runner)
        parts.start("the stand-in for Volcano", stand_in.run)
        await stack.enter_async_context(product.running())
        await product.store.wait_synced()
        url = f"https://{LOOPBACK}:{product.webhook_port}"
        await _register(users, url, pki.ca_certificate.read_bytes())
        yield World(server.url, url, kubeconfig, users, server, product)


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


async def _either(*waits: Coroutine[Any, Any, Any]) -> None:
    """Return when the first of them does."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


def settle_memory() -> None:
    """Tell the garbage collector that what has been read stays: it need not look there again, and
    seldom elsewhere, for our values form no cycles (docs/performance.md)."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 50, 50)
