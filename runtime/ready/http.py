"""How an engine on loopback is asked: no proxies, no redirects, a bounded wait."""

import httpx


def client(url: str, timeout_s: float) -> httpx.AsyncClient:
    """An HTTP client for one engine; `timeout_s` bounds each connect, read and write.

    `verify=False` spares reading the CA bundle (20 ms of CPU): loopback is plain HTTP.
    """
    return httpx.AsyncClient(base_url=url, timeout=timeout_s, trust_env=False, verify=False)  # noqa: S501  (plain HTTP)
