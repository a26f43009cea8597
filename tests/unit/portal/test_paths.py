"""What may reach an engine, and what never does."""

import pytest

from activator_ext.portal.paths import forwardable, service_prefix


@pytest.mark.parametrize(
    "path",
    [
        "/v1/chat/completions",
        "/v1/completions",
        "/v1/embeddings",
        "/v1/responses/resp_1",
        "/v1/models/team-a%2Fchat",
        "/v1/models/",
        "/tokenize",
        "/detokenize",
        "/score",
        "/rerank",
        "/pooling",
        "/classify",
    ],
)
def test_served(path: str) -> None:
    assert forwardable(path)


@pytest.mark.parametrize(
    "path",
    [
        "/sleep",
        "/wake_up",
        "/is_sleeping",
        "/collective_rpc",
        "/metrics",
        "/health",
        "/reset_prefix_cache",
        "/pause",
        "/resume",
        "/abort_requests",
        "/server_info",
        "/v1/load_lora_adapter",
        "/v1/unload_lora_adapter/",
        "/v1%2Fload_lora_adapter",
        "/v1",
        "/",
        "",
        "v1/models",
        "/v1/../sleep",
        "/v1/%2e%2e/sleep",
        "/v1/..%2Fsleep",
        "/v1/./x",
        "//v1/models",
        "/v1//../sleep",
        "/v1/..\\sleep",
        "/v1/a%0d%0ab",
        "/v2/models",
        "/tokenizers",
    ],
)
def test_never_served(path: str) -> None:
    assert not forwardable(path)
    assert service_prefix(path) is None


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/team-a/chat/v1/chat/completions", ("team-a/chat", "/v1/chat/completions")),
        ("/team-a/chat/tokenize", ("team-a/chat", "/tokenize")),
        ("/team-a/chat/v1/models/a%2Fb", ("team-a/chat", "/v1/models/a%2Fb")),
        ("/team-a/chat/sleep", None),
        ("/team-a/chat/v1/../../sleep", None),
        ("/team-a/chat/", None),
        ("/team-a/chat", None),
        ("/v1/chat/v1/models", None),
    ],
)
def test_a_service_prefix_is_taken_off(path: str, expected: tuple[str, str] | None) -> None:
    assert service_prefix(path) == expected
