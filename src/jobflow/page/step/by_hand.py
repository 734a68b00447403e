"""The buttons for one step: to skip it, give it up, run it again, or set how many items run."""

from collections.abc import Iterator
from functools import partial
from typing import Any

from jobflow.core.names import stored_condition
from jobflow.core.planning.flow import by_hand
from jobflow.core.spec.step_commands import StepCommand, find_place
from jobflow.page.action_forms import ACTIONS, BY_HAND_VERBS
from jobflow.page.flow_view import SelectedStep
from jobflow.page.web.fragments import Fragment


def steer(selected: SelectedStep) -> Fragment | None:
    """Return the buttons that make sense for the step as it is now; None if none does."""
    # such Commands name the path from the outermost flow
    outermost, path = selected.view.page.flow.outermost()
    buttons = [*_buttons(selected, outermost)] if outermost else []
    shown = {"step": f"{path}{selected.choice}", "buttons": buttons}
    return Fragment("step-by-hand", "step-by-hand.html", shown) if buttons else None


def _buttons(selected: SelectedStep, outermost: str) -> Iterator[dict[str, Any]]:
    flow, path = selected.flow, str(selected.choice)
    for name, verb in BY_HAND_VERBS.items():
        kind = verb.verb.action
        place = find_place(flow, path, kind)
        if isinstance(place, str) or place.below or by_hand.refuse_flow(flow, kind):
            continue
        find = partial(stored_condition, flow)
        refuse = partial(by_hand.refuse, flow, StepCommand(kind, (path,), ""), place, find)
        if not refuse():
            action = ACTIONS[name]
            yield {
                "name": name,
                "label": action.label,
                "command": action.command(flow.metadata.namespace, outermost),
                "refusal": refuse(ends=by_hand.why_it_ends(flow)),
            }
