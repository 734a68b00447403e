"""The webhook's serving certificate.

`pki` makes certificates; `ring` decides, without I/O, how the replicas' Secret changes; `live`
presents a certificate; `files` and `shared` keep it up to date.
"""
