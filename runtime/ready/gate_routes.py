"""Which of vLLM's routes are for whom: an allow-list, by the path that its router matches.

vLLM asks nobody who they are on most of these routes, and adds new ones with each version; so what is not named here is
shut. The lists are those of vLLM 0.32; `tests/engine/test_gate_routes.py` reads the routes of the installed version and
fails on one that nobody has classified.
"""

import re
from enum import Enum, auto
from typing import Final


class Audience(Enum):
    """Who may ask a path."""

    ANYONE = auto()
    """Probes and monitoring: at any time, also before the engine may answer requests."""
    CLIENTS = auto()
    """Requests for answers: while the gate admits."""
    HOST = auto()
    """A known route that commands the engine or tells of its inside: with the credential only."""
    NOBODY_KNOWN = auto()
    """No route that we know: with the credential only."""


ANYONE: Final = frozenset({"/health", "/metrics", "/version"})
"""Liveness, counts without content and a version number: Prometheus and the kubelet have no credential of ours."""

CLIENTS: Final = frozenset(
    {
        "/v1/models",
        *("/v1/completions", "/v1/chat/completions", "/v1/chat/completions/batch"),
        *("/v1/responses", "/v1/messages", "/v1/messages/count_tokens"),
        *("/v1/embeddings", "/v1/score", "/v1/rerank", "/v2/embed", "/v2/rerank"),
        *("/score", "/rerank", "/pooling", "/classify", "/generative_scoring", "/v1/systemone"),
        *("/v1/audio/transcriptions", "/v1/audio/translations", "/v1/realtime"),
        *("/tokenize", "/detokenize", "/cohere/v2/chat"),
        # These exist only where an argument of the service asks for them (--enable-tokenizer-info-endpoint,
        # --enable-scale-out), and carry one request each.
        *("/tokenizer_info", "/inference/v1/generate", "/cohere/v2/chat/render"),
        *("/v1/completions/render", "/v1/completions/derender", "/v1/responses/render", "/v1/messages/render"),
        *("/v1/chat/completions/render", "/v1/chat/completions/derender"),
    }
)
"""Each takes one request and gives its answer."""

_CLIENT_TEMPLATES: Final = re.compile(r"/v1/responses/[^/]+(?:/cancel)?")
"""`/v1/responses/{response_id}` and its `/cancel`: an id that only its asker was given."""

HOST: Final = frozenset(
    {
        # Dev mode (VLLM_SERVER_DEV_MODE=1): parks, reconfigures and rewrites the engine.
        *("/sleep", "/wake_up", "/is_sleeping", "/release_kv_cache_memory", "/collective_rpc", "/server_info"),
        *("/reset_prefix_cache", "/reset_mm_cache", "/reset_encoder_cache"),
        *("/pause", "/resume", "/is_paused", "/abort_requests", "/get_world_size"),
        *("/init_weight_transfer_engine", "/shutdown_weight_transfer_engine", "/start_weight_update"),
        *("/start_draft_weight_update", "/update_weights", "/finish_weight_update", "/update_weight_version"),
        *("/weight_info", "/weight_checker"),
        # Always there: they resize, profile or describe the engine, or end the requests of others.
        *("/scale_elastic_ep", "/is_scaling_elastic_ep", "/start_profile", "/stop_profile"),
        *("/inference/v1/abort_requests", "/fault_tolerance/apply", "/fault_tolerance/status"),
        *("/kv_event_sources", "/load", "/docs", "/docs/oauth2-redirect", "/redoc", "/openapi.json", "/static"),
        # Adapters: they load weights from a path that the request names.
        *("/v1/load_lora_adapter", "/v1/unload_lora_adapter", "/adapters", "/adapters/{adapter_name}"),
        # SageMaker's second door to the same answers: its headers open sessions and choose adapters.
        *("/ping", "/invocations"),
    }
)
"""Known, and shut. Only the message differs from that for a path that nobody knows."""

_HOST_PREFIXES: Final = ("/adapters/", "/static/")


def audience_of(path: str) -> Audience:
    """Who may ask `path`, the decoded path below any root path: compared as the router compares it, sign by sign.

    A slash at the end is that of the path without it: vLLM's router redirects such a request there.
    """
    asked = path.removesuffix("/")
    if asked in CLIENTS:
        return Audience.CLIENTS
    if asked in ANYONE:
        return Audience.ANYONE
    if _CLIENT_TEMPLATES.fullmatch(asked):
        return Audience.CLIENTS
    if asked in HOST or asked.startswith(_HOST_PREFIXES):
        return Audience.HOST
    return Audience.NOBODY_KNOWN


def route_path(path: str, root_path: str) -> str:
    """The path that the router matches: below `root_path` where it lies below it, else as it is.

    As Starlette 0.46–1.x does it; a gate that cut otherwise would judge another route than the one that answers.
    """
    if not root_path or not path.startswith(root_path):
        return path
    rest = path[len(root_path) :]
    return rest if not rest or rest.startswith("/") else path
