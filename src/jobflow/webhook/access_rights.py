"""Users' rights in a namespace, and the users that JobFlow's controller is.

A LocalSubjectAccessReview, unlike a SubjectAccessReview, needs no right outside the namespace.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec
import structlog

from jobflow.api.resources import LOCAL_SUBJECT_ACCESS_REVIEWS, SELF_SUBJECT_REVIEWS, Resource
from jobflow.kube.client import NETWORK_ERRORS, ApiError, Client, decoder
from jobflow.kube.clock import ExponentialBackoff
from jobflow.webhook.review.envelope import NotReady, UserInfo
from jobflow.webhook.review.judges import Right

LONGEST_RETRY = 30.0

log = structlog.get_logger(__name__)


class _SelfStatus(msgspec.Struct, frozen=True, rename="camel"):
    user_info: UserInfo


class _SelfReview(msgspec.Struct, frozen=True):
    status: _SelfStatus


class ControllerUsers:
    """The user of this process, and those that settings name: replicas may have other users."""

    def __init__(self, client: Client, named: Iterable[str] = ()) -> None:
        self._client = client
        self._names = set(named)
        self._answered = False
        self._trouble = ""

    def waiting_for(self) -> list[str]:
        """Return a clause if the user of this process is still being asked for."""
        if self._answered:
            return []
        clause = "the API server to name the user of this replica"
        return [f"{clause}: {self._trouble}" if self._trouble else clause]

    def has(self, name: str) -> bool:
        """Return whether the controller is the user of this name. Raises NotReady."""
        # a no would refuse the controller's own child flows
        if name not in self._names and not self._answered:
            raise NotReady("JobFlow does not know yet which user its controller is")
        return name in self._names

    async def run(self) -> None:
        """Ask the API server for the user of this process until it answers. If it refuses or does
        not serve this, the named users are left."""
        backoff = ExponentialBackoff(most=LONGEST_RETRY)
        path = SELF_SUBJECT_REVIEWS.path()
        review = SELF_SUBJECT_REVIEWS.type_meta
        body = msgspec.json.encode(review)
        while True:
            try:
                answer = await self._client.request("POST", path, body=body)
                self._names.add(decoder(_SelfReview).decode(answer).status.user_info.username)
                self._answered = True
                break
            except (ApiError, *NETWORK_ERRORS) as error:
                # it will not be served later either; named users still count
                if isinstance(error, ApiError) and error.code in (403, 404):
                    self._answered = True
                if (trouble := str(error) or type(error).__name__) != self._trouble:
                    self._trouble, names = trouble, sorted(self._names)
                    log.warning("user of this replica unknown", error=trouble, controllers=names)
            await asyncio.sleep(backoff.next())
        await asyncio.Event().wait()


SECONDS = 3.0
"""Timeout of the request; a review has 10 s."""
KEPT_SECONDS = 10.0
MOST_KEPT = 1_000


class _Status(msgspec.Struct, frozen=True):
    allowed: bool = False
    reason: str = ""


class _Review(msgspec.Struct):
    status: _Status = _Status()


class _Kept(NamedTuple):
    status: _Status
    until: float


@dataclass(eq=False)
class AccessRights:
    """`judges.Rights` by the API server; answers are cached."""

    client: Client
    controllers: ControllerUsers
    checked: Collection[Resource]
    """The resources for which users need rights; for others they need none."""
    clock: Callable[[], float] = time.monotonic
    _kept: dict[bytes, _Kept] = field(default_factory=dict)

    async def is_controller(self, user: UserInfo) -> bool:
        return self.controllers.has(user.username)

    async def lacking(self, user: UserInfo, right: Right) -> str | None:
        resource = right.resource
        # the chart decides which rights are asked for
        if resource not in self.checked:
            return None
        attributes = {
            "namespace": right.namespace,
            "verb": right.verb,
            "group": resource.group,
            "version": resource.version,
            "resource": resource.plural,
        }
        spec = {
            "user": user.username,
            "uid": user.uid,
            "groups": user.groups or [],
            "extra": user.extra or {},
            "resourceAttributes": attributes | ({"name": right.name} if right.name else {}),
        }
        obj = {
            **LOCAL_SUBJECT_ACCESS_REVIEWS.type_meta,
            "metadata": {"namespace": right.namespace},
            "spec": spec,
        }
        body = msgspec.json.encode(obj, order="sorted")
        kept = self._kept.get(body)
        if kept is None or self.clock() >= kept.until:
            status = await self._ask(body, user, right)
            kept = _Kept(status, self.clock() + KEPT_SECONDS)
            self._kept.pop(body, None)  # the newest answer comes last
            self._kept[body] = kept
            # the oldest answer goes: it has waited longest for a second question
            if len(self._kept) > MOST_KEPT:
                del self._kept[next(iter(self._kept))]
        if kept.status.allowed:
            return None
        because = f" ({kept.status.reason})" if kept.status.reason else ""
        return (
            f'user "{user.username}" may not {right}{because}{right.need}; bind the user to a Role '
            f"that allows the verb {right.verb} on {resource.plural} of {resource.group}"
        )

    async def _ask(self, body: bytes, user: UserInfo, right: Right) -> _Status:
        path = LOCAL_SUBJECT_ACCESS_REVIEWS.path(right.namespace)
        try:
            answer = await self.client.request("POST", path, body=body, timeout=SECONDS)
            return decoder(_Review).decode(answer).status
        except (ApiError, *NETWORK_ERRORS) as error:
            raise NotReady(
                f'the API server did not say whether user "{user.username}" may {right} '
                f"({str(error) or type(error).__name__})"
            ) from error
