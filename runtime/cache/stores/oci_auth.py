"""How a registry wants to be asked (its challenge), and the credentials that this user has for it."""

import base64
import binascii
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from runtime.cache.stores.base import StoreCause, StoreFault

_FIELD = re.compile(r'([a-zA-Z_]+)=(?:"([^"]*)"|([^\s,"]+))')


@dataclass(frozen=True, slots=True)
class Challenge:
    """A WWW-Authenticate header (RFC 9110): `scheme` in lower case, and its fields."""

    scheme: str
    fields: Mapping[str, str]


def challenge_of(header: str) -> Challenge | None:
    """The header's first challenge. None: it is none that we know."""
    scheme, _, rest = header.strip().partition(" ")
    if scheme.lower() not in ("basic", "bearer"):
        return None
    fields = {name.lower(): quoted or plain for name, quoted, plain in _FIELD.findall(rest)}
    return Challenge(scheme.lower(), fields)


@dataclass(frozen=True, slots=True)
class Login:
    """A user's name and password. Never shown."""

    username: str
    password: str

    def __repr__(self) -> str:
        return f"Login({self.username!r}, …)"

    @property
    def header(self) -> str:
        """As an Authorization header."""
        return "Basic " + base64.b64encode(f"{self.username}:{self.password}".encode()).decode()


def login_files(environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Where `docker login`, `podman login` and Kubernetes' image pull secrets leave credentials, in order."""
    home = Path(environ.get("HOME") or "/")
    docker = environ.get("DOCKER_CONFIG")
    places = [
        Path(environ["REGISTRY_AUTH_FILE"]) if environ.get("REGISTRY_AUTH_FILE") else None,
        Path(environ["XDG_RUNTIME_DIR"], "containers", "auth.json") if environ.get("XDG_RUNTIME_DIR") else None,
        Path(docker, "config.json") if docker else home / ".docker" / "config.json",
    ]
    return tuple(place for place in places if place is not None)


def login_for(host: str, repository: str, environ: Mapping[str, str] | None = None) -> Login | None:
    """The credentials for `host/repository`, the most particular entry first. None: there are none.

    StoreFault (DENIED) if a file of them cannot be read, or names a helper program instead: none is ever run.
    """
    for path in login_files(os.environ if environ is None else environ):
        try:
            config = json.loads(path.read_bytes())
        except FileNotFoundError:
            continue
        except (OSError, ValueError) as error:
            fix = "make it a readable file as `docker login` writes it"
            raise StoreFault(StoreCause.DENIED, str(path), f"no credentials can be read ({error})", fix) from error
        found = _entry(config, host, repository)
        if found is not None:
            return _login(found, path, host)
        if isinstance(config, dict) and (config.get("credHelpers", {}).get(host) or config.get("credsStore")):
            fix = "log in with plain `auths`, as a pull secret of Kubernetes has them"
            raise StoreFault(StoreCause.DENIED, str(path), f"{host} has a credential helper, which is not run", fix)
    return None


def _entry(config: object, host: str, repository: str) -> object | None:
    auths = config.get("auths") if isinstance(config, dict) else None
    if not isinstance(auths, dict):
        return None
    parts = repository.split("/")
    names = ["/".join([host, *parts[:n]]) for n in range(len(parts), -1, -1)]
    names += [f"https://{host}", f"https://{host}/", f"https://{host}/v1/", f"https://{host}/v2/"]
    return next((auths[name] for name in names if auths.get(name)), None)


def _login(entry: object, path: Path, host: str) -> Login:
    try:
        if not isinstance(entry, dict):
            raise ValueError("no object")
        if entry.get("auth"):
            username, colon, password = base64.b64decode(entry["auth"], validate=True).decode().partition(":")
            if not colon:
                raise ValueError("no colon in it")
            return Login(username, password)
        return Login(entry["username"], entry["password"])
    except (ValueError, KeyError, TypeError, binascii.Error) as error:
        fix = "log in again with name and password, or a robot account's token"
        raise StoreFault(StoreCause.DENIED, str(path), f"the entry of {host} is no login", fix) from error
