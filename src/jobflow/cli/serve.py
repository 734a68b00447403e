"""`jobflow serve`: settings in, exit code out. What is served is jobflow.serve's business."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from jobflow import logs
from jobflow.cli.complaint import complain
from jobflow.cli.outcome import FAULTY, FINE, UNUSABLE
from jobflow.serve import START_ERRORS, PartDied, run
from jobflow.serve import serve as serve_cluster
from jobflow.settings import Settings, problems


def serve(flags: Mapping[str, Any]) -> int:
    """Serve until told to stop: 0; 1 where a part died, 2 where it could not begin."""
    try:
        settings = Settings(**flags)
    except ValidationError as error:
        complain("serve", *problems(error))
        return UNUSABLE
    logs.configure()
    try:
        run(serve_cluster(settings))
    except START_ERRORS as error:
        complain("serve", str(error))
        return UNUSABLE
    except PartDied as error:
        complain("serve", str(error))
        return FAULTY
    return FINE
