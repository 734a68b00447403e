"""Network errors in words, without the representation of a library's objects."""

import ssl

import aiohttp
import pytest
from aiohttp.client_reqrep import ConnectionKey

from jobflow.kube.answers import describe_network_error
from jobflow.kube.pooled_connections import network_error

KEY = ConnectionKey("10.0.0.1", 6443, True, ssl.create_default_context(), None, None, None)


def untrusted() -> ssl.SSLCertVerificationError:
    error = ssl.SSLCertVerificationError("certificate verify failed")
    error.verify_message = "self-signed certificate"
    return error


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (
            aiohttp.ClientConnectorError(KEY, ConnectionRefusedError(111, "Connect call failed")),
            "10.0.0.1:6443: the connection was refused",
        ),
        (
            aiohttp.ClientConnectorError(KEY, OSError(113, "No route to host")),
            "10.0.0.1:6443: No route to host",
        ),
        (
            aiohttp.ClientConnectorCertificateError(KEY, untrusted()),
            "10.0.0.1:6443: its certificate is not trusted (self-signed certificate)",
        ),
        (aiohttp.ServerDisconnectedError(), "Server disconnected"),
        (TimeoutError(), "it took too long"),
        (aiohttp.ServerTimeoutError("Timeout on reading"), "it took too long"),
    ],
)
def test_an_error_is_described_in_words(error: Exception, words: str) -> None:
    ours = network_error(error) if isinstance(error, aiohttp.ClientError) else error
    assert describe_network_error(ours) == words
