"""A fake engine: looks like `vllm serve` from outside, starts in half a second, answers from a hash.

It is a fake. It stands in for vLLM where a test is about *our* processes (host, portal, controller); what vLLM really
logs, exports and does is proven by tests/engine/test_stages.py on a real one.

Use it as `Launcher(fake_command())`; it takes the argv tail of the launcher
(`serve MODEL --host H --port P --served-model-name A B …`, the rest is ignored). `fakes.model.make_model` writes a
model directory that passes the model check. Behaviour comes from `MODEL/fake.json`, all keys optional:

    start_s        seconds of start, spent in `compile`                         default 0
    exit_at        {"stage": S, "code": N} or {"stage": S, "signal": "SIGKILL"}: end when stage S would begin; "line":
                   what EngineCore says then in place of an exception of the fake's own
    only_with      as told only where one of vLLM's arguments holds this text; else it is sound
    once           true: only this start is as told, the next ones are sound (fake.json removes itself)
    hang_at        stage at which it hangs for good
    wrong_golden   true: other tokens than the content gives
    flaky_golden   true: each answer differs
    no_gate        true: the gate's paths answer 404 and nobody is refused
    no_token_ids   true: answers carry no token ids
    fail_status    status of every completion instead of an answer
    served         list of names that /v1/models tells instead of those on the command line
    crash_after_s  ends with exit code 3 that long after the server is up
    ignore_sigterm true: SIGTERM does nothing
    child          true: starts a child in its process group, which sleeps and ignores SIGTERM
    answer_s       seconds that a completion without streaming takes              default 0
    chunk_s        seconds between two chunks of a stream                        default 0
    tokens         tokens of a chat answer                                       default 8
    compiles       true: it "compiles": loads its artifact below VLLM_CACHE_ROOT, whose name is a hash of its arguments,
                   or writes it, and says of it what vLLM says. What an artifact holds in place of what it wrote:
                   POISON ends it by SIGSEGV, RAISES by an exception, WRONG changes its answers, anything else is
                   compiled again. "new": it looks for an artifact of another name at each start
    steps          what each completion adds to the steps that /metrics counts by tokens: {"8": 100}    default none
    artifact_bytes size of an artifact, which no compressor makes smaller            default 0
    kv_tokens      [N, M]: what it says of its KV cache, where it compiled and where it loaded what was compiled

Stages are those of `STAGES` below. Tokens are sha256 over prompt and weight bytes, so that the same directory always
answers alike, another seed otherwise. SIGUSR1: it crashes (exit code 3) as with `crash_after_s`.
Routes: /health /v1/models /v1/completions /v1/chat/completions /metrics, and those of the gate.
The text of token N is `tN `. On SIGTERM it lets running requests finish (up to --shutdown-timeout), then exits with 0.
"""

import argparse
import asyncio
import contextlib
import hashlib
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from aiohttp import web

from runtime.engine.leash import leash, leash_to_starter
from runtime.engine.marker import Marker, process_begun, render
from runtime.ready.gate_credential import given_credential
from runtime.ready.gate_door import CREDENTIAL_HEADER, OUR_PATHS, READY_PATH, STATE_PATH, WARM_UP_HEADER, Door, State
from runtime.ready.gate_routes import Audience, audience_of

PID = os.getpid()
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
_SLEEPER = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
STAGES: tuple[tuple[str, str, str], ...] = (
    ("configuration", "APIServer", "non-default args: {'model': '…'}"),
    ("device_init", "EngineCore", "Initializing a V1 LLM engine (v0.32.0) with config: …"),
    ("model_construction", "Worker", "Starting to load model …"),
    ("weight_load", "Worker", "Initializing model took 0.010000 seconds"),
    ("weight_convert", "Worker", "Loading weights took 0.00 seconds"),
    ("", "EngineCore", "Using LBHNC KV cache layout."),
    ("compile", "Worker", "Warming up model for the compilation..."),
    ("warm_up", "Worker", "[backbone] Initial profiling/warmup run took 0.00 s"),
    ("memory_profile", "Worker", "Warming up done."),
    ("kv_cache", "Worker", "Explicitly set (1.0/8.59) GiB for KV cache on node 0."),
    ("engine_ready", "EngineCore", "init engine (profile, create kv cache, warmup model) took 0.01 s"),
    ("server", "APIServer", "Supported tasks: ['generate']"),
)
"""(stage that the line begins, who says it, the line), in the order of a real start on a CPU."""


def main() -> None:
    """Parse the launcher's argv, play the start, serve until the end."""
    leash_to_starter()
    begun = process_begun() or time.time()
    parser = argparse.ArgumentParser(prog="fake-engine")
    parser.add_argument("serve", choices=["serve"])
    parser.add_argument("model", type=Path)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--served-model-name", nargs="+", default=[])
    parser.add_argument("--shutdown-timeout", type=float, default=0.0)
    parser.add_argument("--otlp-traces-endpoint")  # of one host's life: no part of what is compiled
    args, rest = parser.parse_known_args()
    path = args.model / "fake.json"
    ways: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    if "only_with" in ways and not any(ways["only_with"] in arg for arg in rest):
        ways = {}
    if ways.get("once"):
        path.unlink()
    _play_markers(begun)
    if ways.get("child"):
        subprocess.Popen([sys.executable, "-c", _SLEEPER], preexec_fn=leash)  # noqa: PLW1509  (no threads yet)
    for stage, process, text in STAGES:
        _misbehave(stage, ways)
        if stage == "engine_ready" and "kv_tokens" in ways:
            tokens = ways["kv_tokens"][bool(ways.get("loaded"))]
            say("EngineCore", f"GPU KV cache size: {tokens:,} tokens, Maximum concurrency for 8 tokens per request: 1x")
        say(process, text)
        if stage == "compile":
            time.sleep(ways.get("start_s", 0.0))
            if ways.get("compiles"):
                ways |= _compile(rest, ways)
                _startup_plan()
    with contextlib.suppress(asyncio.CancelledError):
        asyncio.run(FakeServer(args, ways).run())


def _play_markers(begun: float) -> None:
    """Three processes' worth of markers, all told by this one."""
    for role in ("api", "core", "worker"):
        for point in ("main", "plugin"):
            line = render(Marker(point=point, role=role, pid=PID, at=time.time(), begun=begun))
            os.write(2, f"{line}\n".encode())
        begun = time.time()


def _misbehave(stage: str, ways: dict[str, Any]) -> None:
    way = ways.get("exit_at", {})
    if stage and way.get("stage") == stage:
        say("EngineCore", way.get("line", f"ValueError: the fake was told to end at {stage}"), level="ERROR")
        say("APIServer", "RuntimeError: Engine core initialization failed. See root cause above.", level="ERROR")
        if "signal" in way:
            os.kill(PID, signal.Signals[way["signal"]])
            time.sleep(5)
        sys.exit(way.get("code", 1))
    if stage and ways.get("hang_at") == stage:
        time.sleep(600)


def _compile(arguments: list[str], ways: dict[str, Any]) -> dict[str, Any]:
    """Load the artifact, or make it; what it does to the engine's ways."""
    said = " ".join(arguments) + (str(time.time_ns()) if ways["compiles"] == "new" else "")
    key = hashlib.sha256(said.encode()).hexdigest()
    path = Path(os.environ["VLLM_CACHE_ROOT"], "torch_compile_cache", "torch_aot_compile", key, "rank_0_0", "model")
    made = b"compiled: " + said.encode() + random.Random(said).randbytes(ways.get("artifact_bytes", 0))
    found = path.read_bytes() if path.exists() else None
    if found is not None and b"POISON" in found:
        os.kill(PID, signal.SIGSEGV)
        time.sleep(5)
    if found is not None and b"RAISES" in found:
        say("EngineCore", "RuntimeError: the artifact cannot be run", level="ERROR")
        sys.exit(1)
    if found in (made, b"WRONG"):
        say("Worker", f"Directly load AOT compilation from path {path}")
        return {"wrong_golden": found == b"WRONG", "loaded": True}
    if found is not None:
        say("Worker", f"Compiling model again due to a load failure from {path}, reason: not what was saved")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(made)
    say("Worker", f"saved AOT compiled function to {path}")
    return {}


def _startup_plan() -> None:
    """Take the plan that is there or leave one, as the CUDA worker does: whatever arguments it was made with."""
    path = Path(os.environ["VLLM_CACHE_ROOT"], "startup_plan", "startup_plan_0123456789abcdef.json")
    if os.environ.get("VLLM_ENABLE_STARTUP_PLAN") != "1":
        return
    if path.exists():
        say("Worker", f"Applying persisted startup plan (fingerprint 0123456789abcdef): {path.read_text()}")
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text('{"schema": 1}')
    say("Worker", f"Saved startup plan to {path}")


def say(process: str, text: str, *, level: str = "INFO") -> None:
    """One log line in vLLM's format."""
    stamp = datetime.now(UTC).strftime("%m-%d %H:%M:%S")
    os.write(1, f"({process} pid={PID}) {level} {stamp} [fake.py:1] {text}\n".encode())


class FakeServer:
    """The HTTP side."""

    def __init__(self, args: argparse.Namespace, ways: dict[str, Any]) -> None:
        self._args, self._ways = args, ways
        self._names: list[str] = ways.get("served", args.served_model_name)
        files = sorted(args.model.glob("*.safetensors"))
        self._content = hashlib.sha256(b"".join(f.read_bytes() for f in files)).digest()
        self._running = 0
        self._completions_done = 0
        self._door = Door(given_credential(os.environ), datetime.now(UTC))
        self._count = itertools.count(1)
        self._stop = asyncio.Event()

    async def run(self) -> None:
        """Serve until SIGTERM, then let what runs finish."""
        gated = not self._ways.get("no_gate")
        app = web.Application(client_max_size=2**26, middlewares=[self._gate] if gated else [])
        app.router.add_get("/health", self._health)
        app.router.add_get("/v1/models", self._models)
        app.router.add_get("/metrics", self._metrics)
        app.router.add_post("/v1/completions", self._completions)
        app.router.add_post("/v1/chat/completions", self._chat)
        if gated:
            app.router.add_get(READY_PATH, self._ready)
            app.router.add_post(STATE_PATH + "{state}", self._state)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, self._args.host, self._args.port).start()
        os.write(1, b"INFO:     Application startup complete.\n")
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self._terminate)
        loop.add_signal_handler(signal.SIGUSR1, self._crash)
        if "crash_after_s" in self._ways:
            loop.call_later(self._ways["crash_after_s"], self._crash)
        await self._stop.wait()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._args.shutdown_timeout):
                while self._running:  # noqa: ASYNC110  (simple; a fake)
                    await asyncio.sleep(0.01)
        await runner.cleanup()

    def _terminate(self) -> None:
        if not self._ways.get("ignore_sigterm"):
            self._stop.set()

    def _crash(self) -> None:
        say("EngineCore", "RuntimeError: the fake was told to crash", level="ERROR")
        os._exit(3)

    @web.middleware
    async def _gate(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """The real gate's door behind aiohttp in place of ASGI; what warms a shape is done at once."""
        if request.path.startswith(OUR_PATHS):
            return await handler(request)
        sent = request.headers.get(CREDENTIAL_HEADER)
        credential = sent.encode() if sent is not None else None
        audience = audience_of(request.path)
        if refusal := self._door.judge(audience, credential, warm_up=WARM_UP_HEADER in request.headers):
            headers = {name.decode(): value.decode() for name, value in refusal.headers}
            return web.Response(status=refusal.status, body=refusal.body, headers=headers)
        if WARM_UP_HEADER in request.headers:
            return web.json_response({"choices": []})
        inside = credential is None and audience is Audience.CLIENTS
        self._door.in_flight += inside
        try:
            return await handler(request)
        finally:
            self._door.in_flight -= inside

    async def _ready(self, _: web.Request) -> web.Response:
        return web.Response(status=200 if self._door.ready else 503, body=self._door.report)

    async def _state(self, request: web.Request) -> web.Response:
        if not self._door.knows(request.headers.get(CREDENTIAL_HEADER, "").encode()):
            return web.Response(status=403)
        moved = self._door.move(State(request.match_info["state"]), datetime.now(UTC))
        say("APIServer", f"gate: {self._door.state}")
        return web.Response(status=200 if moved else 409, body=self._door.report)

    async def _health(self, _: web.Request) -> web.Response:
        return web.Response()

    async def _models(self, _: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": [{"id": name, "object": "model"} for name in self._names]})

    async def _metrics(self, _: web.Request) -> web.Response:
        label = f'{{engine="0",model_name="{self._names[0] if self._names else ""}"}}'
        return web.Response(
            text="# TYPE vllm:num_requests_running gauge\n"
            f"vllm:num_requests_running{label} {float(self._running)}\n"
            f"vllm:num_requests_waiting{label} 0.0\n"
            f'vllm:num_requests_waiting_by_reason{{engine="0",reason="capacity"}} 0.0\n' + self._steps()
        )

    def _steps(self) -> str:
        """vLLM's histogram of tokens of a step: cumulative counts."""
        edges = sorted(
            (int(edge), count * self._completions_done) for edge, count in self._ways.get("steps", {}).items()
        )
        cumulative = itertools.accumulate(count for _, count in edges)
        return "".join(
            f'vllm:iteration_tokens_total_bucket{{engine="0",le="{edge}.0"}} {float(count)}\n'
            for (edge, _), count in zip(edges, cumulative, strict=True)
        )

    async def _completions(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        return await self._answer(request, body, str(body.get("prompt", "")), int(body.get("max_tokens") or 16))

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        wanted = body.get("max_tokens") or body.get("max_completion_tokens") or self._ways.get("tokens", 8)
        return await self._answer(request, body, json.dumps(body.get("messages", [])), int(wanted), chat=True)

    async def _answer(
        self, request: web.Request, body: dict[str, Any], prompt: str, wanted: int, *, chat: bool = False
    ) -> web.StreamResponse:
        if "fail_status" in self._ways:
            return web.json_response({"error": {"message": "told to fail"}}, status=self._ways["fail_status"])
        if body.get("model") not in self._names:
            error = {"message": f"The model `{body.get('model')}` does not exist.", "code": 404}
            return web.json_response({"error": error}, status=404)
        self._running += 1
        try:
            tokens = self._tokens(prompt, wanted)
            if body.get("stream"):
                return await self._stream(request, body, tokens, chat=chat)
            await asyncio.sleep(self._ways.get("answer_s", 0.0))
            return web.json_response(self._whole(body, tokens, chat=chat))
        finally:
            self._running -= 1
            self._completions_done += 1

    def _tokens(self, prompt: str, wanted: int) -> list[int]:
        salt = str(next(self._count)) if self._ways.get("flaky_golden") else ""
        salt += "wrong" if self._ways.get("wrong_golden") else ""
        seed = self._content + f"{prompt}{salt}".encode()
        return [int.from_bytes(hashlib.sha256(seed + bytes([n % 256])).digest()[:2]) % 512 for n in range(wanted)]

    def _whole(self, body: dict[str, Any], tokens: list[int], *, chat: bool) -> dict[str, Any]:
        text = "".join(f"t{token} " for token in tokens)
        content = {"message": {"role": "assistant", "content": text}} if chat else {"text": text}
        choice: dict[str, Any] = {"index": 0, "finish_reason": "length", **content}
        if body.get("return_token_ids") and not self._ways.get("no_token_ids"):
            choice["token_ids"] = tokens
        usage = {"prompt_tokens": 1, "completion_tokens": len(tokens), "total_tokens": len(tokens) + 1}
        kind = "chat.completion" if chat else "text_completion"
        return {"id": f"fake-{next(self._count)}", "object": kind, "created": int(time.time()),
                "model": body["model"], "choices": [choice], "usage": usage}  # fmt: skip

    async def _stream(
        self, request: web.Request, body: dict[str, Any], tokens: list[int], *, chat: bool
    ) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
        await response.prepare(request)
        async for event in self._events(body, tokens, chat=chat):
            await response.write(f"data: {event}\n\n".encode())
        await response.write_eof()
        return response

    async def _events(self, body: dict[str, Any], tokens: list[int], *, chat: bool) -> AsyncIterator[str]:
        number = next(self._count)
        for place, token in enumerate(tokens):
            text, last = f"t{token} ", place == len(tokens) - 1
            content: dict[str, Any] = {"delta": {"content": text}} if chat else {"text": text}
            choice = {"index": 0, "finish_reason": "length" if last else None, **content}
            kind = "chat.completion.chunk" if chat else "text_completion"
            yield json.dumps({"id": f"fake-{number}", "object": kind, "created": int(time.time()),
                              "model": body["model"], "choices": [choice]})  # fmt: skip
            await asyncio.sleep(self._ways.get("chunk_s", 0.0))
        yield "[DONE]"


if __name__ == "__main__":
    main()
