"""Replicas that share a certificate in a Secret and write it to caBundles."""

import asyncio
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import timedelta

import pytest
from structlog.testing import capture_logs

from jobflow.api.kinds import KINDS
from jobflow.api.resources import SECRETS
from jobflow.kube.client import ApiError
from jobflow.webhook.certificates.live import Live
from jobflow.webhook.certificates.pki import Policy, make_authority, make_pki, pem
from jobflow.webhook.certificates.shared import SharedCertificate
from support.sandbox.running_controller import merge
from support.time.certificate_rings import BEGIN, POLICY, SECRET, Replica, Shared, shared

DUE = POLICY.serving * 2 / 3
SETTLE = POLICY.settle
OVERLAP = POLICY.overlap


@pytest.fixture
async def unconfigured() -> AsyncIterator[Shared]:
    async with shared() as world:
        yield world


@pytest.fixture
async def world(unconfigured: Shared) -> Shared:
    await unconfigured.configure()
    return unconfigured


@asynccontextmanager
async def serving(
    world: Shared, count: int = 1, policy: Policy = POLICY
) -> AsyncIterator[list[Replica]]:
    """Run replicas, which serve a certificate when the body starts."""
    async with AsyncExitStack() as stack:
        replicas = [await stack.enter_async_context(world.replica(policy)) for _ in range(count)]
        await world.until(lambda: all(each.serves for each in replicas))
        yield replicas


async def test_the_first_replica_creates_a_trusted_certificate(world: Shared) -> None:
    async with serving(world) as (one,):
        ring = await world.ring()
        assert ring.serving.certificate == one.serves
        assert await world.trusted() == [{ring.issuer}] * len(KINDS)
        assert one.source.waiting_for() == []


async def test_replicas_that_start_together_agree(world: Shared) -> None:
    async with serving(world, 5) as replicas:
        ring = await world.ring()
        assert {each.serves for each in replicas} == {ring.serving.certificate}
        assert await world.trusted() == [{ring.issuer}] * len(KINDS)
        assert all(each.live.swaps == 0 for each in replicas)


async def test_a_configuration_that_is_created_later_gets_the_ca(unconfigured: Shared) -> None:
    world = unconfigured
    async with serving(world) as (one,):
        assert one.source.waiting_for() == []
        await world.configure()
        issuer = (await world.ring()).issuer
        await until_trusted(world, {issuer})


async def test_an_emptied_bundle_is_restored(world: Shared) -> None:
    async with serving(world) as (one,):
        issuer = (await world.ring()).issuer
        await world.configure()
        await until_trusted(world, {issuer})
        assert one.live.swaps == 0


async def test_another_ca_stays_trusted_during_the_overlap(world: Shared) -> None:
    foreign = make_authority(now=BEGIN, lifetime=timedelta(days=100))
    await world.configure(pem(foreign.certificate))
    async with serving(world) as (one,):
        issuer = (await world.ring()).issuer
        await until_trusted(world, {issuer, foreign.certificate})
        await world.later(OVERLAP)
        await until_trusted(world, {issuer})


async def test_correct_objects_are_not_written_again(world: Shared) -> None:
    async with serving(world, 2) as (one, other):
        before = writes(world)
        for replica in (one, other):
            for _ in range(3):
                replica.source.look()
                await asyncio.sleep(0.02)
        assert writes(world) == before


@pytest.mark.long
async def test_the_ca_renews_a_certificate_after_two_thirds_of_its_life(world: Shared) -> None:
    async with serving(world, 2) as (one, other):
        first = await world.ring()
        await world.later(DUE - timedelta(seconds=1))
        await asyncio.sleep(0.05)
        assert (await world.ring()).data() == first.data()
        await world.later(timedelta(seconds=1))
        await world.until(lambda: one.live.swaps == other.live.swaps == 1)
        second = await world.ring()
        assert one.serves == other.serves == second.serving.certificate
        assert second.authorities == first.authorities


async def test_a_new_ca_is_trusted_before_its_certificate_is_served(world: Shared) -> None:
    short = Policy(POLICY.hosts, authority=2 * POLICY.serving)
    async with serving(world, 2, short) as (one, other):
        old = (await world.ring()).issuer
        await world.later(DUE)
        await world.until(lambda: one.live.swaps == other.live.swaps == 1)
        served = one.serves
        await world.later(DUE)
        new = await until_newest(world, other_than=old)
        await until_trusted(world, {old, new})
        await world.later(SETTLE - timedelta(seconds=1))
        await asyncio.sleep(0.05)
        assert (await world.ring()).issuer == old
        assert one.serves == other.serves == served
        await world.later(timedelta(seconds=1))
        await world.until(lambda: one.live.swaps == other.live.swaps == 2)
        assert (await world.ring()).issuer == new
        assert await world.trusted() == [{old, new}] * len(KINDS)
        await world.later(OVERLAP)
        await until_trusted(world, {new})
        assert (await world.ring()).authorities == (new,)


async def test_a_deleted_secret_gets_a_new_ca_without_interruption(world: Shared) -> None:
    async with serving(world, 2) as (one, other):
        old, served = (await world.ring()).issuer, one.serves
        await world.client.delete(SECRETS, "default", SECRET)
        new = await until_newest(world, other_than=old)
        await until_trusted(world, {old, new})
        assert one.serves == other.serves == served
        await world.later(SETTLE)
        await world.until(lambda: one.serves == other.serves != served)
        await world.later(OVERLAP)
        await until_trusted(world, {new})


async def test_a_secret_deleted_while_no_replica_runs_gets_a_new_ca(world: Shared) -> None:
    async with serving(world):
        old = (await world.ring()).issuer
    await world.client.delete(SECRETS, "default", SECRET)
    async with serving(world) as (one,):
        new = (await world.ring()).issuer
        assert await world.trusted() == [{old, new}] * len(KINDS)
        await world.later(OVERLAP)
        await until_trusted(world, {new})


OTHER = make_pki(["localhost"])
EDITS = {
    "a key of another certificate": {"tls.key": OTHER.key},
    "a certificate of another CA": {"tls.crt": OTHER.certificate, "tls.key": OTHER.key},
    "a CA without its key": {"ca.crt": OTHER.ca_certificate},
    "no PEM": {"ca.crt": b"hello"},
    "an empty key": {"ca.key": b""},
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
async def test_an_unusable_edit_is_reverted(world: Shared, edit: dict[str, bytes]) -> None:
    async with serving(world) as (one,):
        before = await world.ring()
        await change_secret(world, edit)
        async with asyncio.timeout(10):
            while await world.data() != before.data():  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert one.live.refused == 1
        assert one.live.swaps == 0
        assert one.source.waiting_for() == []


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
async def test_an_unusable_edit_is_replaced_later(world: Shared, edit: dict[str, bytes]) -> None:
    async with serving(world):
        pass
    await change_secret(world, edit)
    async with world.replica() as one:
        await world.until(lambda: one.serves and one.source.waiting_for() == [])
        ring = await world.ring()
        assert ring.serving.certificate == one.serves
        assert all(ring.issuer in trusted for trusted in await world.trusted())


async def test_a_complete_pki_written_by_hand_is_used(world: Shared) -> None:
    async with serving(world) as (one,):
        old = one.serves
        async with shared() as elsewhere, elsewhere.replica() as another:
            await elsewhere.until(lambda: another.serves)
            data = (await elsewhere.ring()).data()
        await merge(world.client, SECRETS, SECRET, {"data": data})
        issuer = (await world.ring()).issuer
        await world.until(lambda: one.source.waiting_for() == [])
        async with asyncio.timeout(10):
            while one.serves == old:
                await world.later(SETTLE)
                await asyncio.sleep(0.05)
        assert all(issuer in trusted for trusted in await world.trusted())


async def test_replicas_with_different_hosts_agree(world: Shared) -> None:
    async with serving(world) as (one,):
        wider = Policy(("other.example", "0:0::1"))
        async with world.replica(wider) as other:
            await world.until(lambda: other.serves and one.serves == other.serves)
            names = (await world.ring()).serving.certificate
            before = writes(world)
            for replica in (one, other):
                replica.source.look()
            await asyncio.sleep(0.05)
            assert writes(world) == before
            assert one.serves == names


async def test_an_expired_ca_is_replaced(world: Shared) -> None:
    async with serving(world):
        before = await world.ring()
    world.clock.advance(POLICY.authority + timedelta(days=1))
    async with serving(world) as (one,):
        ring = await world.ring()
        assert not set(ring.authorities) & set(before.authorities)
        assert await world.trusted() == [{ring.issuer}] * len(KINDS)


class TestWaitingFor:
    @pytest.fixture
    def world(self, unconfigured: Shared) -> Shared:
        return unconfigured

    async def test_an_unread_secret_is_a_reason_to_wait(self, world: Shared) -> None:
        async with world.replica() as one:
            (reason,) = one.source.waiting_for()
            assert reason.startswith("a certificate: Secret default/certificate has not been read")

    @pytest.mark.long
    async def test_a_missing_namespace_is_a_reason_to_wait(self, world: Shared) -> None:
        live = Live()
        source = SharedCertificate(
            world.client, live, POLICY, namespace="nowhere", secret=SECRET, configurations=[]
        )
        task = asyncio.create_task(source.run())
        await world.until(lambda: 'namespaces "nowhere" not found' in source.waiting_for()[0])
        task.cancel()
        await asyncio.wait([task])

    async def test_an_unreachable_server_is_a_reason_that_is_logged_once(
        self, world: Shared, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        tried = 0

        async def fail(*arguments: object, **more: object) -> bytes:
            nonlocal tried
            tried += 1
            raise ConnectionError("nobody there")

        with capture_logs() as lines:
            async with world.replica() as one:
                with monkeypatch.context() as patched:
                    patched.setattr("jobflow.kube.client.Client.create", fail)
                    await world.until(lambda: tried >= 2)
                    reason = ["a certificate: ConnectionError: nobody there"]
                    assert one.source.waiting_for() == reason
                await world.until(lambda: one.serves)
                assert one.source.waiting_for() == []
        warnings = [line for line in lines if line["log_level"] == "warning" and "error" in line]
        assert [each["error"] for each in warnings] == ["ConnectionError: nobody there"]

    async def test_an_expired_certificate_is_a_reason_to_wait(self, world: Shared) -> None:
        async with world.replica() as one:
            await world.until(lambda: one.serves)
        world.clock.advance(POLICY.serving)
        (reason,) = one.live.waiting_for()
        assert reason.startswith("a certificate that is valid: the one in use expired at 2026-")


async def change_secret(world: Shared, edit: dict[str, bytes]) -> None:
    data = {name: b64encode(value).decode() for name, value in edit.items()}
    await merge(world.client, SECRETS, SECRET, {"data": data})


async def until_trusted(world: Shared, authorities: set[object]) -> None:
    async with asyncio.timeout(10):
        while await world.trusted() != [authorities] * len(KINDS):  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def until_newest(world: Shared, *, other_than: object) -> object:
    async with asyncio.timeout(10):
        while True:
            with suppress(ApiError):  # the Secret is deleted and created again
                if (newest := (await world.ring()).newest.certificate) != other_than:
                    return newest
            await asyncio.sleep(0.01)


def writes(world: Shared) -> int:
    return sum(request.method in ("POST", "PATCH", "PUT") for request in world.server.requests)
