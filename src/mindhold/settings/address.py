"""Where a service is said to be, checked when it is written down; whoever calls it checks again."""

from __future__ import annotations

from ipaddress import ip_address
from urllib.parse import urlsplit

from mindhold.model.errors import SettingsError
from mindhold.settings.declared import Settings

SECTIONS = {"llm.base_url": "llm", "embedding.base_url": "embedding"}


def check_address(settings: Settings, key: str, value: str) -> None:
    """Nothing for other keys, and for an empty one. Raises SettingsError."""
    if key not in SECTIONS or not value.strip():
        return
    section = SECTIONS[key]
    try:
        parts = urlsplit(value.strip())
        host, _ = parts.hostname or "", parts.port
    except ValueError as error:
        raise _wrong(key, value) from error
    if parts.scheme not in ("http", "https") or not host or any(map(str.isspace, value.strip())):
        raise _wrong(key, value)
    plain_http: bool = getattr(settings, section).plain_http
    if parts.scheme == "http" and not _is_here(host) and not plain_http:
        raise SettingsError(
            f"{key} would lead to {host} by plain http, where others can read every text and the key.",
            advice=f"Use https://, or for a network that you trust `mindhold config set {section}.plain_http true` first.",
        )


def _wrong(key: str, value: str) -> SettingsError:
    return SettingsError(
        f"{key} can't be {value[:80]!r}, which is no address.",
        advice="Give one with http:// or https://, such as http://localhost:11434/v1.",
    )


def _is_here(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
