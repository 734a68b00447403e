"""Ctrl-C before and after the event loop of a command, without KeyboardInterrupt, and SIGTERM.

Python raises KeyboardInterrupt wherever the program is: in an import, it leaves a traceback or is
lost in a callback of the garbage collector. Therefore Ctrl-C ends the process at once until the
event loop runs (`event_loop`), and is ignored once all is cleaned up. In between, it raises
KeyboardInterrupt only once: a second one would end the program with a traceback while it handles
the first. A signal that is ignored from the start stays ignored.

SIGTERM ends the process at once too, until a command handles it. It needs a handler because the
kernel sends PID 1 of a container no signal without one: an evicted pod would wait for SIGKILL.

This module is the first that a command imports, so it imports nothing that takes long.
"""

import os
import signal

INTERRUPTED = 130
TERMINATED = 128 + signal.SIGTERM
"""The exit code that a shell gives for a process that SIGTERM has ended."""


def exit_at_once() -> None:
    if is_ours():
        signal.signal(signal.SIGINT, end)
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, lambda *_: os._exit(TERMINATED))


def ignore() -> None:
    """Let Ctrl-C do nothing until the process ends. Python restores handlers of its own too early,
    but not this one."""
    if is_ours():
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def is_ours() -> bool:
    """Whether nobody else handles or ignores Ctrl-C."""
    return signal.getsignal(signal.SIGINT) in (end, skip, interrupt, signal.default_int_handler)


def end(*_: object) -> None:
    os._exit(INTERRUPTED)


def interrupt(*_: object) -> None:
    """The handler that raises KeyboardInterrupt, once."""
    signal.signal(signal.SIGINT, skip)
    raise KeyboardInterrupt


def skip(*_: object) -> None:
    pass
