"""How a command fails: one line on stderr that names the fix, and an exit code."""

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import typer

from activator_ext.app.cli.times import TimeError
from activator_ext.core.visible import visible_lines

_P = ParamSpec("_P")
_T = TypeVar("_T")


class CliError(Exception):
    """What was asked for could not be done; the message says why and what to do. Exit code 1."""


def told(command: Callable[_P, _T]) -> Callable[_P, _T]:
    """A command whose CliError becomes a line on stderr and exit code 1, and whose TimeError a usage error, code 2."""

    @functools.wraps(command)
    def run(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        try:
            return command(*args, **kwargs)
        except CliError as error:
            typer.echo(f"error: {visible_lines(str(error))}", err=True)
            raise typer.Exit(1) from error
        except TimeError as error:
            raise typer.BadParameter(str(error)) from error

    return run
