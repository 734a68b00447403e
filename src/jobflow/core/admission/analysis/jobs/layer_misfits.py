"""Fields and values of layers that no vcjob has."""

from collections.abc import Iterable

from jobflow.core.admission.analysis.jobs.resolved_specs import ResolvedLayer, is_open
from jobflow.core.manifests.job_fields import misfits
from jobflow.core.manifests.layers import Rank
from jobflow.core.violations import MAX_FINDINGS, Verdict


def misfits_of_layers(layers: Iterable[ResolvedLayer]) -> list[tuple[ResolvedLayer, Verdict]]:
    """Return the misfits of each layer, until there are about MAX_FINDINGS."""
    found: list[tuple[ResolvedLayer, Verdict]] = []
    wrong = unknown = 0
    for layer in layers:
        of_layer = misfits(
            layer.content,
            layer.path,
            is_open=is_open,
            has_directives=layer.layer.rank >= Rank.PATCH,
            unknown_before=unknown,
        )
        found.append((layer, of_layer))
        wrong += len(of_layer.violations)
        unknown += len(of_layer.field_warnings)
        if wrong >= MAX_FINDINGS:
            break
    return found
