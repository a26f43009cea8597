"""How an engine on loopback is asked: no proxies, no redirects, a bounded wait."""

import ssl
from collections.abc import Mapping
from functools import cache

import httpx


@cache
def _no_tls() -> ssl.SSLContext:
    """One for all clients: loopback is plain HTTP, and a context each would be made and thrown away every second."""
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def client(url: str, timeout_s: float, headers: Mapping[str, str] | None = None) -> httpx.AsyncClient:
    """An HTTP client for one engine; `timeout_s` bounds each connect, read and write; `headers` go with each one."""
    return httpx.AsyncClient(base_url=url, timeout=timeout_s, headers=headers, trust_env=False, verify=_no_tls())
