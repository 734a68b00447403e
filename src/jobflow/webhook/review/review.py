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
from jobflow.core.admission.rules.size_limits import MAX_STORED, size_violations
from jobflow.core.violations import Reason, Verdict, Violation
from jobflow.webhook.review import untyped
from jobflow.webhook.review.commands import CommandReviewer
from jobflow.webhook.review.envelope import (
    AdmissionReview,
    Answer,
    MalformedReview,
    NotJudged,
    NotReady,
    ReviewOutcome,
    allowed,
    checked,
    forbidden,
    invalid,
    name_of,
    not_a_review,
    not_judged,
    refused,
)
from jobflow.webhook.review.judges import JUDGES, UNCHECKED, Cluster, Judge, Rights, TooMuch

TOO_DEEP = Violation("spec", Reason.INVALID, "…", "nested too deeply to be checked")

log = structlog.get_logger(__name__)


class LargeReviews(Protocol):
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
    large_reviews: LargeReviews | None = None,
    rights: Rights = UNCHECKED,
) -> dict[str, PathReviewer]:
    """Return the reviewer of each path. Without `large_reviews` they judge all reviews themselves;
    without `rights` they check no users."""
    most = math.inf if large_reviews is None else MOST_EFFORT
    found: list[PathReviewer] = [CommandReviewer(rights)]
    found += (Reviewer(judge(cluster, rights, most), cluster, large_reviews) for judge in JUDGES)
    return {each.path: each for each in found}


class Reviewer:
    """Answers the reviews of one kind."""

    def __init__(
        self, judge: Judge[Any], cluster: Cluster, large_reviews: LargeReviews | None
    ) -> None:
        kind = KINDS[judge.kind]
        self.kind = judge.kind
        self.path = kind.review_path
        self._judge = judge
        self._cluster = cluster
        self._large_reviews = large_reviews
        self._type = kind.object_type
        typed: Any = AdmissionReview[kind.object_type]  # type: ignore[name-defined]
        self._decode: Callable[[bytes], AdmissionReview[Any]] = msgspec.json.Decoder(typed).decode

    async def review(self, body: bytes) -> Answer:
        """Return the answer to a body. No content of a body makes it raise."""
        if self._large_reviews is None:
            return await self._judge_body(body)
        try:
            if len(body) <= MOST_BYTES:
                return await self._judge_body(body)
        except TooMuch:
            pass
        try:
            return await self._large_reviews.review(self.path, body)
        except NotJudged as error:
            try:
                request = untyped.decode_without_objects(body)
            except MalformedReview as malformed:
                return not_a_review(malformed)
            return not_judged(self.kind, name_of(request), request, error)

    async def _judge_body(self, body: bytes) -> Answer:
        """Return the answer to a body. Raises TooMuch."""
        try:
            try:
                review = self._decode(body)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                review = untyped.decode(body)  # plain JSON, because it does not fit the type
            request = checked(review, self.kind)
            if request.operation == "DELETE" and is_deeper(body, CUT_DEPTH):
                # no controller follows an object this deep, so it would never be final
                request = checked(untyped.decode(body), self.kind)
        except MalformedReview as error:
            return not_a_review(error)
        if request.sub_resource:
            return Answer(allowed(request.uid), operation=request.operation)
        new: Any = request.object
        old: Any = request.old_object
        judge = self._judge
        try:
            if why := self._cluster.unfit():
                raise NotReady(why)
            # first, because it bounds the work of the rules
            if len(body) > MAX_STORED and (large := size_violations(_spec(new), _spec(old))):
                verdict = Verdict(large)
            elif not isinstance(new or old, self._type):
                verdict = await untyped.verdict(judge, request)
            elif request.operation == "CREATE":
                verdict = await judge.create(new, request.user_info)
            elif request.operation == "UPDATE":
                verdict = await judge.update(old, new, request.user_info)
            else:
                verdict = await judge.delete(old)
        except NotJudged as error:
            return not_judged(self.kind, name_of(request), request, error)
        except (TooMuch, MemoryError):
            raise
        except RecursionError:
            verdict = Verdict((TOO_DEEP,))
        except Exception:
            # an error in this code must neither allow an unjudged object nor end the server
            log.exception("review failed", kind=self.kind, uid=request.uid, name=name_of(request))
            message = f"JobFlow could not judge this {self.kind}: an error of its own, see its log"
            return not_judged(self.kind, name_of(request), request, NotJudged(message))
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


def _spec(obj: Any) -> Any:
    """Return the spec of an object of the kind's type or of plain JSON, None if it has none."""
    return obj.get("spec") if isinstance(obj, dict) else getattr(obj, "spec", None)
