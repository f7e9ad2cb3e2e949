"""Where an OAuth client may be sent back to: one rule for those who register, who ask and who answer."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlsplit

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
UNSAFE_SCHEMES = frozenset(
    {
        "",
        "about",
        "blob",
        "data",
        "file",
        "filesystem",
        "ftp",
        "javascript",
        "vbscript",
        "view-source",
        "ws",
        "wss",
    }
)


def is_safe(uri: str) -> bool:
    """Whether codes may be sent there: nowhere that runs as a script or is heard by others on the way."""
    try:
        parts = urlsplit(uri)
        host = parts.hostname
    except ValueError:
        return False
    if (
        "#" in uri
        or parts.username is not None
        or parts.password is not None
        or parts.scheme in UNSAFE_SCHEMES
    ):
        return False
    if any(char.isspace() or not char.isprintable() for char in uri):
        return False
    return (
        bool(host) and (parts.scheme == "https" or host in LOOPBACK)
        if parts.scheme in ("http", "https")
        else True
    )


def is_registered(asked: str, registered: Sequence[str]) -> bool:
    """To the letter; but an app on this machine listens where there is room, so its port may differ (RFC 8252)."""
    if _with_path(asked) in {_with_path(one) for one in registered}:
        return True
    wanted = _without_port(asked)
    return wanted is not None and any(_without_port(one) == wanted for one in registered)


def _without_port(uri: str) -> tuple[str | None, ...] | None:
    """What an address on this machine is besides its port; None for one elsewhere."""
    if not is_safe(uri):
        return None
    parts = urlsplit(uri)
    here = parts.scheme == "http" and parts.hostname in LOOPBACK
    return (parts.hostname, parts.path or "/", parts.query) if here else None


def _with_path(uri: str) -> str:
    """An address without a path is that of the root: some write it, some don't."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return uri
    web = parts.scheme in ("http", "https") and not parts.path
    return parts._replace(path="/").geturl() if web else uri
