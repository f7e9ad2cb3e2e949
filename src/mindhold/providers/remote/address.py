"""Where a service may be: over TLS, or on this machine; elsewhere in the clear only if the person says so."""

from __future__ import annotations

from ipaddress import ip_address
from urllib.parse import urlsplit

from mindhold.model.errors import SettingsError


def endpoint(base_url: str, *, plain_http: bool, path: str, section: str) -> str:
    """The address that texts are sent to; `section` is of the settings that name it. Raises SettingsError."""
    setting = f"{section}.base_url"
    if not base_url.strip().isprintable() or " " in base_url.strip():
        raise _wrong(setting, "holds characters that no address has", advice="Copy it anew.")
    try:
        parts = urlsplit(base_url.strip())
        host, _ = parts.hostname or "", parts.port
    except ValueError as error:
        raise _wrong(setting, "is no address") from error
    if parts.scheme not in ("http", "https") or not host:
        raise _wrong(setting, "is no address", advice="Give one such as http://localhost:11434/v1.")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise _wrong(
            setting,
            "holds more than a place",
            advice=f"Give the address alone; a key has a setting of its own, such as {section}.openai_key.",
        )
    if parts.scheme == "http" and not is_loopback(host) and not plain_http:
        raise _wrong(
            setting,
            f"leads to {host} by plain http, where others can read every text and the key",
            advice=f"Use https://, or say {section}.plain_http = true for a network that you trust.",
        )
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/').removesuffix(path)}{path}"


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


def _wrong(setting: str, what: str, *, advice: str = "Correct it.") -> SettingsError:
    return SettingsError(f"{setting} {what}.", advice=advice)
