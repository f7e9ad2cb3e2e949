"""Running Recollects of the same home, which answer what a file can't: each has a port of this machine and a token.

A question is one line of JSON with the token; so is the answer. A file is believed only if it is ours alone.
"""

from __future__ import annotations

import os
import sys
import time

from recollect.bare.files import contents, folder, made_folder, names_in, remove, write_whole
from recollect.bare.notation import record, written

TYPE_CHECKING = False
if TYPE_CHECKING:
    from socket import socket
    from typing import Any
else:
    try:
        from _socket import socket  # the module around it takes longer to load than a question to answer
    except ImportError:
        from socket import socket

DESKS = "desks"
HOST = "127.0.0.1"
MOST_ASKED = 3
LONGEST_ANSWER = 1 << 20
_LONGEST_NOTE = 4096
_INTERNET, _STREAM = 2, 1  # AF_INET and SOCK_STREAM are these on every system


def open_desk(home: str, port: int) -> str:
    """Tells hooks that this process answers on that port; the token that they must have. Raises OSError."""
    token = os.urandom(24).hex()
    inside = made_folder(home, DESKS)
    note = {"port": port, "token": token}
    write_whole(os.path.join(inside, f"{os.getpid()}.json"), written(note).encode("ascii"))
    return token


def close_desk(home: str) -> None:
    """This process answers no longer."""
    remove(folder(home, DESKS, f"{os.getpid()}.json"))


def tidy(home: str) -> None:
    """Removes what processes left that have gone."""
    inside = folder(home, DESKS)
    for name in names_in(inside, ".json"):
        if _gone(name):
            remove(os.path.join(inside, name))


def ask(home: str, question: dict[str, Any], timeout: float) -> dict[str, Any] | None:
    """The first answer, of the desk opened last; None when none answers within so many seconds."""
    until = time.monotonic() + timeout
    inside = folder(home, DESKS)
    for path in sorted((os.path.join(inside, name) for name in names_in(inside, ".json")), key=_opened)[
        : -MOST_ASKED - 1 : -1
    ]:
        note = _note(path)
        if note is None:
            continue
        try:
            return record(_answer(note["port"], {"token": note["token"], **question}, until))
        except ConnectionRefusedError:
            remove(path)
        except (OSError, ValueError):
            continue
    return None


def _answer(port: int, question: dict[str, Any], until: float) -> bytes:
    line = socket(_INTERNET, _STREAM)
    try:
        _wait(line, until)
        line.connect((HOST, port))
        line.sendall(written(question).encode("ascii") + b"\n")
        answer = b""
        while b"\n" not in answer and len(answer) < LONGEST_ANSWER:
            _wait(line, until)
            part = line.recv(1 << 16)
            if not part:
                break
            answer += part
        return answer
    finally:
        line.close()


def _wait(line: socket, until: float) -> None:
    left = until - time.monotonic()
    if left <= 0:
        raise TimeoutError
    line.settimeout(left)


def _note(path: str) -> dict[str, Any] | None:
    """What a file says, if it is to be believed and its process is there."""
    if _gone(os.path.basename(path)):
        remove(path)
        return None
    try:
        if not _ours(os.lstat(path)):
            return None
        note = record(contents(path, _LONGEST_NOTE))
    except (OSError, ValueError):
        return None
    port, token = note.get("port"), note.get("token")
    return note if isinstance(port, int) and 0 < port < 65536 and isinstance(token, str) else None


def _opened(path: str) -> float:
    try:
        return os.lstat(path).st_mtime
    except OSError:
        return 0.0


if sys.platform == "win32":

    def _ours(found: os.stat_result) -> bool:
        """The home folder's own rights decide there."""
        return True

    def _gone(name: str) -> bool:
        """Not to be asked there: os.kill would end it. Who refuses to answer has gone."""
        return False

else:

    def _ours(found: os.stat_result) -> bool:
        """Written by us, and by nobody else."""
        return found.st_uid == os.geteuid() and not found.st_mode & 0o022

    def _gone(name: str) -> bool:
        number = name.partition(".")[0]
        if not number.isdecimal() or number == "0":
            return True
        try:
            os.kill(int(number), 0)
        except ProcessLookupError:
            return True
        except (OSError, OverflowError):
            return False
        return False
