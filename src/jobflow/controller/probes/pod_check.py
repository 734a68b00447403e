"""A check of one pod: a TCP connection, or an HTTP GET and the head of its answer; and which pods
a round of a probe checks.

The pod is not trusted: time and size are limited, and no part of the answer is followed, kept or
shown except its status code. For asyncio streams and h11, see docs/decisions/probes.md.
"""

import asyncio
import errno
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from urllib.parse import quote

import h11

import jobflow
from jobflow.api.volcano.pod import Pod, PodPhase
from jobflow.core.planning.actions import Check, JobProbe

PATH_SHOWN = 60
"""Characters of a path in a message."""

PodStates = Mapping[str, frozenset[tuple[str, str, str, str, bool]]]
"""By task: name, UID, IP and phase of each pod, and whether it is being deleted. All changes of
pods that matter to a probe are in it."""


@dataclass(frozen=True, slots=True)
class PodCheck:
    pod: Pod
    check: Check

    @property
    def key(self) -> tuple[str, Check]:
        """Key of the check for any pod of this name."""
        return (self.pod.metadata.name, self.check)

    def sentence(self, answer: str) -> str:
        """Return the answer in a sentence: `10.0.0.7:80/x of pod f-web-0 answers 503`."""
        path = self.check.path or ""
        if len(path) > PATH_SHOWN:
            path = f"{path[:PATH_SHOWN]}…"
        address = f"{host(self.pod.status.pod_ip)}:{self.check.port}{path}"
        return f"{address} of pod {self.pod.metadata.name} {answer}"


def host(ip: str) -> str:
    """Return an IP as written before a port: IPv6 in brackets."""
    return f"[{ip}]" if ":" in ip else ip


def obstacle(probe: JobProbe, pods: Mapping[str, Pod], last_failure: str = "") -> str:
    """Return why no round can pass with these pods, in a sentence; "" if one can. `last_failure`
    is added if a pod has ended since, because it says more."""
    for _, name, pod in _expected_pods(probe, pods):
        if pod is None:
            return f"pod {name} does not exist yet"
        if pod.ended and last_failure:
            return f"{last_failure}; then pod {name} ended {pod.phase}"
        if pod.ended:
            return f"pod {name} has ended {pod.phase}, so it cannot answer"
        if pod.metadata.deletion_timestamp is not None:
            return f"pod {name} is being deleted"
        if pod.phase == PodPhase.PENDING:
            return f"pod {name} is Pending"
        if not pod.status.pod_ip:
            return f"pod {name} has no IP yet"
    return ""


def pod_checks(probe: JobProbe, pods: Mapping[str, Pod]) -> Sequence[PodCheck]:
    """Return the checks of all pods, without duplicates."""
    found = (PodCheck(pod, check) for check, _, pod in _expected_pods(probe, pods) if pod)
    return list({check.key: check for check in found}.values())


def pod_states(pods: Mapping[str, Pod]) -> PodStates:
    found: dict[str, set[tuple[str, str, str, str, bool]]] = {}
    for pod in pods.values():
        meta, status = pod.metadata, pod.status
        row = (meta.name, meta.uid, status.pod_ip, pod.phase, meta.deletion_timestamp is not None)
        found.setdefault(pod.task, set()).add(row)
    return {task: frozenset(rows) for task, rows in found.items()}


def _expected_pods(
    probe: JobProbe, pods: Mapping[str, Pod]
) -> Iterator[tuple[Check, str, Pod | None]]:
    """Yield each check with each pod that its task should have: the pod's name, and the pod if it
    exists and belongs to the job."""
    own = {(pod.task, pod.index): pod for pod in pods.values() if pod.owner == probe.uid}
    for check in probe.checks:
        for index in range(check.pods):
            pod = own.get((check.task, index))
            name = pod.metadata.name if pod else f"{probe.job}-{check.task}-{index}"
            yield check, name, pod


SECONDS = 1.0
"""Limit for a whole check, from the connection to the last byte of the answer's head."""
CHUNK = 16 << 10
LARGEST_HEAD = 64 << 10
"""Bytes before the body of an answer, interim answers included."""
LARGEST_REQUEST = 16 << 10
PASSING = range(200, 400)

SAFE = "/?:@!$&'()*+,;=-._~%[]"
"""Characters of a path and query that are sent unchanged: those of RFC 3986, and % because the path
may be percent-encoded already."""
CONNECTION_HEADERS = frozenset({"connection", "content-length", "transfer-encoding"})
"""Headers that a user may not set: they define where the request ends and what follows it."""
START = b"HTTP/"
TLS = (b"\x15\x03", b"\x16\x03")
"""First bytes of a TLS record with an alert or a handshake (RFC 8446, 5.1)."""

NOT_ASKED = "is not asked: a pod cannot have that IP"
REFUSED = "refuses the connection"
BROKEN_OFF = "breaks off the connection"
NO_CONNECTION = "accepts no connection within a second"
NO_ANSWER = "accepts the connection and answers nothing within a second"
SLOW = "does not finish the head of its answer within a second"
HUNG_UP = "closes the connection without an answer"
NOT_HTTP = "does not answer in HTTP"
IN_TLS = "answers in TLS instead of plain HTTP"
LONG_HEAD = f"answers with a head of more than {LARGEST_HEAD >> 10} KiB"
LONG_REQUEST = f"is not asked: path and header have more than {LARGEST_REQUEST >> 10} KiB"
BAD_REQUEST = "is not asked: a probe cannot send its header"


async def check_pod(pod: Pod, check: Check, *, loopback: bool = False) -> str:
    """Return "" if the pod passes, else what it did, such as `answers 503`. With `loopback`, pods
    may be processes of this machine."""
    ip = pod_address(pod.status.pod_ip, loopback=loopback)
    if not ip:
        return NOT_ASKED
    if check.path is None:
        return await _Check(ip, check.port).run()
    try:
        request = http_request(ip, check)
    except h11.LocalProtocolError:
        return BAD_REQUEST
    if len(request) > LARGEST_REQUEST:
        return LONG_REQUEST
    return await _Check(ip, check.port).run(request)


async def check_phase(pod: Pod, check: Check) -> str:
    """Return the answer of a pod that does nothing: it passes while it is Running."""
    return "" if pod.phase == PodPhase.RUNNING else f"does not answer while it is {pod.phase}"


def pod_address(ip: str, *, loopback: bool) -> str:
    """Return the IP in canonical form, "" if a pod cannot have it: the rule of Kubernetes for
    endpoints (ValidateNonSpecialIP) and for proxy requests of the API server."""
    try:
        address = ip_address(ip)
    except ValueError:
        return ""
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    if address.is_loopback and loopback:
        return str(address)
    special = (
        address.is_loopback
        or address.is_unspecified
        or address.is_link_local
        or address.is_multicast
    )
    return "" if special else str(address)


def http_request(ip: str, check: Check) -> bytes:
    """Return the bytes of the GET. Raises h11.LocalProtocolError if the header is malformed or
    changes the meaning of the bytes after it."""
    headers = {
        "host": ("Host", f"{host(ip)}:{check.port}".encode()),
        "user-agent": ("User-Agent", f"jobflow/{jobflow.__version__}".encode()),
        "accept": ("Accept", b"*/*"),
        "connection": ("Connection", b"close"),
    }
    if check.header is not None:
        name, value = check.header
        if name.lower() in CONNECTION_HEADERS:
            raise h11.LocalProtocolError(f"{name} cannot be set by a user")
        headers[name.lower()] = (name, value.strip(" \t").encode(errors="replace"))
    fields = [(name.encode(errors="replace"), value) for name, value in headers.values()]
    sender = h11.Connection(h11.CLIENT)
    path = (check.path or "").partition("#")[0]  # a fragment is not sent
    target = quote(path if path.startswith("/") else f"/{path}", safe=SAFE, errors="replace")
    head = sender.send(h11.Request(method="GET", target=target, headers=fields))
    end = sender.send(h11.EndOfMessage())
    return (head or b"") + (end or b"")


class _Check:
    def __init__(self, ip: str, port: int) -> None:
        self._ip = ip
        self._port = port
        self._timeout = NO_CONNECTION
        """The answer of `run` if time runs out now."""

    async def run(self, request: bytes | None = None) -> str:
        """Connect, send the request if there is one, and judge the answer: 2xx and 3xx pass."""
        try:
            async with asyncio.timeout(SECONDS):
                reader, writer = await asyncio.open_connection(self._ip, self._port, limit=CHUNK)
                try:
                    if request is None:
                        return ""
                    self._timeout = NO_ANSWER
                    writer.write(request)
                    return await self._answer(reader)
                finally:
                    writer.transport.abort()  # close would wait for a pod that does not read
        except TimeoutError:
            return self._timeout
        except OSError as error:
            match error.errno:
                case errno.ECONNREFUSED:
                    return REFUSED
                case errno.ECONNRESET | errno.EPIPE | errno.ECONNABORTED:
                    return BROKEN_OFF
                case None:
                    return "cannot be reached"
                case number:
                    return f"cannot be reached ({os.strerror(number)})"

    async def _answer(self, reader: asyncio.StreamReader) -> str:
        receiver = h11.Connection(h11.CLIENT, max_incomplete_event_size=LARGEST_HEAD)
        # h11 reads an answer only after a request; this one is not sent
        receiver.send(h11.Request(method="GET", target="/", headers=[("Host", "")]))
        receiver.send(h11.EndOfMessage())
        start, size = b"", 0
        while chunk := await reader.read(CHUNK):
            start, size = start or chunk[: len(START)], size + len(chunk)
            if start.startswith(TLS):
                return IN_TLS
            if not START.startswith(start):
                return NOT_HTTP
            self._timeout = SLOW
            try:
                receiver.receive_data(chunk)
                event = receiver.next_event()
                while isinstance(event, h11.InformationalResponse):
                    event = receiver.next_event()
            except h11.RemoteProtocolError as error:
                return LONG_HEAD if error.error_status_hint == 431 else NOT_HTTP
            if isinstance(event, h11.Response):
                code = event.status_code
                return "" if code in PASSING else f"answers {code}"
            if size > LARGEST_HEAD:
                return LONG_HEAD
        return HUNG_UP
