"""`jobflow crds`: the CustomResourceDefinitions on standard output. They are written in api.crd."""

from __future__ import annotations

import sys

from jobflow.api.crd import crd, to_yaml
from jobflow.api.resources import JOBFLOWS, JOBTEMPLATES
from jobflow.cli.outcome import FINE


def crds() -> int:
    """Print both, as two documents."""
    sys.stdout.write("---\n".join(to_yaml(crd(each.kind)) for each in (JOBFLOWS, JOBTEMPLATES)))
    return FINE
