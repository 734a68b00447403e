"""Admission of the ports, paths and headers of a probe."""

from typing import Any

import pytest

from jobflow.api.jobflow import JobFlow
from jobflow.core.admission.rules.probes import MAX_TEXT
from support.admission.reviewed import faults, probing

GET = {"taskName": "ps", "path": "/healthz", "port": 8080}
CONNECT = {"taskName": "ps", "port": 2222}
HERE = "spec.flows[1].dependsOn.probe"


def get(**fields: Any) -> JobFlow:
    """A flow with one HTTP request that differs in this."""
    return probing(httpGetList=[GET | fields])


def header(name: str | None, value: str | None) -> JobFlow:
    return get(httpHeader={"name": name, "value": value})


@pytest.mark.parametrize("port", [0, -1, 65536, 2**70])
@pytest.mark.parametrize("field", ["httpGetList", "tcpSocketList"])
def test_a_port_that_is_none(field, port):
    entry = {"httpGetList": GET, "tcpSocketList": CONNECT}[field]
    assert faults(probing(**{field: [entry | {"port": port}]})) == [
        f"{HERE}.{field}[0].port: Invalid value: {port}: a port is a number from 1 to 65535"
    ]


def test_no_port_at_all():
    assert faults(probing(tcpSocketList=[{"taskName": "ps"}])) == [
        f"{HERE}.tcpSocketList[0].port: Required value: set the port of the pods"
    ]


VISIBLE = 'a path holds only visible ASCII characters, and no "#"; '


@pytest.mark.parametrize(
    ("path", "said"),
    [
        (None, 'Required value: set the path to request, such as "/healthz"'),
        ("", 'Required value: set the path to request, such as "/healthz"'),
        ("healthz", 'Invalid value: "healthz": a path begins with "/"; "/healthz" would do'),
        ("?a b", 'Invalid value: "?a b": a path begins with "/"; "/?a%20b" would do'),
        (
            "http://169.254.169.254/latest",
            (
                'Invalid value: "http://169.254.169.254/latest": set only the path, from '
                'its "/" on: the request goes to the pods of the task'
            ),
        ),
        ("/a b", f'Invalid value: "/a b": {VISIBLE}"/a%20b" would do'),
        ("/a\n", f'Invalid value: "/a\\n": {VISIBLE}"/a" would do'),
        (
            "/ HTTP/1.1\r\nX: y",
            f'Invalid value: "/ HTTP/1.1\\r\\nX: y": {VISIBLE}"/%20HTTP/1.1%0D%0AX:%20y" would do',
        ),
        ("/a\x00", f'Invalid value: "/a\\u0000": {VISIBLE}"/a%00" would do'),
        ("/größe", f'Invalid value: "/größe": {VISIBLE}"/gr%C3%B6%C3%9Fe" would do'),
        ("/a#b", f'Invalid value: "/a#b": {VISIBLE}"/a" would do'),
        ("/" + "a" * MAX_TEXT, "Too long: 2049 characters, and a probe sends at most 2048"),
    ],
)
def test_a_path_that_is_none(path, said):
    assert faults(get(path=path)) == [f"{HERE}.httpGetList[0].path: {said}"]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (None, "Required value: a header has a name"),
        ("X A:", ('Invalid value: "X A:": the name of a header holds no spaces, colons '
                 'or similar characters; "XA" would do')),
        ("X-A\r\n", ('Invalid value: "X-A\\r\\n": the name of a header holds no spaces, '
                    'colons or similar characters; "X-A" would do')),
        ("：", ('Invalid value: "：": the name of a header holds no spaces, colons or '
                "similar characters")),
        ("a" * 2049, "Too long: 2049 characters, and a probe sends at most 2048"),
        *(
            (name, f'Invalid value: "{name}": this header belongs to the connection, which is the '
                   "probe's own; remove it")
            for name in ("Connection", "transfer-encoding", "TE", "Content-Length", "Upgrade")
        ),
    ],
)  # fmt: skip
def test_a_header_that_cannot_be_sent(name, said):
    assert faults(header(name, "x")) == [f"{HERE}.httpGetList[0].httpHeader.name: {said}"]


@pytest.mark.parametrize("value", ["a\nb", "a\r\nX-B: c", "\x00", "\x7f", "é"])
def test_a_header_of_more_than_one_line(value):
    (fault,) = faults(header("X-A", value))
    assert fault.startswith(f"{HERE}.httpGetList[0].httpHeader.value: Invalid value: ")
    assert fault.endswith("the value of a header is one line of ASCII, without control characters")


def test_a_header_without_a_value_and_one_with_too_much():
    at = f"{HERE}.httpGetList[0].httpHeader.value"
    assert faults(header("X-A", None)) == [
        f'{at}: Required value: a header has a value; it may be ""'
    ]
    (fault,) = faults(header("X-A", "a" * 2049))
    assert fault == f"{at}: Too long: 2049 characters, and a probe sends at most 2048"
