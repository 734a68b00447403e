"""Reviews of objects that do not fit the kind's type: a violation for each wrong shape.

They were stored under another schema, or did not pass an API server. They may be deleted, and their
metadata may change as long as their spec does not.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from jobflow.api.kinds import KINDS
from jobflow.api.meta import ObjectMeta, OwnerReference
from jobflow.api.schema.nesting import CUT_DEPTH, cut, is_deeper
from jobflow.core.admission.rules.size_limits import depth_violations
from jobflow.core.admission.validate import PASS
from jobflow.core.manifests.crd_schema import schema_violations, without_nulls
from jobflow.core.violations import Reason, Verdict, Violation
from jobflow.webhook.review.envelope import (
    AdmissionRequest,
    AdmissionReview,
    MalformedReview,
    NotJudged,
)
from jobflow.webhook.review.judges import Judge

R = TypeVar("R")
Loose = AdmissionReview[Any]
"""A review whose objects are plain JSON."""

_decode = msgspec.json.Decoder(Loose).decode


class _Request(msgspec.Struct):
    uid: str = ""
    name: str = ""
    operation: str = ""


class _Review(msgspec.Struct):
    request: _Request


_decode_without_objects = msgspec.json.Decoder(_Review).decode


def decode(body: bytes) -> Loose:
    """Return a review with plain JSON objects, cut at CUT_DEPTH. Raises MalformedReview."""
    return _decode_cut(_decode, body)


def _decode_cut(decode: Callable[[bytes], R], body: bytes) -> R:
    try:
        return decode(cut(body) if is_deeper(body, CUT_DEPTH) else body)
    except msgspec.ValidationError as error:
        raise MalformedReview(f"the body is not an AdmissionReview: {error}") from None
    except UnicodeDecodeError as error:  # msgspec does not convert it
        byte = error.object[error.start]
        raise MalformedReview(
            f"the body is not JSON: byte 0x{byte:02x} in a text is not UTF-8"
        ) from None
    except msgspec.DecodeError as error:
        raise MalformedReview(f"the body is not JSON: {error}") from None


def decode_without_objects(body: bytes) -> AdmissionRequest[Any]:
    """Return the request of a review without its objects. Raises MalformedReview."""
    request = _decode_cut(_decode_without_objects, body).request
    return AdmissionRequest(uid=request.uid, name=request.name, operation=request.operation)


async def verdict(judge: Judge[Any], request: AdmissionRequest[Any]) -> Verdict:
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
            specs = [
                msgspec.json.encode(each.get("spec"), order="sorted") for each in (before, after)
            ]
            if specs[0] == specs[1]:
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


def _owners(request: AdmissionRequest[Any], obj: Any) -> ObjectMeta:
    """Return the part of the metadata that has the owners; an API server has checked its types."""
    metadata = obj.get("metadata") if isinstance(obj, dict) else None
    references = metadata.get("ownerReferences") if isinstance(metadata, dict) else None
    try:
        owners = msgspec.convert(references, list[OwnerReference] | None)
    except msgspec.ValidationError as error:
        text = f"metadata.ownerReferences cannot be read: {error}"
        raise NotJudged(text, 400, "BadRequest") from None
    return ObjectMeta(namespace=request.namespace, owner_references=owners)


def _typed(judge: Judge[Any], obj: Any) -> Any:
    """The object as an API server would pass it on. Raises msgspec.ValidationError."""
    return msgspec.convert(without_nulls(judge.kind, obj), KINDS[judge.kind].object_type)
