"""The product: webhook, controller, health and what they share, put together, started and stopped.

It is composed by `jobflow.serve`; no part of it knows of the others.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Protocol

import structlog

from jobflow.api.flow_status import FlowPhase
from jobflow.api.kinds import KINDS
from jobflow.app import health
from jobflow.app.crd_watch import SchemaGuard
from jobflow.app.metrics import Metrics
from jobflow.controller.leader_term import lead
from jobflow.controller.probes.interface import MakeProbing
from jobflow.controller.probes.prober import Prober
from jobflow.controller.reconciler import STATUS_SECONDS
from jobflow.kube.backoff import Backoff
from jobflow.kube.client import NETWORK_ERRORS, ApiError, Client
from jobflow.kube.election.candidate import Timing
from jobflow.kube.election.election import Election, Lead
from jobflow.runtime.http_listener import Listener, PortInUse
from jobflow.runtime.task_group import Parts, Task, either, together
from jobflow.store import Feed, Store, feeds
from jobflow.webhook.access_rights import AccessRights
from jobflow.webhook.app import create_app
from jobflow.webhook.certificates import (
    CertificateFiles,
    CertificateSource,
    Live,
    WatchedClientCA,
    WatchedFiles,
)
from jobflow.webhook.cluster import StoreCluster
from jobflow.webhook.large_reviews.offload import Aside

LONGEST_WAIT = 5.0
"""Seconds between tries to read again what was read under another definition."""
LOOK_SECONDS = 0.1
"""How often it is looked at whether the product is ready."""

log = structlog.get_logger(__name__)

MakeSource = Callable[[Client, Live], CertificateSource]


def from_files(files: CertificateFiles) -> MakeSource:
    """The certificate in these files."""
    return lambda client, live: WatchedFiles(files, live)


@dataclass(frozen=True, slots=True)
class Webhook:
    """Where the webhook listens, and where its certificate comes from."""

    port: int
    certificates: MakeSource
    host: str = ""
    client_ca: Path | None = None
    """A PEM file of CAs: clients must have a certificate that one of them signed."""
    rights: bool = False
    """Whether the user of a flow or template needs the right to create vcjobs."""


@dataclass(frozen=True, slots=True)
class Lease:
    """What the replicas stand for election over."""

    namespace: str
    name: str
    timing: Timing = field(default_factory=Timing)


@dataclass(frozen=True, slots=True)
class Options:
    """Which parts the product has."""

    webhook: Webhook | None
    http_port: int | None = None
    controller: bool = True
    lease: Lease | None = None
    """None: this is the only replica that carries flows out."""
    namespace: str = ""
    """The only namespace that is followed. Then nothing cluster-wide is read: the definitions are
    not checked, and whether a queue exists is not known."""
    shutdown_delay: float = 0.0
    """Seconds."""
    probing: MakeProbing = Prober
    """Who carries out probes."""
    status_seconds: float = STATUS_SECONDS
    """Least time between two writes of a flow's status that nothing waits for."""


class Product:
    """All parts of one replica; ports are bound when it is made.

    Raises PortInUse, or CertificateError where files hold nothing to serve with.
    """

    def __init__(self, client: Client, options: Options) -> None:
        self.store = Store(pods=options.controller)
        self.metrics = Metrics()
        client.observe = self.metrics.requested
        self._client = client
        self._options = options
        self._stop = asyncio.Event()
        self._finish = asyncio.Event()
        definitions = () if options.namespace else KINDS.values()
        self._guard = SchemaGuard(client, self._reread, definitions)
        self._feeds = feeds(self.store, client, namespace=options.namespace)
        self._certificates: CertificateSource | None = None
        self._webhook: Listener | None = None
        self._aside: Aside | None = None
        self._client_ca: WatchedClientCA | None = None
        if options.webhook is not None:
            self._webhook = self._make_webhook(options.webhook)
        self._http: Listener | None = None
        if options.http_port is not None:
            self._http = self._make_http(options.http_port)
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
        """Why the product is not ready, a clause each; empty when it is. Whether this replica
        leads has no part in it: every one answers reviews."""
        if self._stop.is_set():
            return ["its end: it is being stopped"]
        certificate = self._certificates.waiting_for() if self._certificates else []
        return [*self._unread(), *self._guard.waiting_for(), *certificate]

    def unknown(self) -> list[str]:
        """The kinds that cannot be followed at present, each with the error; what a kind says is
        taken for not known until it can be followed again."""
        return [
            f"{feed.resource.plural}: {feed.trouble}" for feed in self._feeds if feed.cache.failing
        ]

    async def wait_ready(self) -> None:
        """Return once nothing is waited for."""
        await self.store.wait_synced()
        await self._guard.wait_fit()
        while self.waiting_for():  # noqa: ASYNC110 - its reasons are of many kinds
            await asyncio.sleep(LOOK_SECONDS)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """All parts run while the body does. Raises PartDied.

        They stop in order: readiness goes; after a while, in which everyone hears of it, reviews
        that have begun are answered; then flows are let go of and the lease with them; and only
        then do the copies of the cluster grow old and the health port close.
        """
        async with self._aside_closed(), together() as parts:
            self._start_followers(parts)
            webhook = parts.start("the webhook", self._webhook.serve) if self._webhook else None
            controller = None
            if self._options.controller:
                controller = parts.start("the controller", self._control)
            if self._http:
                parts.start("the HTTP server", self._http.serve)
            yield
            parts.stopping = True
            self._stop.set()
            await asyncio.sleep(self._options.shutdown_delay)
            if self._webhook:
                self._webhook.stop()
            await _ended(webhook)
            self._finish.set()
            await _ended(controller)

    @asynccontextmanager
    async def _aside_closed(self) -> AsyncIterator[None]:
        """The process for large reviews ends with the body, however that ends."""
        try:
            yield
        finally:
            if self._aside is not None:
                await self._aside.close()

    def _start_followers(self, parts: Parts) -> None:
        for feed in self._feeds:
            parts.start(f"the reflector of {feed.resource.plural}", feed.run)
        parts.start("the watch on definitions", self._guard.run)
        parts.start("the watch on readiness", self._report)
        if self._certificates:
            parts.start("the certificate", self._certificates.run)
        if self._client_ca:
            parts.start("the CA of the webhook's clients", self._client_ca.run)

    async def _reread(self) -> None:
        """Read flows and templates again, however long that takes."""
        flows, templates, *_ = self._feeds
        for feed in (flows, templates):
            backoff = Backoff(most=LONGEST_WAIT)
            while True:
                try:
                    await feed.reread()
                    break
                except (ApiError, *NETWORK_ERRORS) as error:
                    log.warning("cannot read again", kind=feed.resource.kind, error=str(error))
                await asyncio.sleep(backoff.next())

    # ------------------------------------------------------------------ carrying flows out

    async def _control(self) -> None:
        """Lead, whenever this replica may, while the definitions fit; until told to stop."""
        while True:
            await either(self._guard.wait_fit(), self._finish.wait())
            # a leader that has not read the cluster yet would keep others from leading
            await either(self.store.wait_synced(), self._finish.wait())
            if self._finish.is_set():
                return
            term = self._stand()
            stopping = asyncio.create_task(self._then_stop(term))
            try:
                await term.run()
            finally:
                stopping.cancel()
                await asyncio.wait([stopping])

    def _stand(self) -> Term:
        flows, templates, jobs, commands, *_ = self._feeds
        carry = partial(
            lead,
            store=self.store,
            followers=(flows, templates, jobs),
            optional=(commands,),
            hooks=self.metrics.controller,
            probing=self._options.probing,
            status_seconds=self._options.status_seconds,
        )
        if (lease := self._options.lease) is None:
            return Alone(self._client, carry, self._led)
        return Election(
            self._client,
            carry,
            namespace=lease.namespace,
            name=lease.name,
            timing=lease.timing,
            on_change=self._led,
        )

    async def _then_stop(self, term: Term) -> None:
        await either(self._guard.wait_unfit(), self._finish.wait())
        term.stop()

    def _led(self, leads: bool) -> None:
        """This replica begins to lead, or leads no longer."""
        self.metrics.leads(leads)
        listen = self.store.subscribe if leads else self.store.unsubscribe
        listen(self.metrics.steps)

    # ------------------------------------------------------------------ telling

    async def _report(self) -> None:
        """Log what readiness waits for, whenever that changes."""
        before: list[str] | None = None
        while True:
            now = self.waiting_for()
            if now != before and now:
                log.info("not ready", waiting_for=now)
            elif now != before:
                log.info("ready")
                if unknown := self.unknown():
                    log.warning("ready without knowing every kind", unknown=unknown)
            before = now
            await asyncio.sleep(LOOK_SECONDS)

    def _unread(self) -> Iterator[str]:
        """The kinds that readiness waits for. Every cluster has pods: a replica that may not list
        them is not ready, though it carries flows out (docs/decisions/watched-pods.md)."""
        optional = (self.store.queues_cache, self.store.commands_cache)
        for feed in self._feeds:
            cache = feed.cache
            if cache is self.store.pods.cache:
                waits = self.store.listed and (cache.served is False or not cache.answered)
            elif cache in optional:
                waits = not cache.answered
            else:
                waits = not (cache.synced and cache.served)
            if waits:
                yield _unread(feed)

    def _measure(self) -> None:
        flows, jobs = self.store.flows, self.store.jobs
        self.metrics.watch_phases(
            "flows", lambda: [flow.status.state.phase or FlowPhase.PENDING for flow in flows]
        )
        self.metrics.watch_phases("jobs", lambda: [job.phase for job in jobs])
        self.metrics.watch_suspended(
            lambda: sum(flow.status.suspended_at is not None for flow in flows)
        )
        self.metrics.watch_ages(
            lambda: {feed.resource.plural: feed.heard_at for feed in self._feeds}
        )
        self.metrics.watch_failing(
            lambda: {feed.resource.plural: feed.cache.failing for feed in self._feeds}
        )
        self.metrics.watch_passed_over(
            lambda: {feed.resource.plural: feed.passed_over for feed in self._feeds}
        )
        self.metrics.watch_definitions(self._guard.faults)

    # ------------------------------------------------------------------ making

    def _make_webhook(self, options: Webhook) -> Listener:
        live = Live()
        self._certificates = options.certificates(self._client, live)
        if options.client_ca is not None:
            self._client_ca = WatchedClientCA(options.client_ca, live)
        self.metrics.watch_certificate(live)
        cluster = StoreCluster(
            self.store,
            self._client,
            only=self._options.namespace,
            unfit=self._guard.unfit,
            observe=self.metrics.pod_template_checked,
        )
        rights = AccessRights(self._client) if options.rights else None
        self._aside = Aside(cluster, rights)
        return Listener(
            create_app(cluster, self.metrics.reviewed, elsewhere=self._aside, rights=rights),
            port=options.port,
            host=options.host,
            tls=live.tls,
            flag="--webhook-port",
        )

    def _make_http(self, port: int) -> Listener:
        app = health.create_app(self.waiting_for, self.metrics.text)
        try:
            return Listener(app, port=port, flag="--http-port")
        except PortInUse:
            if self._webhook:
                self._webhook.close()
            raise


class Term(Protocol):
    """What carries flows out: an Election, or Alone."""

    async def run(self) -> None: ...

    def stop(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Alone:
    """Leads without asking anybody."""

    client: Client
    lead: Lead
    on_change: Callable[[bool], None]
    ending: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> None:
        """One term, until `stop`."""
        self.on_change(True)
        try:
            await self.lead(self.client, self.ending)
        finally:
            self.on_change(False)

    def stop(self) -> None:
        """Come to an end."""
        self.ending.set()


async def _ended(part: Task | None) -> None:
    if part is not None:
        await asyncio.wait([part])


def _unread(feed: Feed) -> str:
    resource, trouble = feed.resource, feed.trouble
    clause = f"the API server to list {resource.plural}"
    if trouble.startswith("404"):
        made_by = "Volcano" if resource.group != "flow.volcano.sh" else "`jobflow crds --apply`"
        return f"{clause}: {resource.api_version} {resource.kind} is not served; {made_by} makes it"
    return f"{clause}: {trouble}" if trouble else clause
