"""One engine's credential, from its launcher to its gate: a file that only its user may read, named by the environment.

Not the value in the environment, which every child of the engine inherits and /proc shows; not in argv, which the list
of processes shows to everybody. The launcher's file is in memory (memfd_create(2)) and open in its own process alone: a
full disk keeps no engine from starting, and nothing is left of a launcher that was killed.
"""

import os
import secrets
import stat
from collections.abc import Mapping
from typing import Final

GATE_ENV: Final = "PILOTLIGHT_GATE_CREDENTIAL_FILE"
"""Names the file. Unset: the engine has no host (`Door` says what the gate does then)."""
CREDENTIAL_BYTES: Final = 32
_MOST_BYTES: Final = 4096
_LEAST_CHARACTERS: Final = 32
"""Less could be guessed; `new_credential` makes 43."""


def new_credential() -> str:
    """256 random bits, as text that fits into a header."""
    return secrets.token_urlsafe(CREDENTIAL_BYTES)


class HeldCredential:
    """A new credential, and the file that an engine of the same user reads it from until `close`."""

    def __init__(self) -> None:
        """Raises OSError where no descriptor is free."""
        self.value = new_credential()
        self._fd: int | None = os.memfd_create("credential")
        os.fchmod(self._fd, 0o600)
        os.write(self._fd, self.value.encode())

    def __repr__(self) -> str:
        return f"HeldCredential({self._fd})"

    @property
    def path(self) -> str:
        """What the environment names. Of no use once it is closed."""
        return f"/proc/{os.getpid()}/fd/{self._fd}"

    def close(self) -> None:
        """It has been read, or nobody reads it any more. May be called twice."""
        fd, self._fd = self._fd, None
        if fd is not None:
            os.close(fd)


def given_credential(environ: Mapping[str, str]) -> str | None:
    """The credential that the environment names, None where it names none.

    Raises ValueError, which says what is wrong: an engine whose gate cannot know its host must not serve.
    """
    named = environ.get(GATE_ENV)
    if not named:
        return None
    try:
        with open(named, "rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            text = file.read(_MOST_BYTES).decode().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise _unusable(named, f"cannot be read ({error})") from error
    if mode & (stat.S_IWGRP | stat.S_IWOTH | stat.S_IROTH):
        raise _unusable(named, f"is open to others (mode {stat.S_IMODE(mode):04o})")
    if len(text) < _LEAST_CHARACTERS or not text.isascii() or not text.isprintable():
        raise _unusable(named, f"holds no credential of at least {_LEAST_CHARACTERS} printable ASCII characters")
    return text


def _unusable(named: str, what: str) -> ValueError:
    return ValueError(
        f"the file {named!r} that {GATE_ENV} names {what}: write the engine's credential there with mode 0600,"
        " or unset the variable to run the engine without a host"
    )
