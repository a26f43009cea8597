"""Which paths an engine may be asked for through the portal, and which service a path names.

vLLM serves its admin routes (/sleep, /collective_rpc, /reset_prefix_cache, /metrics, …) on the same port, without
authentication. So this is a list of what passes, never of what does not, with one exception below.
"""

from urllib.parse import unquote

_TOP_LEVEL = frozenset({"/tokenize", "/detokenize", "/score", "/rerank", "/pooling", "/classify"})

# These stand under /v1/ and yet change the engine (vllm/entrypoints/serve/lora).
_ADMIN_UNDER_V1 = frozenset({"/v1/load_lora_adapter", "/v1/unload_lora_adapter"})


def forwardable(raw_path: str) -> bool:
    """Whether a path, as it came on the wire, may go to an engine.

    It is judged decoded, as the engine will read it; dot segments are refused, so that no step on the way can
    turn `/v1/../sleep` into `/sleep`.
    """
    path = unquote(raw_path)
    segments = path.split("/")
    if "." in segments or ".." in segments or "" in segments[1:-1] or "\\" in path or not path.isprintable():
        return False
    path = path.rstrip("/")
    return path in _TOP_LEVEL or (path.startswith("/v1/") and path not in _ADMIN_UNDER_V1)


def service_prefix(raw_path: str) -> tuple[str, str] | None:
    """`/namespace/name/rest` → (`namespace/name`, `/rest`, still encoded); None for every other path."""
    if forwardable(raw_path):
        return None
    parts = raw_path.split("/", 3)
    if len(parts) < 4 or parts[0] or not forwardable("/" + parts[3]):
        return None
    return f"{unquote(parts[1])}/{unquote(parts[2])}", "/" + parts[3]
