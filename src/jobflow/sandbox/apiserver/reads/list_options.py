"""Options of a list or a watch: the requested version, and valid combinations.

Source: k8s.io/apimachinery pkg/apis/meta/internalversion/validation.
"""

import base64
import binascii
from collections.abc import Iterator
from typing import Any

import msgspec

from jobflow.core.violations import Reason, Violation
from jobflow.sandbox.apiserver.requests import failures
from jobflow.sandbox.apiserver.requests.http import Request

_MATCH = "resourceVersionMatch"


def check_options(request: Request, *, watching: bool) -> None:
    """Raise RequestFailure, 400 or 422, if the options are invalid."""
    for name in ("limit", "timeoutSeconds"):
        request.number(name)
    faults = list(_watch_faults(request) if watching else _list_faults(request))
    if faults:
        raise failures.invalid_options("ListOptions", faults)


def version(request: Request, *, watching: bool = False) -> int:
    """Return `resourceVersion`, or 0. Raises RequestFailure: 400, or 500 for a watch."""
    text = request.query.get("resourceVersion") or "0"
    if text.isdecimal():
        return int(text)
    why = f'strconv.ParseUint: parsing "{text}": invalid syntax'
    message = f'resourceVersion: Invalid value: "{text}": {why}'
    if watching:
        raise failures.failure(500, "", message)
    raise failures.bad_request(f"invalid resource version: {message}")


def check_token(token: str) -> None:
    """Raise RequestFailure, 400, if this is not a continue token."""
    fault = "invalid continue token: continue key is not valid"
    try:
        text = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
        version = msgspec.json.decode(text, type=dict[str, Any]).get("v", "")
    except (binascii.Error, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise failures.bad_request(f"{fault}: {error}") from error
    if version != "meta.k8s.io/v1":
        why = f"server does not recognize this encoded version {version}"
        raise failures.bad_request(f"{fault}: {why}")


def _forbidden(detail: str) -> Violation:
    return Violation(_MATCH, Reason.FORBIDDEN, None, detail)


def _list_faults(request: Request) -> Iterator[Violation]:
    match = request.query.get(_MATCH, "")
    asked = request.query.get("resourceVersion", "")
    if not match:
        return
    if not asked:
        yield _forbidden("resourceVersionMatch is forbidden unless resourceVersion is provided")
    if request.query.get("continue"):
        yield _forbidden("resourceVersionMatch is forbidden when continue is provided")
    if match not in ("Exact", "NotOlderThan"):
        detail = 'supported values: "Exact", "NotOlderThan", ""'
        yield Violation(_MATCH, Reason.NOT_SUPPORTED, match, detail)
    if match == "Exact" and asked == "0":
        yield _forbidden('resourceVersionMatch "exact" is forbidden for resourceVersion "0"')


def _watch_faults(request: Request) -> Iterator[Violation]:
    match = request.query.get(_MATCH, "")
    if "sendInitialEvents" not in request.query:
        if match:
            why = "is forbidden for watch unless sendInitialEvents is provided"
            yield _forbidden(f"resourceVersionMatch {why}")
    elif match != "NotOlderThan":
        yield _forbidden("sendInitialEvents requires setting resourceVersionMatch to NotOlderThan")
    if match not in ("", "NotOlderThan"):
        detail = 'supported values: "NotOlderThan"'
        yield Violation(_MATCH, Reason.NOT_SUPPORTED, match, detail)
