"""Names of objects, steps and tasks for a shell to complete, read from the cluster if it answers
soon."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from functools import partial
from typing import Any

import typer
from typer._click.shell_completion import CompletionItem, ShellComplete
from typer._completion_classes import BashComplete, FishComplete, ZshComplete

from jobflow.api.flow.cronjobflow import CronJobFlow
from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.resources import CRONJOBFLOWS, JOBFLOWS, NAMESPACES, PODS
from jobflow.api.volcano.pod import Pod
from jobflow.client.conditions import condition_of
from jobflow.client.errors import CommandError
from jobflow.client.flows.children import find_below
from jobflow.client.flows.find_cron import CRON_PREFIXES
from jobflow.client.flows.find_flow import PREFIXES, connect, find_flow, first_names, first_page
from jobflow.client.options import Connection
from jobflow.kube.client import NETWORK_ERRORS, ApiError, Client
from jobflow.kube.credentials import ConfigError
from jobflow.runtime.event_loop import run

WITHIN_SECONDS = 2.0
Params = Mapping[str, Any]
"""Parameters of a command so far, by name."""


def complete_flow(context: typer.Context, param: Any, incomplete: str) -> list[str]:
    """Return the names of the flows on which the command can act, and that are not given yet; after
    `cjf/`, those of CronJobFlows."""
    verb, params = context.info_name or "", context.params

    async def read(client: Client) -> Sequence[str]:
        if verb in _TAKE_ALL:
            return await first_names(client, JOBFLOWS)
        from jobflow.client.verbs.can_act import CAN_ACT

        flows = await first_page(client, JOBFLOWS, JobFlow)
        can_act = CAN_ACT.get(verb)
        return [each.metadata.name for each in flows if can_act is None or can_act(each, params)]

    # `delete a a` would be a mistake
    given = params.get("flows") or ()
    prefix, slash, _ = incomplete.rpartition("/")
    if slash and prefix in CRON_PREFIXES and verb in _TAKE_CRONS:
        found = complete_cron(context, param, incomplete)
    else:
        found = _with_prefix(PREFIXES, incomplete, read, params)
    return [name for name in found if name not in given and name.rpartition("/")[2] not in given]


def complete_cron(context: typer.Context, param: Any, incomplete: str) -> list[str]:
    """Return the names of the CronJobFlows on which the command can act."""
    wanted = {"suspend": False, "resume": True}.get(context.info_name or "")

    async def read(client: Client) -> Sequence[str]:
        crons = await first_page(client, CRONJOBFLOWS, CronJobFlow)
        return [each.metadata.name for each in crons if wanted in (None, each.suspended)]

    return _with_prefix(CRON_PREFIXES, incomplete, read, context.params)


def complete_step(context: typer.Context, param: Any, incomplete: str) -> list[str]:
    """Return the steps of the flow that is given, and after a slash the items of one, or the steps
    of its child flow: `samples/3/qc`. An answer is for those that wait for approval."""
    params, is_answer = context.params, context.info_name in ("approve", "reject")
    takes_paths = param.metavar != "STEP"

    async def read(client: Client) -> Sequence[str]:
        flow = await find_flow(client, _flow_in(params))
        if is_answer:
            from jobflow.client.verbs.can_act import find_asking

            return [*find_asking(flow)]
        if not takes_paths:
            return [step.name for step in flow.all_steps]
        # one more character, because a step of a child flow may be wanted that is still empty
        flow, _, place = await find_below(client, flow, f"{incomplete}?")
        name, slash, _ = (place or "").partition("/")
        above = incomplete.removesuffix((place or "").removesuffix("?"))
        if slash:
            runs = condition_of(flow, name).runs or ()
            return [f"{above}{name}/{each.index}" for each in runs]
        return [f"{above}{step.name}" for step in flow.all_steps]

    return [place for place in _answer(read, params) if place.startswith(incomplete)]


def complete_namespace(context: typer.Context, param: Any, incomplete: str) -> list[str]:
    names = _answer(partial(first_names, resource=NAMESPACES), context.params)
    return [name for name in names if name.startswith(incomplete)]


def complete_task(context: typer.Context, param: Any, incomplete: str) -> list[str]:
    """Return the tasks whose pods still exist, of the flow or of its step."""
    from jobflow.client.logs.selection import LogSelection, pods_queries

    params = context.params

    async def read(client: Client) -> Sequence[str]:
        flow = await find_flow(client, _flow_in(params))
        step = (params.get("step") or "").partition("/")[0] or None
        queries = pods_queries(flow, LogSelection(step=step))
        pages = [await first_page(client, PODS, Pod, query=each) for each in queries]
        return sorted({pod.task for page in pages for pod in page} - {""})

    return [name for name in _answer(read, params) if name.startswith(incomplete)]


COMPLETERS = {
    "FLOW": complete_flow,
    "STEP": complete_step,
    "STEP[/INDEX]": complete_step,
    "CJF": complete_cron,
    "NS": complete_namespace,
    "TASK": complete_task,
}
"""By the word in the usage of a command."""
_TAKE_CRONS = frozenset({"get", "why", "suspend", "resume", "delete", "skip"})
_TAKE_ALL = frozenset({"get", "why", "logs", "outputs", "timeline"})
"""Commands that can act on every flow, whose names are read without anything else of them."""


def _flow_in(params: Params) -> str:
    """Return the flow whose steps are meant."""
    several = params.get("flows") or ()
    return str(params.get("flow") or (several[0] if several else params.get("reuse") or ""))


class _Bash(BashComplete):
    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the words before the one that is completed, and that one. Bash splits words at
        each `=`, and replaces only the part after it."""
        words: list[str] = []
        before, last = super().get_completion_args()
        for word in (*before, last):
            if words and (word == "=" or words[-1].endswith("=")):
                words[-1] += word
            else:
                words.append(word)
        return words[:-1], words[-1]


class _WithFlag(ShellComplete):
    """A shell that replaces the whole word `--flag=value`."""

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem]:
        found = super().get_completions(args, incomplete)
        flag, equals, _ = incomplete.partition("=")
        if equals and flag.startswith("-"):
            for each in found:
                each.value = f"{flag}={each.value}"
        return found


class _Zsh(_WithFlag, ZshComplete):
    pass


class _Fish(_WithFlag, FishComplete):
    pass


SHELLS = {"bash": _Bash, "zsh": _Zsh, "fish": _Fish}
"""By the name that the script of `jobflow completion` has."""


def _with_prefix(
    prefixes: Iterable[str],
    incomplete: str,
    read: Callable[[Client], Awaitable[Sequence[str]]],
    params: Params,
) -> list[str]:
    """Return the names that start like this, with the prefix of the kind if it is written."""
    prefix, slash, start = incomplete.rpartition("/")
    if slash and prefix not in prefixes:
        return []
    return [prefix + slash + name for name in _answer(read, params) if name.startswith(start)]


def _answer(read: Callable[[Client], Awaitable[Sequence[str]]], params: Params) -> Sequence[str]:
    """Return no names if they cannot be read: the user is typing, and cannot be told why."""

    async def answer() -> Sequence[str]:
        connection = Connection(**{each.name: params.get(each.name) for each in fields(Connection)})
        async with await connect(connection) as client, asyncio.timeout(WITHIN_SECONDS):
            return await read(client)

    logging.getLogger().setLevel(logging.CRITICAL)  # the line that is typed stays whole
    try:
        return run(answer(), is_brief=True)
    except (ApiError, CommandError, ConfigError, *NETWORK_ERRORS):
        return []
