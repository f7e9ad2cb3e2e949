"""What can be set of a server that the command line asks instead of the store on this machine."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from mindhold.settings.setting import setting


def _no_address(value: str) -> str:
    if not value:
        return ""
    try:
        parts = urlsplit(value)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host = None
    if not host or parts.scheme not in ("http", "https"):
        return "no address; one such as https://memory.example.org is"
    return ""


@dataclass(frozen=True, slots=True)
class RemoteSettings:
    url: str = setting(
        "",
        "Address of a `mindhold serve` that commands ask, instead of the store on this machine; empty means none. The "
        "MCP server and the hooks of this machine keep to its own store.",
        doubt=_no_address,
    )
    key: str = setting(
        "",
        "Key to it: the owner's, or one of `mindhold keys create`. In the settings file it is for the remote.url there alone.",
        secret=True,
    )
    insecure: bool = setting(False, "Whether the key may go to another machine by http, readable on the way.")
    wait_seconds: int = setting(
        60, "How long one request to it and its answer may take.", least=1, most=3_600
    )
