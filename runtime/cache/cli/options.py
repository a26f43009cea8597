"""Options that several commands of `pilotlight cache` have, and the shape of their help."""

import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

EXIT_CODES = (
    "Exit codes: 0 done, 1 it could not be done (stderr says what to do), 2 the command line is wrong, 130 interrupted."
)


class Platform(StrEnum):
    """What engines run on."""

    AUTO = "auto"
    CPU = "cpu"
    CUDA = "cuda"


def epilog(*examples: str) -> str:
    """Examples and exit codes, below a command's options."""
    # \b keeps the lines of a paragraph as they are.
    lines = "\n".join(f"  {example}" for example in examples)
    return f"\b\nExamples:\n{lines}\n\n{EXIT_CODES}"


def default_state() -> Path:
    """`$XDG_STATE_HOME/pilotlight`, by default ~/.local/state/pilotlight."""
    home = os.environ.get("XDG_STATE_HOME", "")
    return (Path(home) if home else Path.home() / ".local" / "state") / "pilotlight"


def store_url(text: str) -> str:
    """A store as it was typed; a directory may be a path that is not absolute."""
    if not text:
        raise typer.BadParameter("a store is empty: is a variable of the shell unset?")
    place, hash_sign, key = text.partition("#")
    return f"{place if ':' in place else Path(place).expanduser().absolute()}{hash_sign}{key}"


State = Annotated[
    Path,
    typer.Option(
        envvar="PILOTLIGHT_STATE",
        default_factory=default_state,
        show_default="$XDG_STATE_HOME/pilotlight or ~/.local/state/pilotlight",
        help="Directory of `pilotlight up`, with this host's own shelf of bundles.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]
Model = Annotated[str, typer.Argument(metavar="MODEL", help="A model directory, or a URL that vLLM streams from.")]
Args = Annotated[str, typer.Option("--args", help="vLLM's arguments as the service gives them, as one string.")]
Env = Annotated[list[str] | None, typer.Option("--env", metavar="NAME=VALUE", help="As the service sets it; repeat.")]
OfPlatform = Annotated[Platform, typer.Option(help="What engines run on; auto: cuda where there is a driver.")]
Trust = Annotated[
    Path | None, typer.Option("--trust", metavar="FILE", help="Trust policy: whose bundles are taken besides our own.")
]
TrustKeys = Annotated[
    list[Path] | None,
    typer.Option("--trust-key", metavar="FILE", help="Take bundles signed by this public key; repeat."),
]
Signer = Annotated[
    Path | None, typer.Option("--key", metavar="FILE", help="Private key to sign with; by default this host's own.")
]
Bundle = Annotated[str, typer.Argument(metavar="BUNDLE", help="A file, STORE#KEY, or a key of this host's shelf.")]
