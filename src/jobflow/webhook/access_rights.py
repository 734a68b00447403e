"""Users' rights in a namespace, by LocalSubjectAccessReview, and the user that the controller is.

A LocalSubjectAccessReview, unlike a SubjectAccessReview, needs no right outside the namespace.
"""

import time
from collections.abc import Callable, Collection
from typing import NamedTuple

import msgspec

from jobflow.api.resources import LOCAL_SUBJECT_ACCESS_REVIEWS, Resource
from jobflow.kube.client import Client, decoder
from jobflow.kube.errors import NETWORK_ERRORS, ApiError
from jobflow.webhook.controller_users import ControllerUsers
from jobflow.webhook.review.envelope import UserInfo
from jobflow.webhook.review.judges import NotReady
from jobflow.webhook.review.rights import Right

SECONDS = 3.0
"""Timeout of the request; a review has 10 s."""
KEPT_SECONDS = 10.0
"""How long an answer is reused for the same user and right."""
MOST_KEPT = 1_000


class _Status(msgspec.Struct, frozen=True):
    allowed: bool = False
    reason: str = ""


class _Review(msgspec.Struct):
    status: _Status = _Status()


class _Kept(NamedTuple):
    status: _Status
    until: float


class AccessRights:
    """`rights.Rights` by the API server; answers are cached."""

    def __init__(
        self,
        client: Client,
        controllers: ControllerUsers,
        checked: Collection[Resource],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`checked`: the resources for which users need rights; for others they need none."""
        self._client = client
        self._controllers = controllers
        self._checked = checked
        self._clock = clock
        self._kept: dict[bytes, _Kept] = {}

    async def is_controller(self, user: UserInfo) -> bool:
        return self._controllers.has(user.username)

    async def lacking(self, user: UserInfo, right: Right) -> str:
        if right.resource not in self._checked:
            return ""
        status = await self._status(user, right)
        return "" if status.allowed else _message(user, right, status.reason)

    async def _status(self, user: UserInfo, right: Right) -> _Status:
        body = _body(user, right)
        kept = self._kept.get(body)
        if kept is not None and self._clock() < kept.until:
            return kept.status
        status = await self._ask(body, user, right)
        self._kept.pop(body, None)  # the newest answer comes last
        self._kept[body] = _Kept(status, self._clock() + KEPT_SECONDS)
        if len(self._kept) > MOST_KEPT:
            del self._kept[next(iter(self._kept))]
        return status

    async def _ask(self, body: bytes, user: UserInfo, right: Right) -> _Status:
        path = LOCAL_SUBJECT_ACCESS_REVIEWS.path(right.namespace)
        try:
            answer = await self._client.request("POST", path, body=body, timeout=SECONDS)
            return decoder(_Review).decode(answer).status
        except (ApiError, *NETWORK_ERRORS) as error:
            raise NotReady(
                f'the API server did not say whether user "{user.username}" may {right} '
                f"({str(error) or type(error).__name__})"
            ) from error


def _message(user: UserInfo, right: Right, reason: str) -> str:
    because = f" ({reason})" if reason else ""
    resource = right.resource
    return (
        f'user "{user.username}" may not {right}{because}{right.need}; bind the user to a Role '
        f"that allows the verb {right.verb} on {resource.plural} of {resource.group}"
    )


def _body(user: UserInfo, right: Right) -> bytes:
    resource = right.resource
    attributes = {
        "namespace": right.namespace,
        "verb": right.verb,
        "group": resource.group,
        "version": resource.version,
        "resource": resource.plural,
    }
    obj = {
        "apiVersion": LOCAL_SUBJECT_ACCESS_REVIEWS.api_version,
        "kind": LOCAL_SUBJECT_ACCESS_REVIEWS.kind,
        "metadata": {"namespace": right.namespace},
        "spec": {
            "user": user.username,
            "uid": user.uid,
            "groups": user.groups or [],
            "extra": user.extra or {},
            "resourceAttributes": attributes | ({"name": right.name} if right.name else {}),
        },
    }
    return msgspec.json.encode(obj, order="sorted")
