"""Creates of volume claims. Their answers are in the next View."""

from collections.abc import Callable
from datetime import datetime

import msgspec
import structlog

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.resources import VOLUME_CLAIMS
from jobflow.controller.apply.api_answers import Memory, is_refusal
from jobflow.controller.apply.live_reads import LiveReads
from jobflow.core.planning.actions import CreateClaim
from jobflow.kube.cache import key_of
from jobflow.kube.client import ApiError, Client

log = structlog.get_logger(__name__)


class VolumeClaims:
    """Creates the PersistentVolumeClaims of flows."""

    def __init__(
        self, client: Client, reads: LiveReads, memory: Memory, *, now: Callable[[], datetime]
    ) -> None:
        self._client = client
        self._reads = reads
        self._memory = memory
        self._now = now

    async def create(self, flow: JobFlow, action: CreateClaim) -> None:
        """Create the claim. If its name is in use, read the claim that has it."""
        name, body = action.name, msgspec.json.encode(action.manifest)
        try:
            await self._client.create(VOLUME_CLAIMS, flow.metadata.namespace, body)
        except ApiError as error:
            if error.already_exists:
                await self._read(flow, name)
            elif is_refusal(error):
                self._memory.refuse_claim(flow, name, error, self._now())
                _log("volume claim refused", flow, name, code=error.code, message=error.message)
            else:
                raise
        else:
            self._memory.of(flow).claims[name] = None
            _log("volume claim created", flow, name)

    async def _read(self, flow: JobFlow, name: str) -> None:
        try:
            found = (await self._reads.claim(flow, name)).metadata
        except ApiError as error:
            if not error.not_found:
                raise
            return  # the next plan creates it
        owner, deleting = found.controller, found.deletion_timestamp is not None
        if found.is_owned_by(flow.metadata) and not deleting:
            self._memory.of(flow).claims[name] = None
            return
        going = deleting or not await self._reads.is_alive(flow, owner)
        self._memory.hold_claim(flow, name, owner, going=going, now=self._now())
        _log("volume claim name in use", flow, name, going=going)


def _log(event: str, flow: JobFlow, claim: str, **more: object) -> None:
    log.info(event, flow="/".join(key_of(flow)), claim=claim, **more)
