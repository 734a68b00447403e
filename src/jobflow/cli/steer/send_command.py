"""Commands about flows, and the wait until the controller has done what they ask for."""

import asyncio
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from jobflow.api.flow.jobflow import JobFlow
from jobflow.cli.flags import ClusterOptions, RetryOptions
from jobflow.client.errors import FAILED, INTERRUPTED, SUCCESS, CommandError, Errors, print_error
from jobflow.client.flows.find_flow import connect, find_each, find_flow, state_of
from jobflow.client.options import Connection, Selection
from jobflow.client.signals import interruption, run_unless
from jobflow.client.verbs.command import Verb, refuse, send_verb
from jobflow.display.formats import print_json
from jobflow.kube.cache import Key, key_of
from jobflow.kube.client import Client

PATIENCE_SECONDS = 10.0
"""Time to wait for a controller before the warning that there may be none."""


async def send_and_wait(
    verb: Verb,
    names: Sequence[str],
    selection: Selection,
    options: ClusterOptions,
    *,
    wait: bool = False,
    retry: RetryOptions | None = None,
) -> int:
    """Send the Command to each flow, wait if asked to, and return the worst exit code. With
    `retry`, what would run again is printed instead, or shown before a question. Raises
    CommandError if no flow can be found at all."""
    errors = Errors()
    async with await connect(options) as client:
        step_verb = verb.name if verb.takes_steps else ""
        flows = await find_each(client, names, selection, errors, step_verb=step_verb)
        single = len(names) == 1
        # without a terminal nobody could answer, and scripts must not hang
        if retry is not None and (retry.dry_run or (not retry.yes and sys.stdin.isatty())):
            from jobflow.cli.steer import retry_preview

            possible = [flow for flow in flows if not refuse(flow, verb)]
            found = await retry_preview.make_previews(client, possible, retry)
            if retry.dry_run:
                for why in filter(None, (refuse(flow, verb) for flow in flows)):
                    errors.add(CommandError(FAILED, why))
                retry_preview.print_previews(found, options, single=single)
                return errors.code
            if (code := await retry_preview.ask(found)) != SUCCESS:
                return code
        sent: list[tuple[JobFlow, str]] = []
        for flow in flows:
            try:
                sent.append((flow, await send_verb(client, flow, verb)))
            except CommandError as error:
                errors.add(error)
                continue
            if not options.as_json:
                # requested, not done: the controller handles it later
                requested = f"{verb.name} requested (Command {sent[-1][1]})"
                print(f"JobFlow {flow.metadata.name}: {requested}", flush=True)
        if wait and sent:
            quiet = options.as_json
            waits = {key_of(flow): GoalWait(flow, verb, quiet=quiet) for flow, _ in sent}
            with interruption() as stop:
                if not await run_unless(stop, _until_ended(client, waits)):
                    return INTERRUPTED
            commands = [command for _, command in sent]
            sent = []
            for each, command in zip(waits.values(), commands, strict=True):
                if each.failure:
                    errors.add(CommandError(FAILED, each.failure))
                else:
                    errors.add_code(verb.exit_code(each.flow))
                    sent.append((each.flow, command))
    if options.as_json and (sent or not single):
        summaries = [summarize(flow, command) for flow, command in sent]
        print_json(summaries[0] if single else summaries)
    return errors.code


def summarize(flow: JobFlow, command: str) -> dict[str, str]:
    meta, status = flow.metadata, flow.status
    return {
        "namespace": meta.namespace,
        "name": meta.name,
        "command": command,
        "phase": status.state.phase,
        "reason": status.state.reason,
        "message": status.state.message,
        "progress": status.progress,
    }


async def send_answer(
    name: str,
    connection: Connection,
    verb: Verb,
    place: str,
    *,
    comment: str,
    outputs: Sequence[str] = (),
    as_json: bool,
) -> int:
    """Send the answer to STEP or STEP/INDEX of the flow."""
    # it imports a reader of YAML, for values of outputs
    from jobflow.client.verbs.answer import create_answer, outputs_annotation

    annotations = outputs_annotation(outputs)  # a wrong value is named without a cluster
    async with await connect(connection) as client:
        flow = await find_flow(client, name)
        command = await create_answer(
            client, flow, verb, place, comment=comment, annotations=annotations
        )
    if as_json:
        print_json({**summarize(flow, command), "step": place})
    else:
        requested = f"{verb.name} of {place} requested (Command {command})"
        print(f"JobFlow {flow.metadata.name}: {requested}", flush=True)
    return SUCCESS


class GoalWait:
    """The wait for one flow. It prints a line for each change after the Command is handled."""

    def __init__(self, flow: JobFlow, verb: Verb, *, quiet: bool) -> None:
        self.flow = flow
        """The flow as last seen."""
        self.children: dict[str, JobFlow] = {}
        """The child flows below flows of its namespace, by name."""
        self.handled = verb.handled(flow, flow)
        self.is_deleted = False
        self._first = flow
        self._verb = verb
        self._quiet = quiet
        self._last_line = ""

    def see(self, flow: JobFlow) -> None:
        if flow is self._first:  # what was read before the Command was sent
            return
        self.flow = flow
        self.handled = self.handled or self._verb.handled(self._first, flow)
        line = f"JobFlow {flow.metadata.name}: {state_of(flow)}"
        if self.handled and not self._quiet and line != self._last_line:
            print(line, flush=True)
            self._last_line = line

    @property
    def is_reached(self) -> bool:
        return self.handled and self._verb.reached(self.flow, self.children)

    @property
    def failure(self) -> str:
        """Why the goal cannot be reached, or ""."""
        if self.is_reached:
            return ""
        name = self.flow.metadata.name
        if self.is_deleted:
            return f"JobFlow {name} was deleted in the meantime"
        # it ended between the read and the Command
        if not self.handled and self._verb.is_lost(self.flow):
            return f"JobFlow {name} finished first: {state_of(self.flow)}"
        return ""


async def _until_ended(client: Client, waits: Mapping[Key, GoalWait]) -> None:
    """Return once each flow has reached the goal or can no longer reach it."""
    # only who waits needs watches
    from jobflow.client.flows.follow import following, following_children

    flows = [wait.flow for wait in waits.values()]

    def see(flow: JobFlow) -> None:
        waits[key_of(flow)].see(flow)

    def note_deletion(flow: JobFlow) -> None:
        waits[key_of(flow)].is_deleted = True

    with reminder("the Command", lambda: all(wait.handled for wait in waits.values())):
        async with following(client, flows, see, note_deletion) as follower:

            def see_child(child: JobFlow) -> None:
                for wait in waits.values():
                    if wait.flow.metadata.namespace == child.metadata.namespace:
                        wait.children[child.metadata.name] = child
                follower.changed.notify()  # it saw no change of the flows themselves

            async with following_children(client, flows, see_child):
                await follower.until(
                    lambda _: all(each.is_reached or each.failure for each in waits.values())
                )


@contextmanager
def reminder(what: str, is_handled: Callable[[], bool]) -> Iterator[None]:
    """Print a warning if nothing has been handled after some seconds of the body."""

    def remind() -> None:
        if not is_handled():
            sentence = f"no controller has handled {what} yet; is `jobflow serve` running?"
            print_error(sentence, severity="warning")

    timer = asyncio.get_running_loop().call_later(PATIENCE_SECONDS, remind)
    try:
        yield
    finally:
        timer.cancel()
