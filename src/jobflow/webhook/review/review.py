"""Reviewers decode, judge and answer an AdmissionReview (docs/decisions/refusals.md)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol

import msgspec
import structlog

from jobflow.api.kinds import KINDS
from jobflow.api.schema.nesting import CUT_DEPTH, is_deeper
from jobflow.core.admission.analysis.effort import MOST_BYTES, MOST_EFFORT
from jobflow.core.violations import Reason, Verdict, Violation
from jobflow.webhook.review import untyped
from jobflow.webhook.review.answer import Answer, ReviewOutcome, not_a_review
from jobflow.webhook.review.commands import CommandReviewer
from jobflow.webhook.review.envelope import (
    AdmissionRequest,
    AdmissionReview,
    MalformedReview,
    allowed,
    checked,
    failed,
    forbidden,
    invalid,
    name_of,
    refused,
)
from jobflow.webhook.review.judges import (
    JUDGES,
    Cluster,
    Judge,
    NotJudged,
    NotReady,
    TooMuch,
)
from jobflow.webhook.review.rights import UNCHECKED, Rights

TOO_DEEP = Violation("spec", Reason.INVALID, "…", "nested too deeply to be checked")

log = structlog.get_logger(__name__)


class Elsewhere(Protocol):
    """Judges reviews that take too long for the event loop (`webhook.large_reviews.offload`)."""

    async def review(self, path: str, body: bytes) -> Answer:
        """Return the answer to a body. Raises NotJudged."""


class PathReviewer(Protocol):
    """Answers the reviews that are sent to a path."""

    kind: str
    path: str

    async def review(self, body: bytes) -> Answer:
        """Return the answer to a body."""


def reviewers(
    cluster: Cluster,
    elsewhere: Elsewhere | None = None,
    rights: Rights = UNCHECKED,
) -> dict[str, PathReviewer]:
    """Return the reviewer of each path. Without `elsewhere` they judge all reviews themselves;
    without `rights` they check no users."""
    most = math.inf if elsewhere is None else MOST_EFFORT
    found = (Reviewer(judge(cluster, rights, most), cluster, elsewhere) for judge in JUDGES)
    made: list[PathReviewer] = [*found, CommandReviewer(rights)]
    return {each.path: each for each in made}


class Reviewer:
    """Answers the reviews of one kind."""

    def __init__(self, judge: Judge[Any], cluster: Cluster, elsewhere: Elsewhere | None) -> None:
        kind = KINDS[judge.kind]
        self.kind = judge.kind
        self.path = kind.review_path
        self._judge = judge
        self._cluster = cluster
        self._elsewhere = elsewhere
        self._type = kind.object_type
        typed: Any = AdmissionReview[kind.object_type]  # type: ignore[name-defined]
        self._decode: Callable[[bytes], AdmissionReview[Any]] = msgspec.json.Decoder(typed).decode

    async def review(self, body: bytes) -> Answer:
        """Return the answer to a body. No content of a body makes it raise."""
        if self._elsewhere is None:
            return await self._here(body)
        if len(body) > MOST_BYTES:
            return await self._there(self._elsewhere, body)
        try:
            return await self._here(body)
        except TooMuch:
            return await self._there(self._elsewhere, body)

    async def _there(self, elsewhere: Elsewhere, body: bytes) -> Answer:
        try:
            return await elsewhere.review(self.path, body)
        except NotJudged as error:
            try:
                request = untyped.decode_without_objects(body)
            except MalformedReview as malformed:
                return not_a_review(malformed)
            return self._failed(request, error)

    async def _here(self, body: bytes) -> Answer:
        """Return the answer to a body. Raises TooMuch."""
        try:
            request = self._request(body)
        except MalformedReview as error:
            return not_a_review(error)
        if request.sub_resource:
            return Answer(allowed(request.uid), operation=request.operation)
        try:
            verdict = await self._verdict(request)
        except NotJudged as error:
            return self._failed(request, error)
        except (TooMuch, MemoryError):
            raise
        except RecursionError:
            verdict = Verdict((TOO_DEEP,))
        except Exception:
            # an error in this code must neither allow an unjudged object nor end the server
            log.exception("review failed", kind=self.kind, uid=request.uid, name=name_of(request))
            message = f"JobFlow could not judge this {self.kind}: an error of its own, see its log"
            return self._failed(request, NotJudged(message))
        return self._answer(request, verdict)

    def _request(self, body: bytes) -> AdmissionRequest[Any]:
        """Return the request with typed objects, or with plain JSON if they do not fit the type."""
        try:
            review = self._decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            review = untyped.decode(body)
        request = checked(review, self.kind)
        if request.operation == "DELETE" and is_deeper(body, CUT_DEPTH):
            # no controller follows an object this deep, so it would never be final
            return checked(untyped.decode(body), self.kind)
        return request

    async def _verdict(self, request: AdmissionRequest[Any]) -> Verdict:
        if why := self._cluster.unfit():
            raise NotReady(why)
        new: Any = request.object
        old: Any = request.old_object
        if not isinstance(new or old, self._type):
            return await untyped.verdict(self._judge, request)
        if request.operation == "CREATE":
            return await self._judge.create(new, request.user_info)
        if request.operation == "UPDATE":
            return await self._judge.update(old, new, request.user_info)
        return await self._judge.delete(old)

    def _answer(self, request: AdmissionRequest[Any], verdict: Verdict) -> Answer:
        if not verdict.violations:
            return Answer(allowed(request.uid, verdict.all_warnings), operation=request.operation)
        word = forbidden if request.operation == "DELETE" else invalid
        status = word(self.kind, name_of(request), verdict)
        return Answer(
            refused(request.uid, status, verdict.all_warnings),
            ReviewOutcome.REFUSED,
            operation=request.operation,
            violations=verdict.violations,
        )

    def _failed(self, request: AdmissionRequest[Any], error: NotJudged) -> Answer:
        name, code, reason = name_of(request), error.code, error.reason
        status = failed(self.kind, name, code, reason, str(error), error.retry_after)
        outcome = ReviewOutcome.REFUSED if error.code == 403 else ReviewOutcome.FAILED
        return Answer(refused(request.uid, status), outcome, operation=request.operation)
