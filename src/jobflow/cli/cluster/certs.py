"""`jobflow certs`: a development CA and certificate in a folder. How is webhook.certificates'."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from jobflow.cli.exit_codes import FINE, UNUSABLE, complain
from jobflow.webhook.certificates import CertificateError, write_development_pki

LOCAL = ("localhost", "127.0.0.1", "::1")


def certs(directory: Path, hosts: Sequence[str]) -> int:
    """Write the files and print their names: 0, or 2 where they cannot be written."""
    try:
        written = write_development_pki(directory, [*LOCAL, *hosts])
    except CertificateError as error:
        complain("certs", str(error))
        return UNUSABLE
    except OSError as error:
        complain("certs", f"{error.filename or directory}: {error.strerror}")
        return UNUSABLE
    serving = written.serving
    for path in (written.ca_certificate, written.ca_key, serving.certificate, serving.key):
        print(path)
    return FINE
