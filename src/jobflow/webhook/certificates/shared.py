"""A certificate that the replicas make themselves, share in a Secret, and have API servers trust.
The first write wins. CAs stay in caBundles until no replica can serve a certificate of them
(docs/decisions/certificates.md)."""

import asyncio
import contextlib
from base64 import b64decode, b64encode
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

import msgspec
import structlog
from cryptography import x509

from jobflow.api import resources
from jobflow.api.resources import ObjectMeta, Struct
from jobflow.kube.cache import Cache, KubeObject
from jobflow.kube.client import NETWORK_ERRORS, ApiError, Client, decoder
from jobflow.kube.clock import ExponentialBackoff
from jobflow.kube.reflector import Reflector
from jobflow.webhook.certificates import pki
from jobflow.webhook.certificates.live import Live, Now, utc_now

log = structlog.get_logger(__name__)


class ClientConfig(Struct):
    ca_bundle: str = ""


class WebhookEntry(Struct):
    name: str = ""
    client_config: ClientConfig = msgspec.field(default_factory=ClientConfig)


class Configuration(Struct):
    """`admissionregistration.k8s.io/v1` ValidatingWebhookConfiguration, or the mutating one."""

    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    webhooks: list[WebhookEntry] = []


def correction(
    configuration: Configuration, ring: pki.Ring, policy: pki.Policy, *, now: datetime
) -> dict[str, Any] | None:
    """Return a strategic merge patch that corrects the caBundles, or None if they are correct."""
    drop_old = pki.is_older_unused(ring, policy, now=now)
    changed = []
    for webhook in configuration.webhooks:
        had = _bundle(webhook)
        # CAs that the ring does not have stay too: a replica may serve a certificate of one
        kept = () if drop_old else (each for each in had if each.not_valid_after_utc > now)
        wanted = list(dict.fromkeys([*ring.authorities, *kept]))
        if set(wanted) != set(had):
            bundle = b64encode(b"".join(map(pki.pem, wanted))).decode()
            changed.append({"name": webhook.name, "clientConfig": {"caBundle": bundle}})
    if not changed:
        return None
    # the API server refuses the patch if the configuration has changed
    version = configuration.metadata.resource_version
    return {"metadata": {"resourceVersion": version}, "webhooks": changed}


def _bundle(webhook: WebhookEntry) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(b64decode(webhook.client_config.ca_bundle))
    except ValueError:
        return []


# merges webhooks by their names
STRATEGIC = "application/strategic-merge-patch+json"
FIELD_MANAGER = [("fieldManager", "jobflow-certificates")]
LONGEST_WAIT = 5.0

T = TypeVar("T", bound=KubeObject)


class Secret(Struct):
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    data: dict[str, str] | None = None


class SharedCertificate:
    """Keeps `live` up to date with the Secret, and corrects the Secret and the caBundles."""

    def __init__(
        self,
        client: Client,
        live: Live,
        policy: pki.Policy,
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
        self._backoff = ExponentialBackoff(most=LONGEST_WAIT)
        self._trouble = ""
        self._held: pki.Ring | None = None
        self._missed: set[str] = set()
        self._trusted_since: dict[x509.Certificate, datetime] = {}
        self._secret = self._reflector(resources.SECRETS, Secret, secret, namespace)
        self._configurations = {
            (kind, name): self._reflector(kind, Configuration, name)
            for name in configurations
            for kind in (resources.VALIDATING_WEBHOOKS, resources.MUTATING_WEBHOOKS)
        }

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._secret.run())
            for reflector in self._configurations.values():
                group.create_task(reflector.run())
            while True:
                self._wake.clear()
                try:
                    wait = await self._pass()
                except ApiError as error:
                    # 409: another replica was faster, so wait for its change
                    wait = 1.0 if error.code == 409 else self._failed(str(error))
                except NETWORK_ERRORS as error:
                    wait = self._failed(f"{type(error).__name__}: {error}")
                else:
                    self._trouble = ""
                    self._backoff.reset()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(wait):
                        await self._wake.wait()

    def look(self) -> None:
        self._wake.set()

    def waiting_for(self) -> list[str]:
        """Return why reviews cannot be answered, a clause each."""
        reason = self._unread() or self._trouble
        if missing := self._live.waiting_for():
            return [f"a certificate: {reason}"] if reason else missing
        if self._held is not None and not self._is_trusted(self._held.issuer):
            names = ", ".join(dict.fromkeys(name for _, name in self._configurations))
            reason = reason or "its caBundle is being written"
            return [f"webhook configuration {names} to trust the certificate: {reason}"]
        return []

    async def _pass(self) -> float:
        """Write what is due, and return the seconds until the next pass."""
        # a Secret that was not read is not a missing one
        if self._unread():
            return LONGEST_WAIT
        if (due := self._due()) is not None:
            await self._write(due)
            return 0.0
        ring = self._held
        assert ring is not None, "without a ring a new one is due"
        for (kind, name), reflector in self._configurations.items():
            missed = f"{kind.kind} {name}"
            if (configuration := reflector.cache.get("", name)) is None:
                if missed not in self._missed:
                    log.warning(f"no such {kind.kind} yet", configuration=name)
                    self._missed.add(missed)
                continue
            self._missed.discard(missed)
            if (patch := correction(configuration, ring, self._policy, now=self._now())) is None:
                continue
            body = msgspec.json.encode(patch)
            answer = await self._client.patch(
                kind, "", name, body, content_type=STRATEGIC, query=FIELD_MANAGER
            )
            log.info("caBundle written", configuration=name, webhooks=len(patch["webhooks"]))
            reflector.cache.learn(decoder(Configuration).decode(answer))
        adopted = self._adopt(ring)
        wait = pki.time_to_next_change(ring, self._policy, now=self._now())
        # in the middle of a rotation the next step is due when API servers know the new CA
        return (wait if ring.rotated and adopted else self._policy.settle).total_seconds()

    def _due(self) -> pki.RingChange | None:
        """The change that is due, or None. Reads the Secret into `_held`."""
        now, held = self._now(), self._held
        secret = self._secret.cache.get(self._namespace, self._name)
        if secret is None:
            # a certificate in use stays, so that a deleted Secret interrupts nothing
            reason = "the Secret does not exist yet" if held is None else "the Secret was deleted"
            return pki.RingChange(pki.new_ring(self._policy, now=now, held=held), reason)
        try:
            ring = pki.read_ring(secret.data or {})
        except pki.CertificateError as error:
            self._live.refuse(f"Secret {self._namespace}/{self._name}: {error}")
            # replicas go on with what they have read before
            repaired = held or pki.new_ring(self._policy, now=now)
            return pki.RingChange(repaired, f"its content cannot be used: {error}")
        # kept also if the Secret is deleted or damaged later
        self._held = ring
        for authority in ring.authorities:
            if not self._is_trusted(authority):
                self._trusted_since.pop(authority, None)
            else:
                self._trusted_since.setdefault(authority, now)
        return pki.due_change(
            ring, self._policy, now=now, trusted=self._has_settled(ring.newest.certificate)
        )

    async def _write(self, due: pki.RingChange) -> None:
        """Create or change the Secret. Raises ApiError 409 if another replica was faster."""
        cache = self._secret.cache
        body: dict[str, Any] = {"data": due.ring.data()}
        if (secret := cache.get(self._namespace, self._name)) is None:
            labels = {"app.kubernetes.io/managed-by": "jobflow"}
            body |= {
                **resources.SECRETS.type_meta,
                "type": "kubernetes.io/tls",
                "metadata": {"name": self._name, "labels": labels},
            }
            send = partial(self._client.create, resources.SECRETS, self._namespace)
        else:
            body["metadata"] = {"resourceVersion": secret.metadata.resource_version}
            send = partial(self._client.patch, resources.SECRETS, self._namespace, self._name)
        answer = await send(msgspec.json.encode(body), query=FIELD_MANAGER)
        log.info("certificates written", secret=self._name, reason=due.reason)
        cache.learn(decoder(Secret).decode(answer))

    def _adopt(self, ring: pki.Ring) -> bool:
        """Serve the ring's certificate if it is trusted, or no usable one is; return whether it
        is."""
        now = self._live.certificate
        if now == ring.serving.certificate:
            return True
        # a certificate that works is kept until API servers trust the next one
        if now is not None and not self._live.waiting_for():
            if pki.issuer_of(now, [ring.issuer]) is None and not self._has_settled(ring.issuer):
                return False
        where = f"Secret {self._namespace}/{self._name}"
        chain, key = pki.pem(ring.serving.certificate), pki.pem_key(ring.serving.key)
        with contextlib.suppress(pki.CertificateError):  # `put` logs it, and the old one stays
            self._live.put(chain, key, f"{pki.CERTIFICATE} of {where}", f"its {pki.KEY}")
        return True

    def _is_trusted(self, authority: x509.Certificate) -> bool:
        for (_, name), reflector in self._configurations.items():
            configuration = reflector.cache.get("", name)
            for webhook in configuration.webhooks if configuration is not None else ():
                if authority not in _bundle(webhook):
                    return False
        return True

    def _has_settled(self, authority: x509.Certificate) -> bool:
        """Whether the CA has been trusted for long enough that every API server knows it."""
        since = self._trusted_since.get(authority)
        return since is not None and since + self._policy.settle <= self._now()

    def _unread(self) -> str:
        reflectors = {f"Secret {self._namespace}/{self._name}": self._secret} | {
            f"{kind.kind} {name}": reflector
            for (kind, name), reflector in self._configurations.items()
        }
        return "; ".join(
            f"{name} has not been read{': ' * bool(reflector.trouble)}{reflector.trouble}"
            for name, reflector in reflectors.items()
            if not reflector.cache.synced
        )

    def _failed(self, trouble: str) -> float:
        if trouble != self._trouble:
            self._trouble = trouble
            log.warning("certificates cannot be written", error=trouble)
        return self._backoff.next()

    def _reflector(
        self, resource: resources.Resource, type: type[T], name: str, namespace: str = ""
    ) -> Reflector[T]:
        cache = Cache[T](lambda old, new: self.look())
        # also when it turns out that the object does not exist
        cache.on_state = self.look
        only = [("fieldSelector", f"metadata.name={name}")]
        return Reflector(self._client, resource, type, cache, namespace=namespace, query=only)
