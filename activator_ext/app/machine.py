"""What `up` needs of the machine: descriptors. Too few at the start are refused, none left later is said."""

import asyncio
import errno
import resource
from collections.abc import Callable
from typing import Any

FILES_NEEDED = 128
"""The least limit of open files that `up` begins with: itself some forty, a portal for some fifty requests."""


class MachineUnfit(Exception):
    """The machine lacks something; the message names it and the fix."""


def raise_file_limit() -> int:
    """Raise the limit of open files to what this user may have, for `up` and what it begins. Raises MachineUnfit.

    The usual soft limit of 1024 is there for programs that use select(2); ours do not.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if hard != resource.RLIM_INFINITY and hard < FILES_NEEDED:
        raise MachineUnfit(
            f"this shell allows {hard} open files and {FILES_NEEDED} are needed: raise the limit with "
            f"`ulimit -n {FILES_NEEDED}` or more, as root or in limits.conf(5)"
        )
    return hard


TOLD_EVERY_S = 60.0
"""How often a lack that lasts is told."""


class LoopFaults:
    """The event loop's exception handler of `up`: a lack of descriptors is a line a minute, not a trace a second.

    The loop takes connections again by itself once there are some. Everything else is told as asyncio does.
    """

    def __init__(self, say: Callable[[str], None], files: int) -> None:
        self._say = say
        self._files = files
        self._told_at_s: float | None = None

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Take one fault that nobody else took."""
        error = context.get("exception")
        if isinstance(error, ValueError) and "_start_serving" in str(context.get("message")):
            # A second after a lack of descriptors the loop listens again, also on a socket that was closed meanwhile.
            return
        if not isinstance(error, OSError) or error.errno not in (errno.EMFILE, errno.ENFILE):
            loop.default_exception_handler(context)
            return
        if self._told_at_s is None or loop.time() - self._told_at_s >= TOLD_EVERY_S:
            self._told_at_s = loop.time()
            self._say(
                f"error: no descriptor is free (limit {self._files}): new connections wait; close some, or begin `up` "
                "with a higher `ulimit -n`"
            )
