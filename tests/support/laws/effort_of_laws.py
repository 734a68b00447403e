"""The number of examples of a law: `make test-long` tries two hundred times as many as
`make test`.

JOBFLOW_LAWS=sampled tries a quarter of these, for CI. The examples are the same in every run, so
that a failure is caused by the change under test; with JOBFLOW_LAWS=exploring they differ. An
example has no time limit. A failing example is printed as drawn in CI, because a search for a
smaller one takes minutes; `make test` and `make test-long` search.
"""

import os

from hypothesis import HealthCheck, Phase, settings

USUAL = 50
QUICK = USUAL // 10
SAMPLED = USUAL * 5
LONG = USUAL * 20


def _profile(name: str, examples: int, *, same: bool) -> None:
    settings.register_profile(
        name,
        max_examples=examples,
        derandomize=same,
        deadline=None,
        phases=[p for p in Phase if not (name == "sampled" and p in (Phase.shrink, Phase.explain))],
        suppress_health_check=[HealthCheck.too_slow],
    )


_profile("reproducible", QUICK, same=True)
_profile("sampled", SAMPLED, same=True)
_profile("long", LONG, same=True)
_profile("exploring", LONG, same=False)
settings.load_profile(os.environ.get("JOBFLOW_LAWS", "reproducible"))


THOROUGH = settings().max_examples > USUAL
"""Whether this run may take long."""


IS_SAMPLED = settings().max_examples == SAMPLED
"""Whether this is the run of CI."""


STRIDE = LONG // settings().max_examples
"""Distance between two cases that this run tries of a list which a long run tries whole: 4 in a
sampled run, 200 in `make test`, which limits it where that leaves too few."""


def tries(count: int) -> settings:
    """Return the settings of a law with this number of examples where others have USUAL; in
    `make test`, a tenth of them."""
    return settings(max_examples=max(1, count * settings().max_examples // USUAL))
