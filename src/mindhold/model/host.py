"""Hosts and folders of this machine: loopback addresses, safe OAuth redirects, and where other programs keep settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit


def is_loopback(host: str) -> bool:
    """Whether only this machine is meant. Of names that is `localhost` alone: others are looked up, who knows where."""
    if host == "localhost":
        return True
    try:
        address = ip_address(host)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback


LOOPBACK_HOSTS = frozenset({"localhost", "127.0.0.1", "::1"})
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


def is_safe_redirect(uri: str) -> bool:
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
        bool(host) and (parts.scheme == "https" or host in LOOPBACK_HOSTS)
        if parts.scheme in ("http", "https")
        else True
    )


def is_registered_redirect(asked: str, registered: Sequence[str]) -> bool:
    """To the letter; but an app on this machine listens where there is room, so its port may differ (RFC 8252)."""
    if _with_path(asked) in {_with_path(one) for one in registered}:
        return True
    wanted = _without_port(asked)
    return wanted is not None and any(_without_port(one) == wanted for one in registered)


def _without_port(uri: str) -> tuple[str | None, ...] | None:
    """What an address on this machine is besides its port; None for one elsewhere."""
    if not is_safe_redirect(uri):
        return None
    parts = urlsplit(uri)
    here = parts.scheme == "http" and parts.hostname in LOOPBACK_HOSTS
    return (parts.hostname, parts.path or "/", parts.query) if here else None


def _with_path(uri: str) -> str:
    """An address without a path is that of the root: some write it, some don't."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return uri
    web = parts.scheme in ("http", "https") and not parts.path
    return parts._replace(path="/").geturl() if web else uri


@dataclass(frozen=True, slots=True)
class ClientFolders:
    """`programs` is where applications keep theirs: ~/Library/Application Support, %APPDATA% or ~/.config."""

    user: Path
    programs: Path
    codex: Path
    claude: Path  # Claude Code's folder

    @property
    def claude_settings(self) -> Path:
        return self.claude / "settings.json"

    @property
    def claude_json(self) -> Path:
        """Where Claude Code keeps the servers of a person."""
        usual = self.claude == self.user / ".claude"
        return (self.user if usual else self.claude) / ".claude.json"
