"""Tells the controller of a cluster what an engine's own pod does: `PodReport`, whole, whenever something changed.

A thread of its own, which nothing waits for: not a start, and no end either, where a name that does not resolve would
keep it for a minute. What it cannot tell is told with the next report; only the newest starts are kept.
"""

import http.client
import ssl
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from runtime.contract import PodReport, Stage, StartRecord

PATH = "/v1/internal/pod"
TOKEN = Path("/var/run/secrets/pilotlight/token")
"""Where the pod's token for the controller is mounted; the kubelet writes a new one before the old one ends."""
AUDIENCE = "pilotlight-controller"
"""What that token is good for, and nothing else: the API server itself refuses it."""
KEPT_STARTS = 8
"""Starts that a report tells of, the newest; an engine that is started again and again must not fill the memory."""
LARGEST_BYTES = 512 * 1024
"""Of one report; older starts are left out until it fits."""
SETTLE_S = 0.5
"""Changes within this are one report: a start has some thirty stages, many of them short."""
TIMEOUT_S = 5.0
LAST_WORD_S = 2.0
"""How long the end of this process waits for what is to be told of it."""
RETRY_S = (1.0, 60.0)
"""The first wait after a report that did not arrive, doubled up to the longest."""
_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


class NotTold(Exception):
    """A report did not arrive; the message says why, and what to do."""


@dataclass(frozen=True, slots=True)
class Controller:
    """Where the controller is, this pod's token for it, and whose certificates prove it.

    `ca` None: `ca.crt` beside the token if there is one, else the machine's own.
    """

    url: str
    token: Path = TOKEN
    ca: Path | None = None

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise ValueError(f"--controller {self.url!r} is no address: write https://HOST[:PORT]")
        if parts.scheme == "http" and parts.hostname not in _LOOPBACK:
            raise ValueError(f"--controller {self.url!r} would tell the pod's token to everybody: write https://")
        if parts.username or parts.password:
            raise ValueError("--controller holds a password: the pod's token is what proves it, from a file")


class Reporter:
    """Posts the newest starts of this process to the controller until `close`; all but that return at once.

    `host` names the process. `say` is told once what stands in the way, and once that it is over.
    """

    def __init__(
        self, controller: Controller, host: str, *, say: Callable[[str], None], settle_s: float = SETTLE_S
    ) -> None:
        self._controller, self._host, self._say, self._settle_s = controller, host, say, settle_s
        self._lock = threading.Lock()
        self._news, self._closing, self._told = threading.Event(), threading.Event(), threading.Event()
        self._starts: OrderedDict[str, StartRecord] = OrderedDict()
        self._stage: Stage | None = None
        self._revision = 0
        self._trouble: str | None = None
        self._thread = threading.Thread(target=self._run, name="reporter", daemon=True)

    def begin(self) -> None:
        """Tell from now on."""
        self._thread.start()

    def changed(self, record: StartRecord, stage: Stage | None) -> None:
        """A start is as `record` says; `stage` is under way."""
        with self._lock:
            self._starts[record.id] = record
            self._stage = stage
            while len(self._starts) > KEPT_STARTS:
                self._starts.popitem(last=False)
            self._revision += 1
            self._told.clear()
        self._news.set()

    def close(self, within_s: float = LAST_WORD_S) -> None:
        """Wait a little for the last word to be told; then it is left to the kubelet's."""
        if not self._starts or self._told.is_set():
            return
        self._closing.set()
        self._news.set()
        self._told.wait(within_s)

    def _run(self) -> None:
        wait_s = RETRY_S[0]
        while True:
            self._news.wait()
            if not self._closing.is_set():
                self._closing.wait(self._settle_s)
            self._news.clear()
            try:
                self._tell()
            except NotTold as error:
                self._note(str(error))
                self._news.set()
                # At the end there is time for one more try, not for a wait.
                if self._closing.is_set():
                    self._told.set()
                    return
                self._closing.wait(wait_s)
                wait_s = min(2 * wait_s, RETRY_S[1])
            else:
                self._note(None)
                wait_s = RETRY_S[0]

    def _tell(self) -> None:
        with self._lock:
            starts, stage, revision = tuple(self._starts.values()), self._stage, self._revision
        body = _body(PodReport(host=self._host, revision=revision, stage=stage, starts=starts))
        _post(self._controller, body)
        with self._lock:
            if revision == self._revision:
                self._told.set()

    def _note(self, trouble: str | None) -> None:
        """Say what stands in the way once as long as it does, and that it is over."""
        if trouble is not None and trouble != self._trouble:
            self._say(f"the controller is not told of this start: {trouble}; the start goes on")
        if trouble is None and self._trouble is not None:
            self._say("the controller is told of starts again")
        self._trouble = trouble


def _body(report: PodReport) -> bytes:
    """The report as JSON, without its oldest starts as far as it is too large."""
    body = report.model_dump_json(exclude_none=True).encode()
    while len(body) > LARGEST_BYTES and len(report.starts) > 1:
        report = report.model_copy(update={"starts": report.starts[1:]})
        body = report.model_dump_json(exclude_none=True).encode()
    return body


def _post(controller: Controller, body: bytes) -> None:
    """One POST, without redirects or a proxy: the token is for this address alone. Raises NotTold."""
    # Each time anew: the kubelet replaces both files under a running pod.
    try:
        token = controller.token.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise NotTold(f"no token at {controller.token} ({error}): mount one for the audience {AUDIENCE}") from error
    if not token or not token.isprintable():
        raise NotTold(f"{controller.token} holds no token: mount one for the audience {AUDIENCE}")
    parts = urlsplit(controller.url)
    host = parts.hostname or ""
    try:
        if parts.scheme == "https":
            beside = controller.token.with_name("ca.crt")
            ca = controller.ca or (beside if beside.is_file() else None)
            context = ssl.create_default_context(cafile=None if ca is None else str(ca))
            link: http.client.HTTPConnection = http.client.HTTPSConnection(
                host, parts.port, timeout=TIMEOUT_S, context=context
            )
        else:
            link = http.client.HTTPConnection(host, parts.port, timeout=TIMEOUT_S)
        try:
            headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
            link.request("POST", parts.path.rstrip("/") + PATH, body, headers)
            status = link.getresponse().status
        finally:
            link.close()
    except (OSError, http.client.HTTPException) as error:
        raise NotTold(f"{controller.url} does not answer: {error or type(error).__name__}") from error
    if not 200 <= status < 300:
        raise NotTold(f"{controller.url} answered {status}{_MEANS.get(status, '')}")


_MEANS = {
    401: f": it does not take this pod's token; is it one for the audience {AUDIENCE}?",
    403: ": this pod's ServiceAccount may not report starts",
    404: ": is it a Pilotlight controller?",
    413: ": the report is too large for it",
}
