"""`jobflow lint`: checks manifests without a cluster."""

from __future__ import annotations

import json

from jobflow.cli.console import make_console
from jobflow.cli.display.report import print_report, print_warnings
from jobflow.cli.errors import FAILED, SUCCESS, UNUSABLE, CommandError, exit_on
from jobflow.cli.flags import FileOptions
from jobflow.cli.manifests.check import check_files
from jobflow.cli.manifests.faults import UNREADABLE


def lint_files(files: FileOptions, *, as_json: bool) -> int:
    """Check FILEs, print the report and return the exit code."""
    with exit_on(UNUSABLE, CommandError):
        report = check_files(files)
    if as_json:
        print(json.dumps([fault.as_json() for fault in report.faults], indent=2))
        print_warnings(report, make_console(stderr=True))
    else:
        print_report(report, make_console())
    if any(fault.reason == UNREADABLE for fault in report.faults):
        return UNUSABLE
    return FAILED if report.faults else SUCCESS
