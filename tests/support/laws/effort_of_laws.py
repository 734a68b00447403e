"""The number of examples of a law: `make test-long` tries twenty times as many as `make test`.

The examples are the same in every run, so that a failure is caused by the change under test; with
the environment variable JOBFLOW_LAWS=exploring they differ. An example has no time limit.
"""

import os

from hypothesis import HealthCheck, settings

USUAL = 50
LONG = 20


def _profile(name: str, times: int, *, same: bool) -> None:
    settings.register_profile(
        name,
        max_examples=USUAL * times,
        derandomize=same,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )


_profile("reproducible", 1, same=True)
_profile("long", LONG, same=True)
_profile("exploring", LONG, same=False)
settings.load_profile(os.environ.get("JOBFLOW_LAWS", "reproducible"))


THOROUGH = settings().max_examples > USUAL
"""Whether this run may take long."""


def tries(count: int) -> settings:
    """Return the settings of a law with this number of examples in `make test`."""
    usual = settings().max_examples
    return settings(max_examples=count * usual // USUAL)
