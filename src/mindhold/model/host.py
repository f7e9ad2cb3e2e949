"""Loopback addresses, safe OAuth redirects, and where other programs keep their settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit


def is_loopback(host: str) -> bool:
    """Whether the host is this machine. The only name that counts is `localhost`: others are resolved somewhere else."""
    if host == "localhost":
        return True
    try:
        address = ip_address(host)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback


def is_service_here(host: str) -> bool:
    """Whether a service that we call is on this machine. Names below `localhost` count too, as systems resolve them (RFC 6761)."""
    return is_loopback(host) or host.endswith(".localhost")


LOOPBACK_HOSTS = frozenset({"localhost", "127.0.0.1", "::1"})
UNSAFE_SCHEMES = frozenset(
    ["", *"about blob data file filesystem ftp javascript vbscript view-source ws wss".split()]
)


def is_safe_redirect(uri: str) -> bool:
    """Whether codes may be sent there: not to a script, and not unencrypted over the network."""
    try:
        parts = urlsplit(uri)
        host = parts.hostname
    except ValueError:
        return False
    has_user = parts.username is not None or parts.password is not None
    if "#" in uri or has_user or parts.scheme in UNSAFE_SCHEMES:
        return False
    if any(char.isspace() or not char.isprintable() for char in uri):
        return False
    if parts.scheme in ("http", "https"):
        return bool(host) and (parts.scheme == "https" or host in LOOPBACK_HOSTS)
    return True


def is_registered_redirect(uri: str, registered: Sequence[str]) -> bool:
    """Whether the URI is registered exactly; for an app on this machine the port may differ (RFC 8252)."""
    if _with_path(uri) in {_with_path(candidate) for candidate in registered}:
        return True
    target = _without_port(uri)
    return target is not None and any(_without_port(candidate) == target for candidate in registered)


def _without_port(uri: str) -> tuple[str | None, ...] | None:
    if not is_safe_redirect(uri):
        return None
    parts = urlsplit(uri)
    is_local = parts.scheme == "http" and parts.hostname in LOOPBACK_HOSTS
    return (parts.hostname, parts.path or "/", parts.query) if is_local else None


def _with_path(uri: str) -> str:
    """Add the root path to a web address that has none."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return uri
    lacks_path = parts.scheme in ("http", "https") and not parts.path
    return parts._replace(path="/").geturl() if lacks_path else uri


@dataclass(frozen=True, slots=True)
class ClientFolders:
    """Folders of the user's programs.

    `programs` is where applications keep settings: ~/Library/Application Support, %APPDATA% or ~/.config.
    """

    user: Path
    programs: Path
    codex: Path
    claude: Path  # Claude Code's folder

    @property
    def claude_settings(self) -> Path:
        return self.claude / "settings.json"

    @property
    def claude_json(self) -> Path:
        """The file in which Claude Code keeps a user's servers."""
        is_default = self.claude == self.user / ".claude"
        return (self.user if is_default else self.claude) / ".claude.json"
