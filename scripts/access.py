"""The page docs/reference/access.md: what a service's files may have an engine fetch, open, load or log, and why.

What becomes of each row is not written here: the row is read as `up` would read it.
"""

import json
import tempfile
from dataclasses import dataclass
from pathlib import Path

from activator_ext.adapters.local.manifests import load

MANIFEST = """\
apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata: {name: chat}
spec:
  predictor:
    minReplicas: 0
    containers:
    - name: kserve-container
      image: vllm/vllm-openai:v0.32.0
      command: [vllm, serve]
      args: ARGS
      env: ENV
"""


@dataclass(frozen=True)
class Row:
    """Arguments, variables and a storageUri of one service, and why they meet what they meet."""

    why: str
    storage: str = "pvc://models/tiny"
    args: tuple[str, ...] = ("/mnt/models",)
    env: tuple[tuple[str, str], ...] = ()

    @property
    def shown(self) -> str:
        """What the row is about."""
        told = [f"storageUri: {self.storage}"] if self.storage != Row.storage and self.storage else []
        told += [" ".join(self.args)] if self.storage == "" else [" ".join(self.args[1:])] if self.args[1:] else []
        return " ".join([*told, *(f"{name}={value}" for name, value in self.env)])


def argument(text: str, why: str) -> Row:
    """A row of one argument beside the model."""
    return Row(why, args=("/mnt/models", text))


_OWN = "who writes the file names a directory of this machine that the same user can read anyway"
_NO_FETCH = "nothing is fetched: whoever writes a file must not choose what this machine asks for on its network"
_CODE = "the model's own code or a module named by who runs `up`; it runs as that user, as any program of theirs"
_PRIVATE = "no prompt or answer is written to a log"
_LOOPBACK = "nothing listens beyond loopback"

ROWS = (
    Row(_OWN, storage="file:///srv/models/chat"),
    Row("a directory below the one that `--volume` gives", storage="pvc://models/tiny/"),
    Row("a symbolic link in a volume: it can name only what file:// could name too", storage="pvc://models/link"),
    Row("a path that climbs", storage="pvc://models/../secret"),
    Row("a path that climbs", storage="file:///srv/models/../../etc"),
    Row("a claim that no `--volume` gives", storage="pvc://other/tiny"),
    Row("file:// of another host", storage="file://host/share"),
    Row(_NO_FETCH, storage="https://models.example/chat.tar"),
    Row(_NO_FETCH, storage="http://169.254.169.254/latest/meta-data"),
    Row(_NO_FETCH, storage="hf://org/model"),
    Row(_NO_FETCH, storage="s3://bucket/model"),
    Row(_NO_FETCH, storage="gs://bucket/model"),
    Row(_NO_FETCH, storage="oci://registry/model"),
    Row(_NO_FETCH, storage="ftp://host/model"),
    Row("said in so many words: the engine streams it, with the credentials of the service's own env", storage="",
        args=("s3://bucket/model", "--load-format=runai_streamer")),
    Row(_NO_FETCH, storage="", args=("https://models.example/chat",)),
    Row(_NO_FETCH, storage="", args=("org/model",)),
    Row("a second model, of which the launcher proves nothing", args=("/mnt/models", "/etc")),
    argument("--tokenizer=org/tokenizer", "the engine looks into its own cache only: it runs with HF_HUB_OFFLINE=1"),
    Row("said in so many words: from then on it may download", env=(("HF_HUB_OFFLINE", "0"),)),
    argument("--chat-template=/srv/template.jinja", "a file of this machine, or the template itself: no URL"),
    argument('--hf-overrides={"rope_theta": 1e6}', "values of the model's own configuration"),
    argument("--trust-remote-code", _CODE),
    argument("--worker-cls=mine.Worker", _CODE),
    argument("--tool-parser-plugin=/srv/parser.py", _CODE),
    argument("--allowed-media-domains=images.example", "said in so many words; else no request has a URL fetched"),
    argument("--allowed-local-media-path=/srv/images", "said in so many words; else no request has a file read"),
    argument("--otlp-traces-endpoint=http://collector.example", "spans go to the host, on loopback"),
    argument("--host=0.0.0.0", _LOOPBACK),
    argument("--nnodes=2", _LOOPBACK),
    argument("--master-addr=10.0.0.1", _LOOPBACK),
    argument("--data-parallel-address=10.0.0.1", _LOOPBACK),
    argument('--kv-events-config={"endpoint": "tcp://*:5557"}', _LOOPBACK),
    argument("--uds=/tmp/engine", "the launcher chooses where the engine listens"),
    argument("--api-key=secret", "it would stand in the list of processes"),
    argument("--enable-log-requests", _PRIVATE),
    argument("--enable-log-outputs", _PRIVATE),
    argument("--log-config-file=/srv/log.json", _PRIVATE),
    argument("--config=/srv/options.yaml", "a file of options could say any of this unseen"),
    Row("it decides which code every process loads", env=(("LD_PRELOAD", "/srv/x.so"),)),
    Row("it decides which code every process loads", env=(("PYTHONPATH", "/srv"),)),
    Row("it opens routes that command the engine without a password", env=(("VLLM_SERVER_DEV_MODE", "1"),)),
    Row(_LOOPBACK, env=(("VLLM_HOST_IP", "10.0.0.1"),)),
    Row(_LOOPBACK, env=(("GLOO_SOCKET_IFNAME", "eth0"),)),
    Row("sockets of an engine are its user's alone", env=(("VLLM_RPC_BASE_PATH", "/tmp"),)),  # noqa: S108 — an example
    Row(_PRIVATE, env=(("VLLM_DEBUG_LOG_API_SERVER_RESPONSE", "true"),)),
    Row("a proxy would see what the engine asks for", env=(("HTTPS_PROXY", "http://proxy.example"),)),
    Row("spans go to the host, on loopback", env=(("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector.example"),)),
    Row("said in so many words: where a streamed model comes from", env=(("AWS_ENDPOINT_URL", "http://store.example"),)),
)  # fmt: skip


def outcome(row: Row) -> str:
    """`refused`, `ignored` or `let through`, as the files say it to `up`; the model is there in each case."""
    with tempfile.TemporaryDirectory() as root:
        models = Path(root, "models")
        (models / "tiny").mkdir(parents=True)
        (models / "tiny" / "config.json").write_text("{}")
        (models / "link").symlink_to(models / "tiny")
        env = [{"name": name, "value": value} for name, value in row.env]
        env += [{"name": "STORAGE_URI", "value": row.storage}] if row.storage else []
        text = MANIFEST.replace("ARGS", json.dumps(row.args)).replace("ENV", json.dumps(env))
        path = Path(root, "chat.yaml")
        path.write_text(text)
        loaded = load([path], {"models": models}, "cpu")
    if not loaded.ok:
        return "refused"
    passed = " ".join([*loaded.services[0].spec.args, *loaded.services[0].spec.env])
    named = [part.partition("=")[0] for part in row.args[1:]] + [name for name, _ in row.env]
    return "ignored" if any(name not in passed for name in named) else "let through"


def page() -> str:
    """The whole page below its title."""
    return f"{_HEAD}\n\n" + "\n".join(
        ["| a file says | it is | because |", "| --- | --- | --- |", *(_line(row) for row in ROWS)]
    )


def _line(row: Row) -> str:
    return f"| `{row.shown}` | {outcome(row)} | {row.why} |"


_HEAD = """\
Portal, API and engines listen on loopback. Host, portal and controller, and the processes of an engine, speak on unix
sockets in the state directory, which nobody but its user may enter (mode 0700); an engine makes its files with umask
077. The API wants a token (file `token`, mode 0600) and a Host header that names loopback, so that no page of a browser
reaches it. The portal asks for no token: whoever may open a connection on this machine may ask a model.

No word of a prompt or an answer is logged, at any level, by portal, controller, host or engine. What others wrote
(names, notes, an engine's last words) is shown with every character that is not printable written out.

A request cannot have an engine fetch a URL or read a file, unless the service allows it by an argument. What a
service's own files may do, and may not:"""
