"""`jobflow certs`: writes a development CA and a serving certificate."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from jobflow.cli.errors import SUCCESS, UNUSABLE, exit_on
from jobflow.webhook.certificates.files import write_development_pki
from jobflow.webhook.certificates.pki import CertificateError

_LOCALHOST = ("localhost", "127.0.0.1", "::1")


def write_certs(directory: Path, hosts: Sequence[str]) -> int:
    """Write the files, print their names and return the exit code."""
    with exit_on(UNUSABLE, CertificateError, OSError, file=directory):
        written = write_development_pki(directory, [*_LOCALHOST, *hosts])
    serving = written.serving
    for path in (written.ca_certificate, written.ca_key, serving.certificate, serving.key):
        print(path)
    return SUCCESS
