"""Admission of the ports, paths and headers of a probe."""

from typing import Any

import pytest

from jobflow.api.flow.jobflow import JobFlow
from jobflow.core.admission.rules.probes import MAX_TEXT
from jobflow.core.violations import quote
from support.admission.reviewed import faults, probing

GET = {"taskName": "ps", "path": "/healthz", "port": 8080}
HERE = "spec.flows[1].dependsOn.probe"


def get(**fields: Any) -> JobFlow:
    """A flow with one HTTP request that has these fields."""
    return probing(httpGetList=[GET | fields])


def header(name: str | None, value: str | None) -> JobFlow:
    return get(httpHeader={"name": name, "value": value})


def tcp(**fields: Any) -> JobFlow:
    return probing(tcpSocketList=[{"taskName": "ps", **fields}])


TOO_LONG = "Too long: 2049 characters, and a probe sends at most 2048"
NO_PATH = 'Required value: set the path to request, such as "/healthz"'
BEGINS = 'a path begins with "/"; '
VISIBLE = 'a path holds only visible ASCII characters, and no "#"; '
NAME = "the name of a header holds no spaces, colons or similar characters"
OWN = "this header belongs to the connection, which is the probe's own; remove it"
VALUE = "the value of a header is one line of ASCII, without control characters"


def invalid(value: object, detail: str) -> str:
    return f"Invalid value: {quote(value)}: {detail}"


PORTS = dict.fromkeys((0, -1, 65536, 2**70), "a port is a number from 1 to 65535")
INVALID_PATHS = {
    "healthz": f'{BEGINS}"/healthz" would do',
    "?a b": f'{BEGINS}"/?a%20b" would do',
    "http://169.254.169.254/latest": (
        'set only the path, from its "/" on: the request goes to the pods of the task'
    ),
    "/a b": f'{VISIBLE}"/a%20b" would do',
    "/a\n": f'{VISIBLE}"/a" would do',
    "/ HTTP/1.1\r\nX: y": f'{VISIBLE}"/%20HTTP/1.1%0D%0AX:%20y" would do',
    "/a\x00": f'{VISIBLE}"/a%00" would do',
    "/größe": f'{VISIBLE}"/gr%C3%B6%C3%9Fe" would do',
    "/a#b": f'{VISIBLE}"/a" would do',
}
PATHS = [
    *((path, invalid(path, detail)) for path, detail in INVALID_PATHS.items()),
    (None, NO_PATH),
    ("", NO_PATH),
    ("/" + "a" * MAX_TEXT, TOO_LONG),
]
HEADERS = [
    (None, "Required value: a header has a name"),
    ("X A:", invalid("X A:", f'{NAME}; "XA" would do')),
    ("X-A\r\n", invalid("X-A\r\n", f'{NAME}; "X-A" would do')),
    ("：", invalid("：", NAME)),
    ("a" * 2049, TOO_LONG),
    *(
        (name, invalid(name, OWN))
        for name in ("Connection", "transfer-encoding", "TE", "Content-Length", "Upgrade")
    ),
]
VALUES = [
    *((value, invalid(value, VALUE)) for value in ("a\nb", "a\r\nX-B: c", "\x00", "\x7f", "é")),
    (None, 'Required value: a header has a value; it may be ""'),
    ("a" * 2049, TOO_LONG),
]


@pytest.mark.parametrize(
    ("flow", "field", "message"),
    [
        (tcp(), "tcpSocketList[0].port", "Required value: set the port of the pods"),
        *((tcp(port=n), "tcpSocketList[0].port", invalid(n, why)) for n, why in PORTS.items()),
        *((get(port=n), "httpGetList[0].port", invalid(n, why)) for n, why in PORTS.items()),
        *((get(path=path), "httpGetList[0].path", message) for path, message in PATHS),
        *((header(name, "x"), "httpGetList[0].httpHeader.name", why) for name, why in HEADERS),
        *((header("X-A", value), "httpGetList[0].httpHeader.value", why) for value, why in VALUES),
    ],
    ids=lambda value: "" if isinstance(value, JobFlow) else None,
)
def test_a_request_that_cannot_be_sent_is_refused(flow: JobFlow, field: str, message: str) -> None:
    assert faults(flow) == [f"{HERE}.{field}: {message}"]
