"""The state directory of one `up`: its files, its lock, its token."""

import contextlib
import fcntl
import json
import os
import re
import secrets
import stat
from pathlib import Path

# sun_path of sockaddr_un(7) holds 108 bytes with the closing NUL.
_SOCKET_PATH_LIMIT = 107


_TOKEN = re.compile(r"[!-~]{16,512}")


class StateDirBusy(Exception):
    """Another `up` owns the directory, or it cannot be used; the message says what to do."""


class StateDir:
    """Paths and ownership. Mode 0700: the sockets and the token inside are the credentials of local mode."""

    def __init__(self, root: Path) -> None:
        self.root = root.expanduser().absolute()
        self.host_socket = self.root / "host.sock"
        self.portal_socket = self.root / "portal.sock"
        self.controller_socket = self.root / "controller.sock"
        self.database = self.root / "history.sqlite3"
        self.engines = self.root / "engines"
        self.logs = self.root / "logs"
        self.token_file = self.root / "token"
        self.api_file = self.root / "api.json"
        self._lock_file = self.root / "lock"
        self._lock: int | None = None

    def acquire(self) -> None:
        """Make the directory and own it; raises StateDirBusy if another `up` does or it cannot be written."""
        sockets = (self.host_socket, self.portal_socket, self.controller_socket)
        longest = max(sockets, key=lambda path: len(str(path)))
        if len(os.fsencode(longest)) > _SOCKET_PATH_LIMIT:
            raise StateDirBusy(
                f"{longest} is longer than the {_SOCKET_PATH_LIMIT} bytes of a unix socket's path: "
                "choose a shorter directory with --state"
            )
        try:
            self.root.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._check_private()
            for directory in (self.engines, self.logs):
                directory.mkdir(exist_ok=True)
            lock = os.open(self._lock_file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StateDirBusy(
                f"cannot use the state directory {self.root}: {error}. Choose another with --state"
            ) from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            owner = os.read(lock, 32).decode(errors="replace").strip() or "unknown"
            os.close(lock)
            raise StateDirBusy(
                f"another `pilotlight up` (pid {owner}) owns {self.root}: "
                "stop it, or choose another directory with --state"
            ) from error
        self._lock = lock
        for path in sockets:
            if path.exists() and not path.is_socket():
                self.release()
                raise StateDirBusy(f"{path} is in the way of a socket: remove it, or choose another --state")
        try:
            os.ftruncate(lock, 0)
            os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
        except OSError as error:
            self.release()
            raise StateDirBusy(
                f"cannot write {self._lock_file}: {error}. Make room there, or choose another --state"
            ) from error

    def _check_private(self) -> None:
        # Not mended here: who names /tmp by mistake must not find it closed to everybody else.
        mode = stat.S_IMODE(self.root.stat().st_mode)
        if mode & 0o077:
            raise StateDirBusy(
                f"{self.root} is open to others (mode {mode:o}), and what lies in it is as good as a password: "
                f"choose a directory of its own with --state, or `chmod 700 {self.root}`"
            )

    def release(self) -> None:
        """Give the directory up, if it is owned."""
        if self._lock is None:
            return
        with contextlib.suppress(OSError):  # a disk that cannot be written any more: who reads the file finds nobody
            self.api_file.unlink(missing_ok=True)
        os.close(self._lock)
        self._lock = None

    def token(self) -> str:
        """The bearer token of the API, mode 0600; made anew where there is none or it is none. Raises StateDirBusy.

        A token is one word of 16 to 512 printable ASCII characters: a header carries it, and nobody guesses it.
        """
        try:
            found = ""
            if self.token_file.exists():
                self.token_file.chmod(0o600)
                found = self.token_file.read_text(encoding="ascii").strip()
        except UnicodeDecodeError:
            found = ""
        except OSError as error:
            raise StateDirBusy(f"cannot read {self.token_file}: {error}. Remove it; a new one is made") from error
        if not _TOKEN.fullmatch(found):
            found = secrets.token_urlsafe(32)
            write_private(self.token_file, found + "\n")
        return found

    def publish(self, *, url: str, portal_url: str) -> None:
        """Tell the CLI where this `up` listens. Raises StateDirBusy."""
        write_private(self.api_file, json.dumps({"url": url, "portal_url": portal_url, "pid": os.getpid()}) + "\n")


def write_private(path: Path, text: str) -> None:
    """Write a file of mode 0600 whole or not at all (rename within its directory). Raises StateDirBusy."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        temporary.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise StateDirBusy(f"cannot write {path}: {error}. Make room there, or choose another --state") from error
