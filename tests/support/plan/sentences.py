"""The sentences of `jobflow why` about a flow of a World."""

from jobflow.core.explain.explain import explain, explain_step
from support.plan.plan_world import World


def why(world: World, step: str | None = None) -> list[str]:
    """Return the sentences."""
    if step is None:
        return list(explain(world.flow, now=world.now).sentences)
    return list(explain_step(world.flow, step, now=world.now).sentences)
