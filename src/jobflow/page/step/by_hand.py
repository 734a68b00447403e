"""The buttons for one step: to skip it, give it up, run it again, or set how many items run."""

from collections.abc import Iterator
from functools import partial
from typing import Any

from jobflow.api.volcano.command import Action
from jobflow.core.names import root_of, stored_condition
from jobflow.core.planning.flow import by_hand
from jobflow.core.spec.items import get_parallelism
from jobflow.core.spec.step_commands import StepCommand, find_place
from jobflow.core.text import format_command, format_duration, join_names
from jobflow.core.timelines.runs_again import list_runs_again
from jobflow.page.action_forms import ACTIONS, BY_HAND_VERBS
from jobflow.page.flow_view import SelectedStep
from jobflow.page.web.fragments import Fragment


def steer(selected: SelectedStep) -> Fragment | None:
    """Return the buttons that make sense now; None if none does."""
    buttons = [*_buttons(selected)]
    child = ""
    if selected.flow.is_child:
        place = f" PATH/{selected.choice}"
        child = format_command("jobflow skip", root_of(selected.flow), place)
    if not buttons:
        return None
    shown = {"step": str(selected.choice), "buttons": buttons, "child": child}
    return Fragment("step-by-hand", "step-by-hand.html", shown)


def _buttons(selected: SelectedStep) -> Iterator[dict[str, Any]]:
    flow, path = selected.flow, str(selected.choice)
    ends = by_hand.why_it_ends(flow)
    for name, verb in BY_HAND_VERBS.items():
        action = verb.verb.action
        said = StepCommand(action, (path,), "")
        place = find_place(flow, path, action)
        if isinstance(place, str) or place.below:
            continue
        find = partial(stored_condition, flow)
        if by_hand.refuse_flow(flow, action) or by_hand.refuse(flow, said, place, find, ends=ends):
            continue
        label, effect = ACTIONS[name].label, _effect(selected, action)
        yield {"name": name, "label": label, "effect": effect}


def _effect(selected: SelectedStep, action: str) -> str:
    match action:
        case Action.SKIP_STEP:
            return (
                "If its job runs, it is ended first. What depends on the step goes on as if it had "
                "completed."
            )
        case Action.CANCEL_STEP:
            return "Its job is ended, and the step fails without another attempt."
        case Action.RETRY_STEPS:
            flow, now, path = selected.flow, selected.view.now, str(selected.choice)
            again = list_runs_again(flow, {}, now, paths=[path])
            lost = ((each.place, format_duration(each.lost) if each.lost else "") for each in again)
            names = (
                f"{each} (its completed jobs ran for {ran})" if ran else each for each, ran in lost
            )
            return f"These run again: {join_names(names)}."
    most = get_parallelism(selected.flow, selected.step)
    now_most = "any number" if most is None else most
    return f"At present, {now_most} of its items may run at once."
