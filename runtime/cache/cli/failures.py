"""How a command ends that could not do what it was asked: one line on stderr that names the fix, and an exit code."""

import functools
import shlex
from collections.abc import Callable
from typing import ParamSpec

import typer

_P = ParamSpec("_P")


class Refused(Exception):
    """What was asked for could not be done; `str()` says why and what to do. Exit code 1."""


class Interrupted(Exception):
    """A signal ended the command, in order. `number`: which."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def told(command: Callable[_P, None]) -> Callable[_P, None]:
    """A command whose known failures become a line on stderr and an exit code."""

    @functools.wraps(command)
    def run(*args: _P.args, **kwargs: _P.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except _known() as error:
            say(f"error: {error}")
            raise typer.Exit(1) from error
        except OSError as error:
            if error.filename is None:  # standard output: `pilotlight` itself says it
                raise
            say(f"error: {error.filename}: {error.strerror}: make room there, or let this user use it")
            raise typer.Exit(1) from error
        except Interrupted as stop:
            say("interrupted: nothing is left behind")
            raise typer.Exit(128 + stop.number) from stop

    return run


def _known() -> tuple[type[Exception], ...]:
    """What our modules raise of input that cannot work; not imported before a command runs, as --help does not wait."""
    from runtime.cache.faults import BundleFault  # noqa: PLC0415  (not for --help)
    from runtime.cache.fingerprint import FingerprintError  # noqa: PLC0415  (not for --help)
    from runtime.cache.machine import MachineError  # noqa: PLC0415  (not for --help)
    from runtime.cache.nvml import NvmlError  # noqa: PLC0415  (not for --help)
    from runtime.cache.stores.base import BadStoreUrl, StoreFault  # noqa: PLC0415  (not for --help)
    from runtime.cache.structure import StructureError  # noqa: PLC0415  (not for --help)

    return (Refused, BundleFault, StoreFault, BadStoreUrl, FingerprintError, StructureError, MachineError, NvmlError)


def words(text: str, option: str = "--args") -> tuple[str, ...]:
    """The words of an option that holds a command line; a quote that is not closed is a usage error."""
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise typer.BadParameter(f"{option} {text!r}: {error}: quote as for a shell") from error


def pairs(texts: list[str]) -> dict[str, str]:
    """`NAME=VALUE`, repeated."""
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise typer.BadParameter(f"--env {text!r} is not NAME=VALUE")
        found[name] = value
    return found


def say(text: str) -> None:
    """A line to stderr."""
    typer.echo(visible(text), err=True)


def visible(text: str) -> str:
    """`text` with what is not printable written out: names in a store are others' and shall not draw on a terminal."""
    return "\n    ".join(
        "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in line)
        for line in text.split("\n")
    )
