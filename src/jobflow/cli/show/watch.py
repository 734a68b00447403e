"""`jobflow get --watch`: flows as they change, until those that are named have ended."""

from collections.abc import Sequence
from functools import partial

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import FlowPhase
from jobflow.api.resources import JOBFLOWS
from jobflow.cli.flags import GetOptions
from jobflow.cli.show.get import checked, is_wanted, make_table, print_flows
from jobflow.client.errors import FAILED, INTERRUPTED, SUCCESS, CommandError, Errors
from jobflow.client.flows import follow
from jobflow.client.flows.children import read_children
from jobflow.client.flows.find_flow import connect, find_each, raise_unless_missing
from jobflow.client.options import Connection, Selection
from jobflow.client.signals import interruption, run_unless
from jobflow.display.console import columns_of, make_console
from jobflow.display.formats import GetOutput
from jobflow.display.live import LiveTable, LiveTrees, TableLog, tree_display
from jobflow.display.objects import full_name, print_raw
from jobflow.kube.cache import Key, key_of
from jobflow.kube.client import ApiError, Client

_OBJECTS = (GetOutput.JSON, GetOutput.YAML, GetOutput.NAME)


async def watch_flows(
    names: Sequence[str], connection: Connection, selection: Selection, options: GetOptions
) -> int:
    """Show the named flows until all have ended, or all flows until the command is interrupted."""
    names, options = checked(names, selection, options)
    async with await connect(connection) as client:
        watch = _Watch(client, selection, options)
        with interruption() as stop:
            if not names:
                query = [("labelSelector", selection.selector)] if selection.selector else []
                namespace = "" if selection.all_namespaces else client.namespace
                await run_unless(stop, watch.follow_all(follow.Scope(namespace, query)))
                return INTERRUPTED  # flows may always appear, so only Ctrl-C ends it
            errors = Errors()
            flows = await find_each(client, names, selection, errors)
            if errors.code:
                return errors.code
            done = await run_unless(stop, watch.follow_named(flows))
        if watch.is_live_tree:
            last = watch.seen or flows
            children = await read_children(client, last)
            print_flows(last, selection, options, children)
        return watch.code if done else INTERRUPTED


class _Watch:
    def __init__(self, client: Client, selection: Selection, options: GetOptions) -> None:
        self.seen: list[JobFlow] = []
        """The named flows as last seen."""
        self.code = SUCCESS
        """The exit code by the ends of the named flows."""
        self._client = client
        self._options = options
        self._changed: dict[Key, JobFlow] = {}
        """Flows to print as objects."""
        console = make_console()
        self._display = follow.Display()  # objects are printed as the API server has them
        if options.output is GetOutput.TREE:
            self._display = tree_display(console, items=options.items)
        elif options.output not in _OBJECTS:
            table = make_table(selection, options, columns_of(console))
            kind = LiveTable if console.is_terminal else TableLog
            self._display = kind(console, table, partial(is_wanted, options))
        self.is_live_tree = isinstance(self._display, LiveTrees)
        """Whether the display disappears at the end."""

    async def follow_all(self, scope: follow.Scope) -> None:
        async with follow.follow_scope(
            self._client, scope, self._show, self._display.remove
        ) as follower:
            with self._display:
                await self._until(follower, ends=False)

    async def follow_named(self, flows: Sequence[JobFlow]) -> None:
        # a watch of child flows costs requests, and a table has no lines for them
        shown = flows if self._display.shows_children else ()
        async with (
            follow.following_children(self._client, shown, self._display.show_child),
            follow.following(self._client, flows, self._show) as follower,
        ):
            try:
                with self._display:
                    await self._until(follower, ends=True)
            finally:  # also after Ctrl-C, so that the last trees can be printed
                self.seen = list(follower.flows.values())
        errors = Errors()
        for flow in self.seen:
            if not flow.final:  # the wait ends for it only if it is gone
                deleted = f"JobFlow {flow.metadata.name} was deleted before it had finished"
                errors.add(CommandError(FAILED, deleted))
            elif flow.status.state.phase == FlowPhase.FAILED:
                errors.add_code(FAILED)
        self.code = errors.code

    def _show(self, flow: JobFlow) -> None:
        if self._options.output in _OBJECTS:
            if is_wanted(self._options, flow):
                self._changed[key_of(flow)] = flow
        else:
            self._display.show(flow)

    async def _until(self, follower: follow.FlowFollower, *, ends: bool) -> None:
        """Print objects as they change, until all flows are final if there is an end."""
        is_done = False
        while not is_done:
            await follower.until(lambda each: bool(self._changed) or (ends and each.all_final))
            # several versions that come at once are printed as one
            changed, self._changed = self._changed, {}
            for key, flow in changed.items():
                if self._options.output is GetOutput.NAME:
                    print(full_name(flow), flush=True)
                    continue
                try:
                    # a watch decodes, and drops the fields that this version does not know
                    raw = await self._client.request("GET", JOBFLOWS.path(*key))
                except ApiError as error:
                    if error.not_found:  # deleted since
                        continue
                    raise_unless_missing(error)
                if self._options.output is GetOutput.YAML:
                    print("---")
                print_raw([raw], self._options.output, single=True)
            is_done = ends and follower.all_final and not self._changed
