"""The webhook's serving certificate.

`pki` makes certificates; `ring` and `trust` decide, without I/O, how the replicas' Secret and the
caBundles change; `live` presents a certificate; `files` and `shared` keep it up to date.
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
