"""A certificate that the replicas make themselves and share in a Secret; the API server is told
whom to trust. What to do is decided by `ring` and `trust`; here it is read, written and watched.

Every replica runs this. Who writes first wins: a create that finds the Secret there, or a patch of
an older version of it, is refused by the API server, and the loser reads what the winner wrote.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from datetime import datetime
from typing import Any, TypeVar

import msgspec
import structlog
from cryptography import x509

from jobflow.api.meta import ObjectMeta, Struct
from jobflow.api.resources import SECRETS, VALIDATING_WEBHOOKS, Resource
from jobflow.kube.backoff import Backoff
from jobflow.kube.cache import Cache, Kept
from jobflow.kube.client import NETWORK_ERRORS, ApiError, Client, decoder
from jobflow.kube.reflector import Reflector
from jobflow.webhook.certificates.live import Live, Now, utc_now
from jobflow.webhook.certificates.pki import CertificateError, pem, pem_key
from jobflow.webhook.certificates.ring import (
    CERTIFICATE,
    KEY,
    Policy,
    Ring,
    RingChange,
    change,
    issuer_of,
    new_ring,
    next_change,
    read_ring,
)
from jobflow.webhook.certificates.trust import Configuration, correction, trusts

log = structlog.get_logger(__name__)

STRATEGIC = "application/strategic-merge-patch+json"
FIELD_MANAGER = [("fieldManager", "jobflow-certificates")]
LONGEST_WAIT = 5.0
"""Seconds between tries while the API server refuses."""


T = TypeVar("T", bound=Kept)


class Secret(Struct, frozen=True, kw_only=True):
    """`v1` Secret."""

    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    data: dict[str, str] | None = None


class SharedCertificate:
    """Keeps `live` level with the Secret, and the Secret and the caBundles as they should be."""

    def __init__(
        self,
        client: Client,
        live: Live,
        policy: Policy,
        *,
        namespace: str,
        secret: str,
        configurations: Sequence[str],
        now: Now = utc_now,
    ) -> None:
        self._client = client
        self._live = live
        self._policy = policy
        self._namespace, self._name = namespace, secret
        self._now = now
        self._wake = asyncio.Event()
        self._backoff = Backoff(most=LONGEST_WAIT)
        self._trouble = ""
        self._held: Ring | None = None
        """What the Secret held when it last made sense."""
        self._missed: set[str] = set()
        self._trusted_since: dict[x509.Certificate, datetime] = {}
        self._secret = self._followed(SECRETS, Secret, secret, namespace)
        self._configurations = {
            name: self._followed(VALIDATING_WEBHOOKS, Configuration, name)
            for name in configurations
        }

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._secret.run())
            for reflector in self._configurations.values():
                group.create_task(reflector.run())
            while True:
                self._wake.clear()
                wait = await self._careful_pass()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(wait):
                        await self._wake.wait()

    def look(self) -> None:
        """See now whether something is due, as whenever something has changed."""
        self._wake.set()

    def waiting_for(self) -> list[str]:
        """A certificate, or the API server's trust in it."""
        why = self._unread() or self._trouble
        if missing := self._live.waiting_for():
            return [f"a certificate: {why}"] if why else missing
        if self._held is not None and not self._everyone_trusts(self._held.issuer):
            names = ", ".join(self._configurations)
            why = why or "its caBundle is being written"
            return [f"ValidatingWebhookConfiguration {names} to trust the certificate: {why}"]
        return []

    # ------------------------------------------------------------------ one pass

    async def _careful_pass(self) -> float:
        """A pass, and how many seconds after it the next one is due."""
        try:
            wait = await self._pass()
        except ApiError as error:
            if error.code == 409:  # somebody was quicker; what they wrote is on its way here
                return 1.0
            return self._failed(str(error))
        except NETWORK_ERRORS as error:
            return self._failed(f"{type(error).__name__}: {error}")
        self._trouble = ""
        self._backoff.reset()
        return wait

    async def _pass(self) -> float:
        if self._unread():
            return LONGEST_WAIT
        if (due := self._due()) is not None:
            await self._write(due)
            return 0.0
        ring = self._held
        assert ring is not None, "without a ring a new one is due"
        await self._tell_whom_to_trust(ring)
        adopted = self._adopt(ring)
        wait = next_change(ring, self._policy, now=self._now())
        return (wait if ring.rotated and adopted else self._policy.settle).total_seconds()

    def _due(self) -> RingChange | None:
        """What is to be written to the Secret."""
        now, held = self._now(), self._held
        secret = self._secret.cache.get(self._namespace, self._name)
        if secret is None:
            reason = "there is none yet" if held is None else "it was deleted: a new CA"
            return RingChange(new_ring(self._policy, now=now, held=held), reason)
        try:
            ring = read_ring(secret.data or {})
        except CertificateError as error:
            self._live.refuse(f"Secret {self._namespace}/{self._name}: {error}")
            repaired = held or new_ring(self._policy, now=now)
            return RingChange(repaired, f"what it held makes no sense: {error}")
        self._held = ring
        for authority in ring.authorities:
            if not self._everyone_trusts(authority):
                self._trusted_since.pop(authority, None)
            else:
                self._trusted_since.setdefault(authority, now)
        return change(ring, self._policy, now=now, trusted=self._settled(ring.newest.certificate))

    async def _write(self, due: RingChange) -> None:
        """Create or change the Secret, unless somebody else has by now."""
        cache = self._secret.cache
        body: dict[str, Any] = {"data": due.ring.data()}
        if (secret := cache.get(self._namespace, self._name)) is None:
            labels = {"app.kubernetes.io/managed-by": "jobflow"}
            body |= {"apiVersion": SECRETS.api_version, "kind": SECRETS.kind}
            body |= {"type": "kubernetes.io/tls"}
            body["metadata"] = {"name": self._name, "labels": labels}
            encoded = msgspec.json.encode(body)
            answer = await self._client.create(
                SECRETS, self._namespace, encoded, query=FIELD_MANAGER
            )
        else:
            body["metadata"] = {"resourceVersion": secret.metadata.resource_version}
            encoded = msgspec.json.encode(body)
            answer = await self._client.patch(
                SECRETS, self._namespace, self._name, encoded, query=FIELD_MANAGER
            )
        log.info("certificates written", secret=self._name, reason=due.reason)
        cache.learn(decoder(Secret).decode(answer))

    async def _tell_whom_to_trust(self, ring: Ring) -> None:
        for name, reflector in self._configurations.items():
            if (configuration := reflector.cache.get("", name)) is None:
                self._miss(name)
                continue
            self._missed.discard(name)
            patch = correction(configuration, ring, self._policy, now=self._now())
            if patch is None:
                continue
            answer = await self._client.patch(
                VALIDATING_WEBHOOKS,
                "",
                name,
                msgspec.json.encode(patch),
                content_type=STRATEGIC,
                query=FIELD_MANAGER,
            )
            log.info("caBundle written", configuration=name, webhooks=len(patch["webhooks"]))
            reflector.cache.learn(decoder(Configuration).decode(answer))

    def _adopt(self, ring: Ring) -> bool:
        """Serve what the ring holds, once that is trusted or nothing better is there."""
        now = self._live.certificate
        if now == ring.serving.certificate:
            return True
        if now is not None and not self._live.waiting_for():
            if issuer_of(now, [ring.issuer]) is None and not self._settled(ring.issuer):
                return False
        where = f"Secret {self._namespace}/{self._name}"
        chain, key = pem(ring.serving.certificate), pem_key(ring.serving.key)
        with contextlib.suppress(CertificateError):  # told, counted, and the old one stays
            self._live.put(chain, key, f"{CERTIFICATE} of {where}", f"its {KEY}")
        return True

    # ------------------------------------------------------------------

    def _everyone_trusts(self, authority: x509.Certificate) -> bool:
        """As far as is written; who is not configured yet does not ask us."""
        found = (reflector.cache.get("", name) for name, reflector in self._configurations.items())
        return all(each is None or trusts(each, authority) for each in found)

    def _settled(self, authority: x509.Certificate) -> bool:
        """Whether it is trusted, and every API server has had time to hear of it."""
        since = self._trusted_since.get(authority)
        return since is not None and since + self._policy.settle <= self._now()

    def _unread(self) -> str:
        """What has not been read yet, and why, or cannot be any more."""
        reflectors = {f"Secret {self._namespace}/{self._name}": self._secret} | {
            f"ValidatingWebhookConfiguration {name}": reflector
            for name, reflector in self._configurations.items()
        }
        return "; ".join(
            f"{what} has not been read{': ' * bool(reflector.trouble)}{reflector.trouble}"
            for what, reflector in reflectors.items()
            if not reflector.cache.synced
        )

    def _miss(self, name: str) -> None:
        """Tell, once, that nobody asks us through a configuration."""
        if name not in self._missed:
            self._missed.add(name)
            log.warning("there is no such ValidatingWebhookConfiguration yet", configuration=name)

    def _failed(self, trouble: str) -> float:
        if trouble != self._trouble:
            self._trouble = trouble
            log.warning("certificates cannot be written", error=trouble)
        return self._backoff.next()

    def _followed(
        self, resource: Resource, type: type[T], name: str, namespace: str = ""
    ) -> Reflector[T]:
        """A reflector of the one object with this name."""
        cache = Cache[T](lambda old, new: self.look())
        cache.on_state = self.look
        only = [("fieldSelector", f"metadata.name={name}")]
        return Reflector(self._client, resource, type, cache, namespace=namespace, query=only)
