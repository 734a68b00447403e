"""The webhook's serving certificate.

`pki` makes certificates; `ring` and `trust` decide, without I/O, how the replicas' Secret and the
caBundles change; `live` presents a certificate; `files` and `shared` keep it up to date.
"""
