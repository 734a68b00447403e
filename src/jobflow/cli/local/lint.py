"""`jobflow lint`: checks manifests without a cluster."""

from __future__ import annotations

import json
import sys

from rich.console import Console

from jobflow.cli.display.report import print_report, print_warnings
from jobflow.cli.errors import FAILED, SUCCESS, UNUSABLE, CommandError, exit_on
from jobflow.cli.flags import FileOptions
from jobflow.cli.manifests.check import Report, check
from jobflow.cli.manifests.faults import UNREADABLE, ManifestFault, Source, SourcePlace
from jobflow.cli.manifests.objects import load
from jobflow.cli.manifests.params import parse_params, set_params


def lint_files(files: FileOptions, *, as_json: bool) -> int:
    """Check FILEs, print the report and return the exit code."""
    with exit_on(UNUSABLE, CommandError):
        report = check_files(files)
    if as_json:
        print(json.dumps([fault.as_json() for fault in report.faults], indent=2))
        print_warnings(report, Console(stderr=True, highlight=False))
    else:
        print_report(report, Console(highlight=False))
    if any(fault.reason == UNREADABLE for fault in report.faults):
        return UNUSABLE
    return FAILED if report.faults else SUCCESS


def check_files(options: FileOptions) -> Report:
    """Check FILEs; files without a JobFlow or JobTemplate are a fault too. Raises CommandError."""
    values = parse_params(options.param or ())
    manifests = load(options.files, sys.stdin.buffer)
    if values and manifests.objects:
        set_params(values, manifests.objects)
    report = check(manifests, lenient=options.lenient)
    if not (report.faults or report.flows or report.templates):
        source = Source(" ".join("<stdin>" if file == "-" else file for file in options.files))
        fault = ManifestFault(SourcePlace(source), UNREADABLE, "contains no JobFlow or JobTemplate")
        report.faults.append(fault)
    return report
