"""How often a law is tried: in `make test` a little, in `make test-long` twenty times as often.

The examples are the same in every run, so that a run says something about the change it is run
for. JOBFLOW_LAWS=exploring looks for others. No law of these is judged by the time that it takes.
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
"""Whether this is a run that may take long."""


def tries(count: int) -> settings:
    """For a law that needs more or fewer examples than others; the count is that of `make test`."""
    usual = settings().max_examples
    return settings(max_examples=count * usual // USUAL)
