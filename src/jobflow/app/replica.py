"""One replica: webhook, controller, health and the copies they share, started and stopped in order.
The parts do not know each other."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import FlowPhase
from jobflow.api.kinds import KINDS
from jobflow.api.resources import Resource
from jobflow.app.crd_watch import CrdWatch, LostFields
from jobflow.app.health import Readiness, create_health_app
from jobflow.app.metrics import Metrics
from jobflow.controller.controller import Controller, lead
from jobflow.controller.hooks import NotJudgedYet, judge_here
from jobflow.controller.reconciler import STATUS_SECONDS
from jobflow.controller.wants import CLUSTER, Outside
from jobflow.core.cel.references import measure_json
from jobflow.core.planning.plan import judge
from jobflow.core.spec.concurrency import is_waiting
from jobflow.core.violations import Violation
from jobflow.kube.client import Client, retried
from jobflow.kube.election.candidate import Timing
from jobflow.kube.election.election import Election
from jobflow.runtime.event_loop import either, together
from jobflow.runtime.http_listener import HttpListener, PortInUse
from jobflow.store import Feed, Store, feeds
from jobflow.webhook.access_rights import AccessRights, ControllerUsers
from jobflow.webhook.app import create_app
from jobflow.webhook.certificates.live import (
    CertificateFiles,
    CertificateSource,
    Live,
    Watched,
    watch_certificate,
    watch_client_ca,
)
from jobflow.webhook.cluster import StoreCluster
from jobflow.webhook.large_reviews import ReviewProcess
from jobflow.webhook.review.envelope import NotJudged
from jobflow.webhook.review.review import MOST_BYTES, MOST_EFFORT


@dataclass(frozen=True, slots=True)
class LeaseOptions:
    namespace: str
    name: str
    timing: Timing = field(default_factory=Timing)


MakeSource = Callable[[Client, Live], CertificateSource]


def from_files(files: CertificateFiles) -> MakeSource:
    return lambda client, live: watch_certificate(files, live)


@dataclass(frozen=True, slots=True)
class WebhookOptions:
    port: int
    certificates: MakeSource
    host: str = ""
    client_ca: Path | None = None
    """A PEM file of CAs. Clients need a certificate that one of them signed."""
    checked_rights: Collection[Resource] = ()
    """The resources for which users need rights."""
    controller_users: Collection[str] = ()


@dataclass(frozen=True, slots=True)
class ReplicaOptions:
    webhook: WebhookOptions | None
    http_port: int | None = None
    controller: bool = True
    lease: LeaseOptions | None = None
    """None: no other replica runs flows."""
    namespace: str = ""
    """The only namespace to follow. If set, nothing cluster-wide is read: the definitions are not
    checked, and queues are not known."""
    shutdown_delay: float = 0.0
    max_copy_age: float | None = None
    """Seconds since the API server has confirmed a copy, after which it is not relied on. None: any
    time, for an API server in this process."""
    outside: Outside = CLUSTER
    gives_up: bool = False
    """Whether an exception of a plan ends the controller; else it holds up only its flow."""
    status_seconds: float = STATUS_SECONDS


class ServingReplica:
    """All parts of one replica. The constructor binds the ports. Raises PortInUse, or
    CertificateError if the files hold no usable certificate."""

    def __init__(self, client: Client, options: ReplicaOptions) -> None:
        # only a controller reads pods, which are most of what a cluster has
        self.store = Store(pods=options.controller)
        self.metrics = Metrics()
        client.observe = self.metrics.requested
        self._client = client
        self._options = options
        self._feeds = feeds(
            self.store, client, namespace=options.namespace, max_age=options.max_copy_age
        )
        # definitions are cluster-wide, which a Role in one namespace may not read
        definitions = () if options.namespace else KINDS.values()
        self._lost_fields = LostFields(self.store.flows)
        self._crds = CrdWatch(client, self._reread, definitions, self._lost_fields.remember)
        self._readiness = Readiness(
            self.store,
            self._feeds,
            self._crds.waiting_for,
            lambda: self._certificates.waiting_for() if self._certificates else [],
            lambda: self._users.waiting_for() if self._users else [],
        )
        self.waiting_for = self._readiness.waiting_for
        self.unknown = self._readiness.unknown
        self.wait_ready = self._readiness.wait_ready
        self._finish = asyncio.Event()
        """Set when this replica has to lead no more."""
        self._certificates: CertificateSource | None = None
        self._webhook: HttpListener | None = None
        self._large_reviews: ReviewProcess | None = None
        self._client_ca: Watched[bytes] | None = None
        self._users: ControllerUsers | None = None
        if options.webhook is not None:
            self._webhook = self._make_webhook(options.webhook)
        self._http: HttpListener | None = None
        if options.http_port is not None:
            app = create_health_app(self.waiting_for, self.metrics.text)
            try:
                self._http = HttpListener(app, port=options.http_port, flag="--http-port")
            except PortInUse:
                # nobody closes a replica that was never made
                if self._webhook:
                    self._webhook.close()
                raise
        self.webhook_port = self._webhook.port if self._webhook else None
        self.http_port = self._http.port if self._http else None
        self._measure()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run all parts while the body runs. Raises PartDied. At the end the replica is no longer
        ready, and each answer of the webhook ends its connection; after `shutdown_delay`, in which
        clients notice, it answers the reviews that have begun; then the controller stops and
        releases the lease; last, the copies of the cluster and the health port end."""
        async with AsyncExitStack() as stack:
            if self._large_reviews is not None:
                stack.push_async_callback(self._large_reviews.close)
            parts = await stack.enter_async_context(together())
            for feed in self._feeds:
                parts.start(f"the reflector of {feed.resource.plural}", feed.run)
            parts.start("the watch on definitions", self._crds.run)
            parts.start("the watch on readiness", self._readiness.report)
            if self._certificates:
                parts.start("the certificate", self._certificates.run)
            if self._users:
                parts.start("the user of the controller", self._users.run)
            if self._client_ca:
                parts.start("the CA of the webhook's clients", self._client_ca.run)
            webhook = parts.start("the webhook", self._webhook.serve) if self._webhook else None
            controller = None
            if self._options.controller:
                controller = parts.start("the controller", self._lead)
            if self._http:
                parts.start("the HTTP server", self._http.serve)
            yield
            parts.stopping = True
            self._readiness.stopping = True
            if self._webhook:
                # an API server that reuses a connection would hit one that is being closed
                self._webhook.drain()
            await asyncio.sleep(self._options.shutdown_delay)
            if self._webhook:
                self._webhook.stop()
            if webhook is not None:
                await asyncio.wait([webhook])
            self._finish.set()
            if controller is not None:
                await asyncio.wait([controller])

    async def _lead(self) -> None:
        """Run flows whenever this replica may, until `_finish` is set."""
        make = partial(
            Controller,
            hooks=self.metrics.controller,
            outside=self._options.outside,
            judge=self._judge,
            gives_up=self._options.gives_up,
            status_seconds=self._options.status_seconds,
        )
        term = partial(lead, store=self.store, feeds=self._feeds, make=make)
        lease = self._options.lease
        while True:
            # a leader without fitting definitions would write statuses that lose fields
            await either(self._crds.fit.wait(), self._finish.wait())
            # a candidate that knows nothing keeps others from leading
            await either(self.store.synced.wait(), self._finish.wait())
            if self._finish.is_set():
                return
            stopping = asyncio.Event()

            async def stop_in_time(stopping: asyncio.Event = stopping) -> None:
                await either(self._crds.unfit.wait(), self._finish.wait())
                stopping.set()

            watching = asyncio.create_task(stop_in_time())
            try:
                if lease is None:
                    self._leadership_changed(True)
                    await term(self._client, stopping)
                else:
                    await Election(
                        self._client,
                        term,
                        namespace=lease.namespace,
                        name=lease.name,
                        timing=lease.timing,
                        stopping=stopping,
                        on_change=self._leadership_changed,
                    ).run()
            finally:
                if lease is None:
                    self._leadership_changed(False)
                watching.cancel()
                await asyncio.wait([watching])

    async def _reread(self) -> None:
        # jobs have a definition of Volcano's, which the watch on definitions does not follow
        await retried(self._feeds.flows.reread)
        await retried(self._feeds.templates.reread)
        await retried(self._feeds.crons.reread)
        self._lost_fields.compare()

    async def _judge(self, flow: JobFlow) -> Sequence[Violation]:
        """Judge a flow that may have been stored without review: a large one in the process for
        large reviews, which there is only with a webhook."""
        if self._large_reviews is None:
            return await judge_here(flow)
        if (
            measure_json(flow.spec) <= MOST_BYTES
            and (found := judge(flow, MOST_EFFORT)) is not None
        ):
            return found
        try:
            return await self._large_reviews.violations(flow)
        except NotJudged as error:
            raise NotJudgedYet(str(error)) from None

    def _leadership_changed(self, leads: bool) -> None:
        self.metrics.leads(leads)
        # only the leader times jobs, so that each is counted once
        change = self.store.listeners.append if leads else self.store.listeners.remove
        change(self.metrics.steps)

    def _make_webhook(self, options: WebhookOptions) -> HttpListener:
        live = Live(now=self._client.clock.now)
        self._certificates = options.certificates(self._client, live)
        if options.client_ca is not None:
            self._client_ca = watch_client_ca(options.client_ca, live)
        self.metrics.watch_certificate(live)
        cluster = StoreCluster(
            self.store,
            self._client,
            only=self._options.namespace,
            unfit=self._crds.refusal,
            outdated=self._readiness.outdated,
            observe=self.metrics.pod_template_checked,
        )
        self._users = ControllerUsers(self._client, options.controller_users)
        rights = AccessRights(self._client, self._users, options.checked_rights)
        self._large_reviews = reviews = ReviewProcess(cluster, rights)
        app = create_app(cluster, self.metrics.reviewed, large_reviews=reviews, rights=rights)
        port, host = options.port, options.host
        return HttpListener(app, port=port, host=host, tls=live.tls, flag="--webhook-port")

    def _measure(self) -> None:
        flows, jobs, crons = self.store.flows, self.store.jobs, self.store.crons
        scrape, watch_phases = self.metrics.on_scrape, self.metrics.watch_phases

        def cronjobflows() -> dict[str, float]:
            suspended = sum(cron.suspended for cron in crons)
            return {"false": len(crons) - suspended, "true": suspended}

        def suspended() -> dict[str, float]:
            return {"": sum(flow.status.suspended_at is not None for flow in flows)}

        def of_feeds(name: str, text: str, value: Callable[[Feed], float | None]) -> None:
            def values() -> dict[str, float]:
                found = ((feed.resource.plural, value(feed)) for feed in self._feeds)
                return {plural: each for plural, each in found if each is not None}

            scrape(name, text, values, label="resource")

        watch_phases(
            "flows", lambda: [flow.status.state.phase or FlowPhase.PENDING for flow in flows]
        )
        watch_phases("jobs", lambda: [job.phase for job in jobs])
        scrape("flows_suspended", "Flows that are suspended.", suspended)
        text = "Flows that wait for a place in their concurrency group."
        scrape("flows_queued", text, lambda: {"": sum(map(is_waiting, flows))})
        text = "CronJobFlows, suspended or not."
        scrape("cronjobflows", text, cronjobflows, label="suspended")
        text = "Seconds since the copy of a kind was known to be up to date."
        of_feeds("watch_age_seconds", text, lambda f: None if f.heard_at is None else f.age)
        text = "1 while a kind cannot be listed or watched, so that its objects are not known."
        of_feeds("watch_failing", text, lambda feed: feed.cache.failing)
        text = "Objects that cannot be read: they do not fit their kind or are nested too deeply."
        of_feeds("objects_passed_over", text, lambda feed: feed.unreadable)
        text = "Seconds that the API server's clock is ahead of this machine's; it is the one used."
        scrape("clock_offset_seconds", text, lambda: {"": self._client.clock.offset})
        text = "Fields of an installed definition that this version cannot work with."
        scrape("definition_faults", text, self._crds.fault_counts, label="resource")
        text = "Flows whose spec lost fields while an installed definition did not have them."
        scrape("flows_lost_fields", text, lambda: {"": self._lost_fields.count()})
