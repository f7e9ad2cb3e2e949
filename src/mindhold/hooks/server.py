"""The hook servers of a home: each running Mindhold writes its port and token to a file, and hooks ask it."""

from __future__ import annotations

import os
import sys
import time

from mindhold.hooks.environment import agent_name
from mindhold.hooks.fast_json import parse_record, write_json
from mindhold.hooks.files import hooks_path, list_names, make_hooks_folder, read_contents, remove, write_whole

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
MOST_SERVERS = 3
LATE_SECONDS = 60.0  # how long a server that didn't answer in time is left alone
LONGEST_ANSWER = 1 << 20
_LONGEST_NOTE = 4096
_INTERNET, _STREAM = 2, 1  # AF_INET and SOCK_STREAM have these values on every system


def register_server(home: str, port: int, agents: Sequence[str] = ("",)) -> str:
    """Announce that this process answers hooks on that port, and return the token for it. Raises OSError.

    `agents` are those that it answers; "" is a caller that names none.
    """
    token = os.urandom(24).hex()
    folder = make_hooks_folder(home, SERVERS_FOLDER)
    note = {"port": port, "token": token, "agents": list(agents)}
    write_whole(os.path.join(folder, f"{os.getpid()}.json"), write_json(note).encode("ascii"))
    return token


def unregister_server(home: str) -> None:
    """Withdraw the announcement of this process."""
    remove(hooks_path(home, SERVERS_FOLDER, f"{os.getpid()}.json"))


def remove_stale_servers(home: str) -> None:
    """Remove the announcements of processes that ended."""
    folder = hooks_path(home, SERVERS_FOLDER)
    for name in list_names(folder, ".json"):
        if _has_ended(name):
            remove(os.path.join(folder, name))


def ask_server(home: str, question: dict[str, Any], timeout: float) -> dict[str, Any] | None:
    """The first answer from the newest server for the agent of the environment; None if none answers in time.

    A server that is too late is left alone for a while: it is stopped, or busy.
    """
    deadline, agent, attempts = time.monotonic() + timeout, agent_name(), MOST_SERVERS
    folder = hooks_path(home, SERVERS_FOLDER)
    paths = [os.path.join(folder, name) for name in list_names(folder, ".json")]
    for path in sorted(paths, key=_start_time, reverse=True):
        note = None if _is_late(path) else _read_note(path)
        if note is None or agent not in note["agents"]:
            continue
        if not attempts:
            break
        attempts -= 1
        try:
            return parse_record(_request(note["port"], {"token": note["token"], **question}, deadline))
        except ConnectionRefusedError:
            remove(path)
        except TimeoutError:
            _note_late(path)
            return None
        except (OSError, ValueError):
            continue
    return None


def _request(port: int, question: dict[str, Any], deadline: float) -> bytes:
    connection = socket(_INTERNET, _STREAM)
    try:
        _wait(connection, deadline)
        connection.connect((HOST, port))
        connection.sendall(write_json(question).encode("ascii") + b"\n")
        answer = b""
        while b"\n" not in answer and len(answer) < LONGEST_ANSWER:
            _wait(connection, deadline)
            part = connection.recv(1 << 16)
            if not part:
                break
            answer += part
        return answer
    finally:
        connection.close()


def _wait(connection: socket, deadline: float) -> None:
    remaining = deadline - time.monotonic()
    if remaining <= 0:
        raise TimeoutError
    connection.settimeout(remaining)


def _read_note(path: str) -> dict[str, Any] | None:
    """The announcement in a file, if it is valid and its process is running."""
    if _has_ended(os.path.basename(path)):
        remove(path)
        return None
    try:
        if not _is_ours(os.lstat(path)):
            return None
        note = parse_record(read_contents(path, _LONGEST_NOTE))
    except (OSError, ValueError):
        return None
    port, token = note.get("port"), note.get("token")
    if not isinstance(port, int) or not 0 < port < 65536 or not isinstance(token, str):
        return None
    return note if isinstance(note.get("agents"), list) else None


def _note_late(path: str) -> None:
    """Mark the server as late in the access time; the modification time, its start, must stay."""
    try:
        status = os.lstat(path)
        os.utime(path, (time.time() + LATE_SECONDS, status.st_mtime))
    except OSError:
        return


def _is_late(path: str) -> bool:
    try:
        return 0 < os.lstat(path).st_atime - time.time() <= LATE_SECONDS
    except OSError:
        return True


def _start_time(path: str) -> float:
    try:
        return os.lstat(path).st_mtime
    except OSError:
        return 0.0


def _is_ours(status: os.stat_result) -> bool:
    """Whether we wrote the file, and nobody else can; on Windows the permissions of the home folder apply."""
    if sys.platform == "win32":
        return True
    return status.st_uid == os.geteuid() and not status.st_mode & 0o022


def _has_ended(name: str) -> bool:
    """Whether the process ended. Not checked on Windows: os.kill would end it. A refused connection shows it."""
    if sys.platform == "win32":
        return False
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
