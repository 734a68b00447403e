"""Reviewers decode, judge and answer an AdmissionReview (docs/decisions/refusals.md).

Objects that do not fit the kind's type get a violation for each wrong shape. They were stored under
another schema, or did not pass an API server. They may be deleted, and their metadata may change as
long as their spec does not.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import msgspec
import structlog

from jobflow.api.kinds import KINDS
from jobflow.api.nesting import CUT_DEPTH, cut, is_deeper
from jobflow.api.resources import ObjectMeta, OwnerReference
from jobflow.core.admission.analysis.tree_budget import TooMuchEffort
from jobflow.core.admission.rules.size_limits import MAX_STORED, depth_violations, size_violations
from jobflow.core.admission.validate import PASS
from jobflow.core.manifests.crd_schema import schema_violations, without_nulls
from jobflow.core.violations import Reason, Verdict, Violation
from jobflow.webhook.review import envelope
from jobflow.webhook.review.commands import CommandReviewer
from jobflow.webhook.review.judges import JUDGES, UNCHECKED, Cluster, Judge, Rights

log = structlog.get_logger(__name__)

R = TypeVar("R")
Loose = envelope.AdmissionReview[Any]

_decode_loose = msgspec.json.Decoder(Loose).decode


class _RequestHead(msgspec.Struct):
    uid: str = ""
    name: str = ""
    operation: str = ""


class _ReviewHead(msgspec.Struct):
    request: _RequestHead


_decode_head = msgspec.json.Decoder(_ReviewHead).decode


def decode_untyped(body: bytes) -> Loose:
    """Return a review with plain JSON objects, cut at CUT_DEPTH. Raises MalformedReview."""
    return _decode_cut(_decode_loose, body)


def _decode_cut(decode: Callable[[bytes], R], body: bytes) -> R:
    try:
        return decode(cut(body) if is_deeper(body, CUT_DEPTH) else body)
    except msgspec.ValidationError as error:
        raise envelope.MalformedReview(f"the body is not an AdmissionReview: {error}") from None
    except UnicodeDecodeError as error:  # msgspec does not convert it
        byte = error.object[error.start]
        why = f"the body is not JSON: byte 0x{byte:02x} in a text is not UTF-8"
        raise envelope.MalformedReview(why) from None
    except msgspec.DecodeError as error:
        raise envelope.MalformedReview(f"the body is not JSON: {error}") from None


async def judge_untyped(judge: Judge[Any], request: envelope.AdmissionRequest[Any]) -> Verdict:
    """Return the verdict on a request with an object of the wrong shape."""
    if request.operation == "DELETE":
        return PASS
    if request.operation == "UPDATE":
        old, new = _owners(request, request.old_object), _owners(request, request.object)
        await judge.check_owners(old, new, request.user_info)
        before, after = request.old_object, request.object
        if isinstance(before, dict) and isinstance(after, dict):
            metadata = after.get("metadata")
            if isinstance(metadata, dict) and metadata.get("deletionTimestamp"):
                return PASS
            # canonical JSON, because `1 == True` in Python but not in a spec
            specs = (each.get("spec") for each in (before, after))
            old_spec, new_spec = (msgspec.json.encode(spec, order="sorted") for spec in specs)
            if old_spec == new_spec:
                return PASS
    too_deep = list(depth_violations(request.object, ""))
    # the schema knows all faults, decoding only the first
    if misfits := too_deep or schema_violations(judge.kind, request.object, strict=False):
        return Verdict(tuple(misfits))
    try:
        # fits the schema, but not the type
        new = _typed(judge, request.object)
    except msgspec.ValidationError as error:
        text, _, place = str(error).partition(" - at `$")  # the JSON path
        path = place.rstrip("`").lstrip(".")
        return Verdict((Violation(path, Reason.TYPE_INVALID, None, text),))
    if request.operation == "CREATE":
        return await judge.create(new, request.user_info)
    try:
        old = _typed(judge, request.old_object)
    except msgspec.ValidationError:
        return await judge.changed(new, request.user_info)
    return await judge.update(old, new, request.user_info)


def _owners(request: envelope.AdmissionRequest[Any], obj: Any) -> ObjectMeta:
    """Return the part of the metadata that has the owners; an API server has checked its types."""
    metadata = obj.get("metadata") if isinstance(obj, dict) else None
    references = metadata.get("ownerReferences") if isinstance(metadata, dict) else None
    try:
        owners = msgspec.convert(references, list[OwnerReference] | None)
    except msgspec.ValidationError as error:
        text = f"metadata.ownerReferences cannot be read: {error}"
        raise envelope.NotJudged(text, 400, "BadRequest") from None
    return ObjectMeta(namespace=request.namespace, owner_references=owners)


def _typed(judge: Judge[Any], obj: Any) -> Any:
    """The object as an API server would pass it on. Raises msgspec.ValidationError."""
    return msgspec.convert(without_nulls(judge.kind, obj), KINDS[judge.kind].object_type)


MOST_BYTES = 256 * 1024
"""Size of an object that the event loop judges at most. Decoding it and walking its steps takes up
to a tenth of a microsecond per byte."""
MOST_EFFORT = 40_000
"""Effort of the other checks that the event loop makes at most, in about microseconds
(`core/admission/analysis/tree_budget.py`)."""
TOO_DEEP = Violation("spec", Reason.INVALID, "…", "nested too deeply to be checked")


class LargeReviews(Protocol):
    """Judges reviews that take too long for the event loop (`webhook.large_reviews`)."""

    async def review(self, path: str, body: bytes) -> envelope.Answer:
        """Return the answer to a body. Raises NotJudged."""


class PathReviewer(Protocol):
    kind: str
    path: str

    async def review(self, body: bytes) -> envelope.Answer:
        """Return the answer to a body."""


def reviewers(
    cluster: Cluster, large_reviews: LargeReviews | None = None, rights: Rights = UNCHECKED
) -> dict[str, PathReviewer]:
    """Return the reviewer of each path. Without `large_reviews` they judge all reviews themselves;
    without `rights` they check no users."""
    most = math.inf if large_reviews is None else MOST_EFFORT
    found: list[PathReviewer] = [CommandReviewer(cluster, rights)]
    found += (Reviewer(judge(cluster, rights, most), cluster, large_reviews) for judge in JUDGES)
    return {each.path: each for each in found}


class Reviewer:
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
        typed: Any = envelope.AdmissionReview[kind.object_type]  # type: ignore[name-defined]
        self._decode: Callable[[bytes], Loose] = msgspec.json.Decoder(typed).decode

    async def review(self, body: bytes) -> envelope.Answer:
        """Return the answer to a body. No content of a body makes it raise."""
        if self._large_reviews is None:
            return await self._judge_body(body)
        try:
            if len(body) <= MOST_BYTES:
                return await self._judge_body(body)
        except TooMuchEffort:
            pass
        try:
            return await self._large_reviews.review(self.path, body)
        except envelope.NotJudged as error:
            try:
                head = _decode_cut(_decode_head, body).request
            except envelope.MalformedReview as malformed:
                return envelope.not_a_review(malformed)
            request = envelope.AdmissionRequest[Any](
                uid=head.uid, name=head.name, operation=head.operation
            )
            return envelope.not_judged(self.kind, envelope.name_of(request), request, error)

    async def _judge_body(self, body: bytes) -> envelope.Answer:
        """Return the answer to a body. Raises TooMuchEffort."""
        try:
            try:
                review = self._decode(body)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                review = decode_untyped(body)  # plain JSON, because it does not fit the type
            request = envelope.checked(review, self.kind)
            if request.operation == "DELETE" and is_deeper(body, CUT_DEPTH):
                # no controller follows an object this deep, so it would never be final
                request = envelope.checked(decode_untyped(body), self.kind)
        except envelope.MalformedReview as error:
            return envelope.not_a_review(error)
        # the configuration sends none, but somebody's own may
        if request.sub_resource:
            return envelope.Answer(envelope.allowed(request.uid), operation=request.operation)
        new: Any = request.object
        old: Any = request.old_object
        judge = self._judge
        try:
            if why := self._cluster.unfit():
                raise envelope.NotReady(why)
            # first, because it bounds the work of the rules
            if len(body) > MAX_STORED and (large := size_violations(_spec(new), _spec(old))):
                verdict = Verdict(large)
            elif not isinstance(new or old, self._type):
                verdict = await judge_untyped(judge, request)
            elif request.operation == "CREATE":
                verdict = await judge.create(new, request.user_info)
            elif request.operation == "UPDATE":
                verdict = await judge.update(old, new, request.user_info)
            else:
                verdict = await judge.delete(old)
        except envelope.NotJudged as error:
            return envelope.not_judged(self.kind, envelope.name_of(request), request, error)
        except (TooMuchEffort, MemoryError):
            raise
        except RecursionError:
            verdict = Verdict((TOO_DEEP,))
        except Exception:
            # an error in this code must neither allow an unjudged object nor end the server
            name = envelope.name_of(request)
            log.exception("review failed", kind=self.kind, uid=request.uid, name=name)
            message = f"JobFlow could not judge this {self.kind}: an error of its own, see its log"
            failure = envelope.NotJudged(message)
            return envelope.not_judged(self.kind, name, request, failure)
        if not verdict.violations:
            body = envelope.allowed(request.uid, verdict.all_warnings)
            return envelope.Answer(body, operation=request.operation)
        word = envelope.forbidden if request.operation == "DELETE" else envelope.invalid
        status = word(self.kind, envelope.name_of(request), verdict)
        return envelope.Answer(
            envelope.refused(request.uid, status, verdict.all_warnings),
            envelope.ReviewOutcome.REFUSED,
            operation=request.operation,
            violations=verdict.violations,
        )


def _spec(obj: Any) -> Any:
    return obj.get("spec") if isinstance(obj, dict) else getattr(obj, "spec", None)
