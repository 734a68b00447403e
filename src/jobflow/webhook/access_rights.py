"""Users' rights in a namespace, by LocalSubjectAccessReview: to create vcjobs, and to steer flows.

A LocalSubjectAccessReview, unlike a SubjectAccessReview, needs no right outside the namespace.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from jobflow.api.resources import JOBFLOWS, JOBS, LOCAL_SUBJECT_ACCESS_REVIEWS, Resource
from jobflow.kube.client import Client, decoder
from jobflow.kube.errors import NETWORK_ERRORS, ApiError
from jobflow.webhook.review.envelope import UserInfo
from jobflow.webhook.review.judges import NotReady

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
    reason: str
    until: float


@dataclass(frozen=True, slots=True)
class Right:
    """A right in a namespace."""

    verb: str
    resource: Resource
    namespace: str
    name: str = ""
    """The object; "" for all."""

    def __str__(self) -> str:
        """Return `create jobs.batch.volcano.sh in namespace "team"`."""
        name = f' "{self.name}"' if self.name else ""
        return f'{self.verb} {self.resource.qualified}{name} in namespace "{self.namespace}"'


class AccessRights:
    """`judges.Rights` and `commands.FlowRights` by the API server; answers are cached."""

    def __init__(self, client: Client, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._clock = clock
        self._kept: dict[bytes, _Kept] = {}

    async def lacking(self, user: UserInfo, namespace: str) -> str:
        need = ", and JobFlow creates such jobs for its users"
        return await self._lacking(user, Right("create", JOBS, namespace), need)

    async def lacking_on_flow(self, user: UserInfo, namespace: str, flow: str, verb: str) -> str:
        return await self._lacking(user, Right(verb, JOBFLOWS, namespace, flow), "")

    async def _lacking(self, user: UserInfo, right: Right, need: str) -> str:
        body = _body(user, right)
        kept = self._kept.get(body)
        if kept is not None and self._clock() < kept.until:
            return kept.reason
        status = await self._ask(body, user, right)
        reason = "" if status.allowed else _message(user, right, need, status.reason)
        self._kept.pop(body, None)  # the newest answer comes last
        self._kept[body] = _Kept(reason, self._clock() + KEPT_SECONDS)
        if len(self._kept) > MOST_KEPT:
            del self._kept[next(iter(self._kept))]
        return reason

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


def _message(user: UserInfo, right: Right, need: str, reason: str) -> str:
    because = f" ({reason})" if reason else ""
    resource = right.resource
    return (
        f'user "{user.username}" may not {right}{because}{need}; bind the user to a Role that '
        f"allows the verb {right.verb} on {resource.plural} of {resource.group}"
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
