"""Where a service may be: over TLS, or on this machine; elsewhere in the clear only if the person says so."""

from __future__ import annotations

from ipaddress import ip_address
from urllib.parse import urlsplit

from recollect.model.errors import SettingsError

_ENDPOINT = "/embeddings"


def endpoint(base_url: str, *, plain_http: bool) -> str:
    """The address that texts are sent to. Raises SettingsError."""
    if not base_url.strip().isprintable() or " " in base_url.strip():
        raise _wrong("holds characters that no address has", advice="Copy it anew.")
    try:
        parts = urlsplit(base_url.strip())
        host, _ = parts.hostname or "", parts.port
    except ValueError as error:
        raise _wrong("is no address") from error
    if parts.scheme not in ("http", "https") or not host:
        raise _wrong("is no address", advice="Give one such as http://localhost:11434/v1.")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise _wrong(
            "holds more than a place",
            advice="Give the address alone; a key goes into embedding.compatible_key (or openai_key, voyage_key).",
        )
    if parts.scheme == "http" and not is_loopback(host) and not plain_http:
        raise _wrong(
            f"leads to {host} by plain http, where others can read every text and the key",
            advice="Use https://, or say embedding.plain_http = true for a network that you trust.",
        )
    path = parts.path.rstrip("/")
    return f"{parts.scheme}://{parts.netloc}{path.removesuffix(_ENDPOINT)}{_ENDPOINT}"


def host_of(address: str) -> str:
    """For people to read."""
    return urlsplit(address).hostname or address


def is_loopback(host: str) -> bool:
    """Whether it is this machine by name or by number."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _wrong(what: str, *, advice: str = "Correct it.") -> SettingsError:
    return SettingsError(f"embedding.base_url {what}.", advice=advice)
