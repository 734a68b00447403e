"""The verdict on an object that no type of ours fits: every place where it has the wrong shape.

An API server holds objects against the CRD before it asks the webhook, so this is for bodies that
were sent past one, and for objects that were stored under another schema. Those may be deleted,
and labelled as long as their spec stays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from jobflow.api.jobflow import JobFlow
from jobflow.api.jobtemplate import JobTemplate
from jobflow.api.schema.nesting import CUT_DEPTH, cut, is_deeper
from jobflow.core.admission.rules.size_limits import depth_violations
from jobflow.core.manifests.crd_schema import schema_violations, without_nulls
from jobflow.core.violations import Reason, Verdict, Violation
from jobflow.webhook.review.envelope import AdmissionRequest, Loose, Malformed
from jobflow.webhook.review.judges import PASS, Judge

T = TypeVar("T", JobFlow, JobTemplate)

R = TypeVar("R")

_decode = msgspec.json.Decoder(Loose).decode


class _Request(msgspec.Struct):
    uid: str = ""
    name: str = ""
    operation: str = ""


class _Review(msgspec.Struct):
    request: _Request


_decode_unread = msgspec.json.Decoder(_Review).decode


def decode(body: bytes) -> Loose:
    """A review whose object is whatever JSON it is; Malformed if the body is none. In a body that
    is nested too deeply to be read, a text replaces each value that is too deep."""
    return _reading(_decode, body)


def _reading(decode: Callable[[bytes], R], body: bytes) -> R:
    try:
        return decode(cut(body) if is_deeper(body, CUT_DEPTH) else body)
    except msgspec.ValidationError as error:
        raise Malformed(f"the body is no AdmissionReview: {error}") from None
    except UnicodeDecodeError as error:  # which msgspec lets through as it is
        byte = error.object[error.start]
        raise Malformed(f"the body is not JSON: byte 0x{byte:02x} in a text is no UTF-8") from None
    except msgspec.DecodeError as error:
        raise Malformed(f"the body is not JSON: {error}") from None


def decode_unread(body: bytes) -> AdmissionRequest[Any]:
    """The request of a review without its objects, which are not read; Malformed where the body is
    no review."""
    request = _reading(_decode_unread, body).request
    return AdmissionRequest(uid=request.uid, name=request.name, operation=request.operation)


async def verdict(judge: Judge[T], request: AdmissionRequest[Any]) -> Verdict:
    """The verdict on a CREATE, UPDATE or DELETE of which an object has the wrong shape."""
    if request.operation == "DELETE":
        return PASS
    if request.operation == "UPDATE" and _spec_stays(request.old_object, request.object):
        return PASS
    too_deep = list(depth_violations(request.object, ""))
    if misfits := too_deep or schema_violations(judge.kind, request.object, strict=False):
        return Verdict(tuple(misfits))
    try:
        new = _typed(judge, request.object)
    except msgspec.ValidationError as error:
        return Verdict((_misfit(error),))
    if request.operation == "CREATE":
        return await judge.create(new, request.user_info)
    try:
        old = _typed(judge, request.old_object)
    except msgspec.ValidationError:
        return await judge.changed(new, request.user_info)
    return await judge.update(old, new, request.user_info)


def _spec_stays(old: Any, new: Any) -> bool:
    if not isinstance(old, dict) or not isinstance(new, dict):
        return False
    metadata = new.get("metadata")
    if isinstance(metadata, dict) and metadata.get("deletionTimestamp"):
        return True
    return _json(old.get("spec")) == _json(new.get("spec"))


def _json(value: Any) -> bytes:
    """Canonical JSON, for `1 == True` in Python and not in a spec."""
    return msgspec.json.encode(value, order="sorted")


def _typed(judge: Judge[T], obj: Any) -> T:
    """The object as an API server would hand it on. Raises msgspec.ValidationError."""
    return msgspec.convert(without_nulls(judge.kind, obj), judge.object_type)


def _misfit(error: msgspec.ValidationError) -> Violation:
    """msgspec's `what is wrong - at `$.path`` as a violation."""
    text, _, place = str(error).partition(" - at `$")
    return Violation(place.rstrip("`").lstrip("."), Reason.TYPE_INVALID, None, text)
