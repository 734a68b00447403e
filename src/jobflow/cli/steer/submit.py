"""`jobflow submit` and `resubmit`: check flows, create and follow them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jobflow.cli.flags import DryRun, FollowOptions, ParamOptions
from jobflow.cli.steer.until_end import View, until_end
from jobflow.client.errors import FAILED, SUCCESS, UNUSABLE, CommandError, print_error
from jobflow.client.flows.find_flow import connect, find_flow, read_flow, to_flow
from jobflow.client.manifests.check import Report, check_loaded, load_files
from jobflow.client.manifests.flag_values import ReuseChoice, only_flow, read_params, set_reuse
from jobflow.client.manifests.objects import Manifest, Manifests
from jobflow.client.manifests.sources import UNREADABLE, ManifestFault
from jobflow.client.options import Connection, FileOptions
from jobflow.client.verbs.copy import check_copy, send_checked
from jobflow.client.verbs.reuse import choice_of, free_name, preview_reuse
from jobflow.client.verbs.send_manifests import Applied, Sent, body_of, send
from jobflow.core.text import printable
from jobflow.core.violations import Reason, Violation
from jobflow.display.console import make_console
from jobflow.display.formats import ObjectOutput
from jobflow.display.objects import name_of, object_of, print_objects
from jobflow.display.report import print_fault, print_report, print_warnings, print_without_file
from jobflow.kube.client import Client

if TYPE_CHECKING:
    from jobflow.core.planning.virtual_time.reuse import ReusePreview


@dataclass(frozen=True, slots=True)
class SubmitOptions:
    """Flags of `jobflow submit` and `resubmit` beside FILEs and those of a connection."""

    follow: FollowOptions
    name: str | None = None
    dry_run: DryRun | None = None
    templates: bool = False
    """Whether only the JobTemplates are sent."""
    reuse: str | None = None
    """The name of the flow whose results are reused."""
    rerun: Sequence[str] = ()
    """The steps that run nevertheless."""

    @property
    def view(self) -> View | None:
        """The display until the flows end; None: do not wait for that."""
        if self.follow.watch or self.follow.log:
            return View.TREES if self.follow.watch else View.LOGS
        if self.follow.wait:
            # who reads -o gets objects and no lines between them
            return View.PROGRESS if self.follow.output is None else View.NOTHING
        return None

    def check(self) -> None:
        """Raise CommandError if flags contradict each other."""
        follow = self.follow
        given = {"--wait": follow.wait, "--watch": follow.watch, "--log": follow.log}
        follows = [flag for flag, is_given in given.items() if is_given]
        if self.rerun and self.reuse is None:
            sentence = "--rerun needs --reuse: without it, every step runs"
            raise CommandError(UNUSABLE, sentence)
        if self.reuse is not None and self.name == self.reuse.rpartition("/")[2]:
            way = "leave out --name, and the new flow gets a name that is free"
            raise CommandError(UNUSABLE, f"--name {self.name}: a flow cannot reuse itself: {way}")
        for flag, value in (("--reuse", self.reuse), ("--name", self.name)):
            if self.templates and value is not None:
                follows.insert(0, flag)
        if follows and (self.templates or self.dry_run):
            flag = "--templates" if self.templates else "--dry-run"
            sentence = f"{flag} excludes {follows[0]}, because no flow is created"
            raise CommandError(UNUSABLE, sentence)
        # both need the whole terminal
        if follow.watch and follow.log:
            raise CommandError(UNUSABLE, "--watch excludes --log: choose one")
        if follow.output and (follow.watch or follow.log):
            raise CommandError(UNUSABLE, f"-o excludes {follows[-1]}: use --wait")


async def submit_files(files: FileOptions, connection: Connection, options: SubmitOptions) -> int:
    options.check()
    async with await connect(connection) as client:
        loaded = load_files(files, namespace=client.namespace, name=options.name)
        reuse = await _let_reuse(client, loaded, options)
        report = check_loaded(loaded, files)
        report.faults += _own_faults(report, connection)
        errors = make_console(stderr=True)
        if report.faults:
            print_report(report, errors)
            if report.has_only_missing_files:
                return UNUSABLE  # nothing else was read, so there is no more to say
            unreadable = any(fault.reason == UNREADABLE for fault in report.faults)
            raise CommandError(UNUSABLE if unreadable else FAILED, "nothing was sent, see above")
        if options.templates:
            if not report.templates:
                raise CommandError(UNUSABLE, "--templates: the files contain no JobTemplate")
            # checked with them, because a template alone may break a flow
            report.flows, report.crons = [], []
        if options.dry_run is not DryRun.CLIENT:
            # one without a path is about missing templates, of which the server knows more
            report.warnings = [warning for warning in report.warnings if warning.path]
        print_warnings(report, errors)
        for manifest in report.others:
            name = f"{manifest.kind} {manifest.name}"
            sentence = f"{manifest.place('metadata.name')}: {name} is not sent: `kubectl apply` it"
            print_error(printable(sentence), severity="warning")
        if options.dry_run is DryRun.CLIENT:
            if reuse is not None:
                print_preview(await preview_reuse(client, report, reuse), options)
            applied = [Applied(body_of(each)) for each in (*report.templates, *report.crons)]
            sent = Sent(applied, [*map(body_of, report.flows)])
        else:
            sent = await send(client, report, dry_run=options.dry_run is DryRun.SERVER)
        return await finish(client, sent, options, {each.sentence for each in report.warnings})


async def _let_reuse(
    client: Client, loaded: Manifests, options: SubmitOptions
) -> ReuseChoice | None:
    """Let the only flow of FILEs reuse the flow that the user has named. Raises CommandError."""
    if options.reuse is None or loaded.faults:
        return None
    flow = only_flow(f"--reuse {options.reuse}: is about", loaded.objects)
    source = await find_flow(client, options.reuse, flow.namespace)
    reuse = choice_of(source, options.rerun)
    set_reuse(reuse, flow)
    # also the name of the flow that is reused, unless the user wants that
    if options.name is None and (notice := await free_name(client, flow)):
        print_error(notice, severity="warning")
    return reuse


async def resubmit_flow(
    name: str, connection: Connection, params: ParamOptions, options: SubmitOptions
) -> int:
    options.check()
    # a wrong value is named without a cluster
    values = read_params(params)
    async with await connect(connection) as client:
        # the spec as it is stored: a type would drop the fields that this version does not know
        raw = await read_flow(client, name)
        reuse = None if options.reuse is None else choice_of(to_flow(raw), options.rerun)
        report = without_faults(check_copy(raw, values, options.name, reuse))
        if options.dry_run is DryRun.CLIENT:
            if reuse is not None:
                print_preview(await preview_reuse(client, report, reuse), options)
            sent = Sent(flows=[*map(body_of, report.flows)])
        else:
            is_dry = options.dry_run is DryRun.SERVER
            sent = await send_checked(client, report, dry_run=is_dry)
        return await finish(client, sent, options)


def print_preview(preview: ReusePreview, options: SubmitOptions) -> None:
    """Print what a flow would reuse: to stderr if stdout has objects."""
    console = make_console(stderr=options.follow.output is not None)
    arrow = ">" if console.options.ascii_only else "→"
    for line in preview.lines():
        console.print(printable(line).replace(" → ", f" {arrow} "), soft_wrap=True)


def without_faults(report: Report) -> Report:
    """Return a report on a flow that is no file, after it has printed warnings about flags. Raises
    CommandError after it has printed the faults, if there are any."""
    print_without_file(report)
    if report.faults:
        raise CommandError(FAILED, "nothing was sent, see above")
    return report


async def finish(
    client: Client, sent: Sent, options: SubmitOptions, known: Collection[str] = ()
) -> int:
    """Print what was sent and refused, and follow the flows. `known`: warnings printed before."""
    for text in sent.warnings:
        if text not in known:  # the webhook warns as lint does
            print_error(printable(text), severity="warning")
    output = options.follow.output
    if output is None:
        words = {None: "", DryRun.CLIENT: " (dry run)", DryRun.SERVER: " (server dry run)"}
        suffix = words[options.dry_run]
        for each in sent.applied:
            print(f"{name_of(each.object)} {each.change}{suffix}", flush=True)
        for flow in sent.flows:
            print(f"{name_of(flow)} created{suffix}", flush=True)
    if sent.is_refused:
        errors = make_console(stderr=True)
        print_error(*map(printable, sent.missing_rights.values()))
        for fault in sent.faults:
            print_fault(fault, errors)
        return FAILED
    printed: Sequence[Any] = [*(each.object for each in sent.applied), *sent.flows]
    if not options.dry_run and sent.flows:
        printed = sent.flows
    view = options.view if sent.flows else None
    # a script may want the names at once, but objects as they are at the end
    if output and (view is None or output is ObjectOutput.NAME):
        print_objects(printed, output)
    if view is None:
        return SUCCESS
    ended = await until_end(client, sent.created, view)
    if output and output is not ObjectOutput.NAME:
        print_objects([*map(object_of, ended.flows)], output)
    return ended.code


def _own_faults(report: Report, connection: Connection) -> Iterator[ManifestFault]:
    """Yield the faults that only matter to `submit`."""

    def fault(manifest: Manifest, path: str, value: str, detail: str) -> ManifestFault:
        violation = Violation(path, Reason.INVALID, value, detail)
        place, kind = manifest.place(path), str(manifest.kind)
        return ManifestFault(place, Reason.INVALID, violation.message, path, kind, manifest.name)

    for manifest in (*report.templates, *report.crons, *report.flows):
        own, wanted = manifest.own_namespace, connection.namespace
        if own and wanted and own != wanted:  # kubectl refuses it too
            detail = f"differs from -n {wanted}: submit this file with -n {own}, or without -n"
            yield fault(manifest, "metadata.namespace", own, detail)
    for manifest in (*report.templates, *report.crons):
        if not manifest.name:
            detail = f"a {manifest.kind} is applied by its name, so it cannot have a generateName"
            yield fault(manifest, "metadata.generateName", manifest.generate_name, detail)
