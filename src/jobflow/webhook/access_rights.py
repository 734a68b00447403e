"""A user's right to create vcjobs in a namespace, by LocalSubjectAccessReview.

A LocalSubjectAccessReview, unlike a SubjectAccessReview, needs no right outside the namespace.
"""

import time
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from jobflow.api.resources import JOBS, LOCAL_SUBJECT_ACCESS_REVIEWS
from jobflow.kube.client import Client, decoder
from jobflow.kube.errors import NETWORK_ERRORS, ApiError
from jobflow.webhook.review.envelope import UserInfo
from jobflow.webhook.review.judges import NotReady

SECONDS = 3.0
"""Timeout of the request; a review has 10 s."""
KEPT_SECONDS = 10.0
"""How long an answer is reused for the same user and namespace."""
MOST_KEPT = 1_000


class _Status(msgspec.Struct, frozen=True):
    allowed: bool = False
    reason: str = ""


class _Review(msgspec.Struct):
    status: _Status = _Status()


class _Kept(NamedTuple):
    reason: str
    until: float


class AccessRights:
    """`judges.Rights` by the API server; answers are cached."""

    def __init__(self, client: Client, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._clock = clock
        self._kept: dict[bytes, _Kept] = {}

    async def lacking(self, user: UserInfo, namespace: str) -> str:
        body = _body(user, namespace)
        kept = self._kept.get(body)
        if kept is not None and self._clock() < kept.until:
            return kept.reason
        status = await self._ask(body, user, namespace)
        reason = "" if status.allowed else _message(user, namespace, status.reason)
        self._kept.pop(body, None)  # the newest answer comes last
        self._kept[body] = _Kept(reason, self._clock() + KEPT_SECONDS)
        if len(self._kept) > MOST_KEPT:
            del self._kept[next(iter(self._kept))]
        return reason

    async def _ask(self, body: bytes, user: UserInfo, namespace: str) -> _Status:
        path = LOCAL_SUBJECT_ACCESS_REVIEWS.path(namespace)
        try:
            answer = await self._client.request("POST", path, body=body, timeout=SECONDS)
            return decoder(_Review).decode(answer).status
        except (ApiError, *NETWORK_ERRORS) as error:
            raise NotReady(
                f'the API server did not say whether user "{user.username}" may create '
                f'{JOBS.plural}.{JOBS.group} in namespace "{namespace}" '
                f"({str(error) or type(error).__name__})"
            ) from error


def _message(user: UserInfo, namespace: str, reason: str) -> str:
    because = f" ({reason})" if reason else ""
    return (
        f'user "{user.username}" may not create {JOBS.plural}.{JOBS.group} in namespace '
        f'"{namespace}"{because}, and JobFlow creates such jobs for its users; bind the user to a '
        f"Role that allows the verb create on {JOBS.plural} of {JOBS.group}"
    )


def _body(user: UserInfo, namespace: str) -> bytes:
    obj = {
        "apiVersion": LOCAL_SUBJECT_ACCESS_REVIEWS.api_version,
        "kind": LOCAL_SUBJECT_ACCESS_REVIEWS.kind,
        "metadata": {"namespace": namespace},
        "spec": {
            "user": user.username,
            "uid": user.uid,
            "groups": user.groups or [],
            "extra": user.extra or {},
            "resourceAttributes": {
                "namespace": namespace,
                "verb": "create",
                "group": JOBS.group,
                "version": JOBS.version,
                "resource": JOBS.plural,
            },
        },
    }
    return msgspec.json.encode(obj, order="sorted")
