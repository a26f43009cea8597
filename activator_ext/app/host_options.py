"""What a user of `up` may say about starts, and the command line of the host that heeds it."""

import sys
from dataclasses import dataclass
from pathlib import Path

from activator_ext.app.state_dir import StateDir


@dataclass(frozen=True, slots=True)
class HostOptions:
    """`stores`: URLs that compiled code is taken from; `publish_to`: where what is compiled here goes, too.

    `trust`: the file that says whose is taken, None: this host's own only. `fork` False: each engine imports anew.
    `snapshot`: engines come from images of ready ones where there are any (docs/adr/0010-snapshots.md).
    """

    stores: tuple[str, ...] = ()
    publish_to: str | None = None
    trust: Path | None = None
    fork: bool = True
    snapshot: bool = False


def host_argv(directory: StateDir, options: HostOptions, engine_command: str | None) -> list[str]:
    """The host's command line; paths are absolute, for it may outlive the directory that `up` was called in."""
    argv = [sys.executable, "-m", "runtime.host", "--socket", str(directory.host_socket)]
    argv += ["--root", str(directory.engines)]
    # With an equals sign: a value that begins with a dash is a value.
    argv += [f"--store={url}" for url in options.stores]
    if options.publish_to is not None:
        argv.append(f"--publish-to={options.publish_to}")
    if options.trust is not None:
        argv.append(f"--trust={options.trust.absolute()}")
    if not options.fork:
        argv.append("--no-fork")
    if options.snapshot:
        argv.append("--snapshot")
    if engine_command is not None:
        argv += ["--engine-command", engine_command]
    return argv
