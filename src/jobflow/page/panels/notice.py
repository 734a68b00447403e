"""The notice at the top: what prevents the page from being up to date, and what to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from jobflow.client.flows.find_flow import NOT_INSTALLED
from jobflow.core.text import format_count
from jobflow.kube.client import ApiError
from jobflow.page.watches.live import Live
from jobflow.page.web.fragments import Fragment

CONNECTING = "The cluster has not answered yet."


@dataclass(frozen=True, slots=True)
class Notice:
    """A notice; without text there is none."""

    text: str = ""
    is_error: bool = False


def notice(live: Live[Any], problem: str = "") -> Fragment:
    """Return the notice about a watch, or about another `problem`."""
    return Fragment("notice", "notice.html", describe(live, problem))


def describe(live: Live[Any], problem: str = "") -> Notice:
    """Return the notice about a watch, or about another `problem`."""
    if problem or (problem := _trouble(live)):
        return Notice(problem, is_error=True)
    return Notice() if live.cache.synced else Notice(CONNECTING)


def _trouble(live: Live[Any]) -> str:
    """Return why the page is not up to date, and what to do; "" if it is, or may soon be."""
    cache, error = live.cache, live.reflector.error
    if live.defect is not None:
        return f"The watch ended by an error ({live.defect!r}): start `jobflow ui` again."
    if cache.served is False:
        return _describe_refusal(live, error)
    if cache.failing:
        old = "what you see may be old" if cache.synced else "nothing can be shown yet"
        if error is not None and error.code == 401:
            return f"The cluster does not accept your login (401): log in again. Until then, {old}."
        verb = "does not answer" if error is None else "answers with an error"
        return f"The cluster {verb} ({live.reflector.trouble}): {old}. Trying again."
    if count := live.reflector.unreadable:
        objects = format_count(count, live.resource.kind)
        return f"{objects} cannot be read and {'is' if count == 1 else 'are'} not shown."
    return ""


def _describe_refusal(live: Live[Any], error: ApiError | None) -> str:
    """Return why the cluster does not show a kind: it does not serve it, or the user may not."""
    if error is not None and error.code == 403:
        kind = live.resource.qualified
        where = f'in namespace "{live.namespace}"' if live.namespace else "in all namespaces"
        return (
            f"You may not list and watch {kind} {where}: ask an administrator for the role view "
            f"there. The cluster says: {error.message}"
        )
    return f"{NOT_INSTALLED[0].upper()}{NOT_INSTALLED[1:]}."
