"""Read by every Python process that has this folder on its path: writes down that it is overheard, and each address that it
wants to reach and that isn't on this machine."""

from __future__ import annotations

import ipaddress
import os
import sys
from typing import Any

_TOLD = os.environ.get("ADDRESSES_TOLD", "")


def _host(event: str, arguments: tuple[Any, ...]) -> Any:
    """What a process is about to reach, or to ask the name of; None where it is no address."""
    if event in ("socket.getaddrinfo", "socket.gethostbyname", "socket.getnameinfo"):
        return arguments[0][0] if event == "socket.getnameinfo" else arguments[0]
    if event in ("socket.connect", "socket.sendto", "socket.sendmsg", "socket.bind"):
        address = arguments[1]
        return (
            address[0] if isinstance(address, tuple) and address else None
        )  # a path is a socket of this machine
    return None


def _stays(host: Any) -> bool:
    if host in (None, "", b"", "localhost", b"localhost"):
        return True
    try:
        return ipaddress.ip_address(host.decode() if isinstance(host, bytes) else host).is_loopback
    except ValueError:
        return False


def _heard(event: str, arguments: tuple[Any, ...]) -> None:
    if event.startswith("socket.") and not _stays(host := _host(event, arguments)):
        _write(_TOLD, f"{event} {host}")


def _write(path: str, line: str) -> None:
    with open(path, "a", encoding="utf-8") as file:  # noqa: PTH123 - a start is to load nothing more
        file.write(f"{line} {' '.join(sys.orig_argv[1:])}\n")


if _TOLD:
    _write(f"{_TOLD}.overheard", "started")
    sys.addaudithook(_heard)
