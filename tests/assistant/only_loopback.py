"""A plugin for a run that may talk to this machine only: whoever turns elsewhere is noted, and the run fails.

`python only_loopback.py PYTEST...` is such a run, in a network of its own that has nothing but the loopback.
"""

from __future__ import annotations

import os
import socket
import struct
import sys
from pathlib import Path

_UP = 0x1 | 0x40
_SET_FLAGS = 0x8914  # SIOCSIFFLAGS
_WATCHED = {"socket.connect", "socket.sendto", "socket.getaddrinfo", "socket.gethostbyname"}
_NOTES = "ONLY_LOOPBACK_NOTES"
_HERE = ("127.", "::1", "localhost")


def watch() -> None:
    """From now on every turn to another machine is a line in the notes."""
    notes = Path(os.environ[_NOTES])

    def heard(event: str, given: tuple[object, ...]) -> None:
        if event in _WATCHED:
            place = given[0] if event.startswith("socket.get") else given[1]
            host = place[0] if isinstance(place, tuple) else place
            if isinstance(host, str) and place is not host and not host.startswith(_HERE):
                with notes.open("a", encoding="utf-8") as lines:
                    lines.write(f"{event} {place}\n")

    sys.addaudithook(heard)


def begin(argv: list[str]) -> None:
    """The loopback up, then Python with these arguments."""
    import fcntl

    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, _SET_FLAGS, struct.pack("16sh", b"lo", _UP))
    assert [name for _, name in socket.if_nameindex()] == ["lo"]
    os.execv(sys.executable, [sys.executable, *argv])


if __name__ == "__main__":
    begin(sys.argv[1:])
elif _NOTES in os.environ:
    watch()
