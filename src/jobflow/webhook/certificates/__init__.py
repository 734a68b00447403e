"""The webhook's certificate: made, read, shared, trusted by the API server, and swapped in use.

`pki` makes, `ring` decides what comes next, `trust` reckons caBundles: pure. `live` is what the
server presents; `files` and `shared` keep it fresh.
"""

from jobflow.webhook.certificates.files import (
    CertificateFiles,
    PkiFiles,
    WatchedClientCA,
    WatchedFiles,
    write_development_pki,
)
from jobflow.webhook.certificates.live import CertificateSource, Live
from jobflow.webhook.certificates.pki import CertificateError, Pki, make_pki
from jobflow.webhook.certificates.ring import Policy
from jobflow.webhook.certificates.shared import SharedCertificate

__all__ = [
    "CertificateError",
    "CertificateFiles",
    "CertificateSource",
    "Live",
    "Pki",
    "PkiFiles",
    "Policy",
    "SharedCertificate",
    "WatchedClientCA",
    "WatchedFiles",
    "make_pki",
    "write_development_pki",
]
