"""The users that JobFlow's controller is: the webhook lets only these make child flows."""

import asyncio
from collections.abc import Iterable

import msgspec
import structlog

from jobflow.api.resources import SELF_SUBJECT_REVIEWS
from jobflow.kube.backoff import ExponentialBackoff
from jobflow.kube.client import Client, decoder
from jobflow.kube.errors import NETWORK_ERRORS, ApiError
from jobflow.webhook.review.envelope import UserInfo
from jobflow.webhook.review.judges import NotReady

LONGEST_RETRY = 30.0

log = structlog.get_logger(__name__)


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    user_info: UserInfo


class _Review(msgspec.Struct, frozen=True):
    status: _Status


class ControllerUsers:
    """The user of this process, and those that settings name: replicas may have other users."""

    def __init__(self, client: Client, named: Iterable[str] = ()) -> None:
        self._client = client
        self._names = set(named)
        self._answered = False
        """Whether the API server has named the user of this process, or refused to."""
        self._trouble = ""

    def waiting_for(self) -> list[str]:
        """Return a clause if the user of this process is still being asked for."""
        if self._answered:
            return []
        clause = "the API server to name the user of this replica"
        return [f"{clause}: {self._trouble}" if self._trouble else clause]

    def has(self, name: str) -> bool:
        """Return whether the controller is the user of this name. Raises NotReady."""
        if name not in self._names and not self._answered:
            raise NotReady("JobFlow does not know yet which user its controller is")
        return name in self._names

    async def run(self) -> None:
        """Ask the API server for the user of this process until it names it. An API server that
        refuses or does not serve this leaves the named users."""
        backoff = ExponentialBackoff(most=LONGEST_RETRY)
        while True:
            try:
                self._names.add(await self._own_name())
                self._answered = True
                break
            except (ApiError, *NETWORK_ERRORS) as error:
                if isinstance(error, ApiError) and error.code in (403, 404):
                    self._answered = True
                self._report(str(error) or type(error).__name__)
            await asyncio.sleep(backoff.next())
        await asyncio.Event().wait()

    def _report(self, trouble: str) -> None:
        if trouble != self._trouble:
            self._trouble, names = trouble, sorted(self._names)
            log.warning("user of this replica unknown", error=trouble, controllers=names)

    async def _own_name(self) -> str:
        review = {"apiVersion": SELF_SUBJECT_REVIEWS.api_version, "kind": SELF_SUBJECT_REVIEWS.kind}
        body = msgspec.json.encode(review)
        answer = await self._client.request("POST", SELF_SUBJECT_REVIEWS.path(), body=body)
        return decoder(_Review).decode(answer).status.user_info.username
