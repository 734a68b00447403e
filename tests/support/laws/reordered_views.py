"""The same world with what a plan sees in another order, for laws that say that it does not matter.

It asserts nothing.
"""

from dataclasses import replace
from random import Random
from typing import Any

import msgspec

from support.plan.plan_world import World


def seen_in_another_order(world: World, random: Random, fields: tuple[str, ...]) -> World:
    """With the entries of these mappings of the world in another order."""
    for field in fields:
        if items := getattr(world, field):
            shuffled: Any = dict(random.sample(sorted(items.items()), len(items)))
            world = replace(world, **{field: shuffled})
    return world


def steps_in_another_order(world: World, random: Random) -> World:
    """With the steps of the flow in another order."""
    steps = random.sample(world.flow.steps, len(world.flow.steps))
    spec = msgspec.structs.replace(world.flow.spec, flows=steps)
    return replace(world, flow=msgspec.structs.replace(world.flow, spec=spec))
