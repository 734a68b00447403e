"""The serving process on a cluster; `sandbox_world` is that on this machine."""

import asyncio
import gc
import signal
from collections.abc import Callable
from datetime import timedelta

import structlog

from jobflow.api.resources import CRONJOBFLOWS, JOBFLOWS, JOBS
from jobflow.app.replica import (
    LeaseOptions,
    MakeSource,
    ReplicaOptions,
    ServingReplica,
    WebhookOptions,
    from_files,
)
from jobflow.app.settings import Settings, split_names
from jobflow.kube.client import Client
from jobflow.kube.credentials import ConfigError
from jobflow.kube.election.candidate import Timing
from jobflow.runtime.event_loop import either
from jobflow.runtime.http_listener import PortInUse
from jobflow.webhook.certificates.live import CertificateFiles
from jobflow.webhook.certificates.pki import CertificateError, Policy
from jobflow.webhook.certificates.shared import SharedCertificate

START_ERRORS = (CertificateError, ConfigError, PortInUse)
"""Errors before anything has started; their text is for the user."""
LEASE = "jobflow"
WEBHOOK_SERVICE = "jobflow-webhook"

log = structlog.get_logger(__name__)


async def serve(settings: Settings, *, on_ready: Callable[[], None] = lambda: None) -> None:
    """Run a replica until SIGTERM or SIGINT, and call `on_ready` once it is ready. Raises one of
    START_ERRORS, or PartDied."""
    async with await Client.from_kubeconfig(settings.kubeconfig) as client:
        replica = ServingReplica(client, _replica_options(settings, client))
        stop, loop = asyncio.Event(), asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            # a handler of the loop interrupts nothing; KeyboardInterrupt could be raised anywhere
            loop.add_signal_handler(number, stop.set)
        try:
            async with replica.running():
                log.info("started", webhook=replica.webhook_port, http=replica.http_port)
                await either(replica.wait_ready(), stop.wait())
                if not stop.is_set():
                    freeze_garbage_collector()
                    on_ready()
                await stop.wait()
                log.info("stopping")
        finally:
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.remove_signal_handler(number)


def _replica_options(settings: Settings, client: Client) -> ReplicaOptions:
    # where this pod runs
    system = settings.system_namespace or client.namespace
    webhook, lease = None, None
    if not settings.no_webhook:
        webhook = WebhookOptions(
            settings.webhook_port,
            _certificates(settings, system),
            client_ca=settings.client_ca,
            checked_rights=([JOBFLOWS, CRONJOBFLOWS] + [JOBS] * settings.subject_access_review),
            controller_users=settings.controller_user,
        )
    if not settings.no_leader_election:
        name = f"{LEASE}-{settings.namespace}" if settings.namespace else LEASE
        timing = Timing(
            lease=int(settings.lease_duration),
            renew=settings.renew_deadline,
            retry=settings.retry_period,
        )
        lease = LeaseOptions(system, settings.lease_name or name, timing)
    return ReplicaOptions(
        webhook=webhook,
        http_port=settings.http_port,
        controller=not settings.no_controller,
        lease=lease,
        namespace=settings.namespace,
        shutdown_delay=settings.shutdown_delay,
        max_copy_age=settings.max_copy_age,
    )


def _certificates(settings: Settings, system: str) -> MakeSource:
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
        now=client.clock.now,
        configurations=split_names(settings.webhook_configuration),
    )


def freeze_garbage_collector() -> None:
    """Exclude what has been read from garbage collection, and collect the rest seldom, because
    these values form no cycles (docs/performance.md)."""
    # garbage that is frozen would stay for ever
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 50, 50)
