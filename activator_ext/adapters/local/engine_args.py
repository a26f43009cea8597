"""The container's command line → vLLM arguments: the model, the served names, and what else the engine is given."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from activator_ext.adapters.local.containers import EngineContainer
from activator_ext.adapters.local.documents import Word
from activator_ext.adapters.local.findings import Findings, quoted

_MODEL = {"--model", "--model-dir", "--model-path"}
_HUB_MODEL = "--model-id"
_NAMES = {"--served-model-name", "--model-name"}
_NO_PROMPTS = "requests and answers stay out of the engine's log"
_NO_PORT = "the engine opens no port but its own"
_ONE_MACHINE = "an engine is on this machine here, and waits for no other on the network"
_MANY_MACHINES = (
    *("--nnodes", "-n", "--node-rank", "-r", "--master-addr", "--master-port"),
    *("--data-parallel-address", "-dpa", "--data-parallel-rpc-port", "-dpp", "--data-parallel-supervisor-port"),
    *("--data-parallel-rank", "-dpn", "--data-parallel-start-rank", "-dpr"),
)
_MANY_MACHINES_SWITCH = (
    *("--data-parallel-external-lb", "-dpe", "--data-parallel-hybrid-lb", "-dph"),
    *("--data-parallel-multi-port-external-lb", "-dpm"),
)
_LAUNCHER_VALUE = {
    "--host": "engines listen on loopback, where the launcher puts them",
    "--port": "the launcher chooses it",
    "--uds": "the launcher chooses where the engine listens",
    "--grpc-port": "the portal speaks HTTP",
    "--api-server-count": "each engine has one server here",
    "-asc": "each engine has one server here",
    "--root-path": "the portal routes",
    "--otlp-traces-endpoint": "the launcher reads the start's spans there",
    "--shutdown-timeout": "the launcher sets it to the drain",
    "--uvicorn-log-level": "the launcher reads these lines",
    "--ssl-keyfile": "the engine listens on loopback only",
    "--ssl-certfile": "the engine listens on loopback only",
    "--ssl-ca-certs": "the engine listens on loopback only",
    "--ssl-cert-reqs": "the engine listens on loopback only",
    "--ssl-ciphers": "the engine listens on loopback only",
    "--api-key": "the engine answers the portal only, which has no key for it",
    "--logging-config": _NO_PROMPTS,
    "--log-config-file": _NO_PROMPTS,
    "--kv-events-config": _NO_PORT,
    "--weight-transfer-config": _NO_PORT,
    **dict.fromkeys(_MANY_MACHINES, _ONE_MACHINE),
}
_LAUNCHER_SWITCH = {
    "--enable-log-requests": _NO_PROMPTS,
    "--enable-log-outputs": _NO_PROMPTS,
    **dict.fromkeys(_MANY_MACHINES_SWITCH, _ONE_MACHINE),
    "--headless": "each replica is a whole server here",
    "--grpc": "the portal speaks HTTP",
    "--enable-ssl-refresh": "the engine listens on loopback only",
}
_ONE_VALUE = _MODEL | {_HUB_MODEL} | (set(_LAUNCHER_VALUE) - {"--api-key"})
_MAX_NAME = 256
"""Longest served name, in characters: it stands in metrics, logs and every answer."""
_NUMBER = re.compile(r"-\d")
_PYTHON = re.compile(r"python(3(\.\d+)?)?")
_SHELLS = {"sh", "bash", "dash", "ash", "zsh"}
_ENGINES = "vllm serve, python3 -m vllm.entrypoints.openai.api_server, or no command with a vLLM image"


@dataclass(frozen=True)
class EngineArgs:
    """A parsed command line. `model` None: it names none. `mounted`: without a model it serves what KServe mounts."""

    model: Word | None
    served_names: tuple[Word, ...]
    args: tuple[str, ...]
    mounted: bool


def parse(container: EngineContainer, findings: Findings) -> EngineArgs | None:
    """None, with an error, where the container does not run vLLM or its arguments cannot be read."""
    before = findings.errors()
    words = _vllm_words(container, findings)
    if words is None:
        return None
    reading = _Reading(findings)
    for option in _options(words, findings):
        reading.take(option)
    if findings.errors() > before:
        return None
    mounted = bool(container.command) and _program(container.command[0]) == "pilotlight-engine"
    return EngineArgs(reading.model, tuple(reading.names), tuple(reading.args), mounted)


def _vllm_words(container: EngineContainer, findings: Findings) -> list[Word] | None:
    """What follows `vllm serve` or its equal; None with an error for any other program."""
    words = [*container.command, *container.args]
    if not container.command:
        if "vllm" in (container.image or "").lower():
            return words[1:] if words and words[0].text == "serve" else words
        message = f"the image {quoted(container.image or 'of no name')} is not known as vLLM, and there is no command"
        findings.error(*container.where, f"local mode runs vLLM only: {message}", f"Use {_ENGINES}.")
        return None
    texts = [word.text for word in words]
    program = _program(words[0])
    if program == "vllm" and texts[1:2] == ["serve"]:
        return words[2:]
    if _PYTHON.fullmatch(program) and texts[1:3] == ["-m", "vllm.entrypoints.openai.api_server"]:
        return words[3:]
    if program == "pilotlight-engine":
        return words[1:]
    where = words[0].where
    if program in _SHELLS:
        fix = "Write command: [vllm, serve] and the arguments as a list under args."
        findings.error(*where, "local mode runs vLLM only, and no shell", fix)
    else:
        findings.error(*where, f"local mode runs vLLM only, not {quoted(program)}", f"Use {_ENGINES}.")
    return None


def _program(word: Word) -> str:
    return word.text.rpartition("/")[2]


@dataclass
class _Option:
    """`--flag` with its values; `flag` None for words that belong to no flag."""

    flag: Word | None
    values: list[Word] = field(default_factory=list)
    joined: bool = False

    @property
    def name(self) -> str:
        """The flag as vLLM knows it: `--max_model_len` is `--max-model-len`."""
        return "" if self.flag is None else self.flag.text.replace("_", "-")

    def texts(self) -> list[str]:
        if self.flag is None:
            return [value.text for value in self.values]
        if self.joined:
            return [f"{self.flag.text}={self.values[0].text}"]
        return [self.flag.text, *(value.text for value in self.values)]


def _options(words: Sequence[Word], findings: Findings) -> list[_Option]:
    """Words grouped by flag: those up to the next flag are its values, as many as it can take."""
    options = [_Option(None)]
    for word in words:
        if not word.text.startswith("-") or _NUMBER.match(word.text):
            options[-1].values.append(word)
            continue
        flag, equals, value = word.text.partition("=")
        if re.search(r"\s", flag):
            fix = "Write flag and value as two items of the list, or as --flag=value."
            findings.error(*word.where, f"the argument {quoted(word.text)} holds a space", fix)
            continue
        options.append(_Option(Word(flag, word.where), [Word(value, word.where)] if equals else [], bool(equals)))
    return [part for option in options for part in _split(option)]


def _split(option: _Option) -> list[_Option]:
    """Words that a flag cannot take belong to none: after `--flag=value`, a switch, or a flag of one value.

    Of the flags not named here the number of values is not known (vLLM's own list changes): they take all.
    """
    most = 1 if option.joined or option.name in _ONE_VALUE else 0 if option.name in _LAUNCHER_SWITCH else None
    if option.flag is None or most is None or len(option.values) <= most:
        return [option]
    return [_Option(option.flag, option.values[:most], option.joined), _Option(None, option.values[most:])]


def _abbreviated(name: str) -> str | None:
    """The flag handled here that vLLM's parser could take `name` for: `--hos` would be `--host`."""
    handled = [*sorted(_MODEL), _HUB_MODEL, *sorted(_NAMES), *_LAUNCHER_VALUE, *_LAUNCHER_SWITCH, "--config"]
    return next((flag for flag in handled if len(name) > 4 and flag.startswith(name)), None)


@dataclass
class _Reading:
    findings: Findings
    model: Word | None = None
    names: list[Word] = field(default_factory=list)
    args: list[str] = field(default_factory=list)

    def take(self, option: _Option) -> None:
        name, flag = option.name, option.flag
        if flag is None:
            self._positional(option)
        elif name in _MODEL or name in _NAMES or name == _HUB_MODEL:
            if not option.values or not all(value.text for value in option.values):
                self.findings.error(*flag.where, f"{flag.text} has no value", "Write it as --flag=value.")
            elif name in _NAMES:
                self._named(option.values)
            else:
                self._model(option.values[0])
        elif name in _LAUNCHER_VALUE or name in _LAUNCHER_SWITCH:
            why = _LAUNCHER_VALUE.get(name) or _LAUNCHER_SWITCH[name]
            self.findings.warning(*flag.where, f"local mode ignores {name}", f"Nothing to do: {why}.")
        elif name == "--config":
            fix = "Write its options under args."
            self.findings.error(*flag.where, "a file of options cannot be checked here", fix)
        elif (whole := _abbreviated(name)) is not None:
            fix = f"Write {whole} if that is meant."
            self.findings.error(*flag.where, f"{quoted(flag.text)} could be short for {whole}", fix)
        else:
            self.args.extend(option.texts())

    def _named(self, values: Sequence[Word]) -> None:
        for value in values:
            if len(value.text) > _MAX_NAME or not value.text.isprintable():
                fix = f"Use at most {_MAX_NAME} printable characters."
                self.findings.error(*value.where, f"{quoted(value.text)} cannot name a model in a request", fix)
            self.names.append(value)

    def _positional(self, option: _Option) -> None:
        for word in option.values:
            if not word.text:
                self.findings.error(*word.where, "the argument is empty", "Remove it.")
            else:
                self._model(word)

    def _model(self, word: Word) -> None:
        if self.model is not None and self.model.text != word.text:
            message = f"a second model, {quoted(word.text)}, beside {quoted(self.model.text)}"
            self.findings.error(*word.where, message, "Name one model; write flags with their values as --flag=value.")
        self.model = word
