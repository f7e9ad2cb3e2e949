"""The hook servers of a home: each running Mindhold writes down its port and token, and a hook asks it."""

from __future__ import annotations

import os
import sys
import time

from mindhold.hooks.environment import agent as agent_here
from mindhold.hooks.fast_json import parse_record, write_json
from mindhold.hooks.files import hooks_path, make_hooks_folder, names_in, read_contents, remove, write_whole

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Sequence
    from socket import socket
    from typing import Any
else:
    try:
        from _socket import socket  # the module around it takes longer to load than a question to answer
    except ImportError:
        from socket import socket

SERVERS_FOLDER = "desks"
HOST = "127.0.0.1"
MOST_ASKED = 3
LATE_SECONDS = 60.0  # for which one that did not answer in time is left alone
LONGEST_ANSWER = 1 << 20
_LONGEST_NOTE = 4096
_INTERNET, _STREAM = 2, 1  # AF_INET and SOCK_STREAM are these on every system


def register_server(home: str, port: int, agents: Sequence[str] = ("",)) -> str:
    """Tells hooks that this process answers on that port; the token that they must have. Raises OSError.

    `agents` are those whom it answers; "" is who names none.
    """
    token = os.urandom(24).hex()
    inside = make_hooks_folder(home, SERVERS_FOLDER)
    note = {"port": port, "token": token, "agents": list(agents)}
    write_whole(os.path.join(inside, f"{os.getpid()}.json"), write_json(note).encode("ascii"))
    return token


def unregister_server(home: str) -> None:
    """This process answers no longer."""
    remove(hooks_path(home, SERVERS_FOLDER, f"{os.getpid()}.json"))


def remove_stale_servers(home: str) -> None:
    """Removes what processes left that have gone."""
    inside = hooks_path(home, SERVERS_FOLDER)
    for name in names_in(inside, ".json"):
        if _gone(name):
            remove(os.path.join(inside, name))


def ask_server(home: str, question: dict[str, Any], timeout: float) -> dict[str, Any] | None:
    """The first answer, of the desk opened last for the agent of the surroundings; None when none answers within so many
    seconds.

    One that is too late is left alone for a while: it is stopped, or at something else.
    """
    until, agent, left = time.monotonic() + timeout, agent_here(), MOST_ASKED
    inside = hooks_path(home, SERVERS_FOLDER)
    paths = [os.path.join(inside, name) for name in names_in(inside, ".json")]
    for path in sorted(paths, key=_opened, reverse=True):
        note = None if _is_late(path) else _note(path)
        if note is None or agent not in note["agents"]:
            continue
        if not left:
            break
        left -= 1
        try:
            return parse_record(_answer(note["port"], {"token": note["token"], **question}, until))
        except ConnectionRefusedError:
            remove(path)
        except TimeoutError:
            _note_late(path)
            return None
        except (OSError, ValueError):
            continue
    return None


def _answer(port: int, question: dict[str, Any], until: float) -> bytes:
    line = socket(_INTERNET, _STREAM)
    try:
        _wait(line, until)
        line.connect((HOST, port))
        line.sendall(write_json(question).encode("ascii") + b"\n")
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
        note = parse_record(read_contents(path, _LONGEST_NOTE))
    except (OSError, ValueError):
        return None
    port, token = note.get("port"), note.get("token")
    if not isinstance(port, int) or not 0 < port < 65536 or not isinstance(token, str):
        return None
    return note if isinstance(note.get("agents"), list) else None


def _note_late(path: str) -> None:
    """When it was opened must stay as it is, so that it is the last look at it which is put off."""
    try:
        found = os.lstat(path)
        os.utime(path, (time.time() + LATE_SECONDS, found.st_mtime))
    except OSError:
        return


def _is_late(path: str) -> bool:
    try:
        return 0 < os.lstat(path).st_atime - time.time() <= LATE_SECONDS
    except OSError:
        return True


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
