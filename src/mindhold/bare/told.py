"""What a conversation was told already: ids, a line each, so that nothing is told twice."""

from __future__ import annotations

import os
import time

from mindhold.bare.digest import digest
from mindhold.bare.files import contents, folder, made_folder, names_in, older_than, remove, write_all
from mindhold.bare.lease import try_lock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

TOLD = "told"
_ENDING = ".txt"
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
_LONGEST = 1 << 20
_WAIT, _PAUSE = 0.2, 0.005  # seconds: another hook of the conversation is quick


def read(home: str, conversation: str) -> frozenset[str]:
    """The ids; none where there are no notes."""
    try:
        return _parted(contents(_path(home, conversation), _LONGEST))
    except OSError:
        return frozenset()


def claim(home: str, conversation: str, ids: Iterable[str]) -> list[str]:
    """Those that nobody told it until now, noted as told. Raises OSError, and then nothing may be told."""
    made_folder(home, TOLD)
    descriptor = os.open(_path(home, conversation), _FLAGS, 0o600)
    try:
        _lock(descriptor)
        known = _parted(contents(_path(home, conversation), _LONGEST))
        fresh = [one for one in dict.fromkeys(ids) if one and one not in known and "\n" not in one]
        if fresh:
            write_all(descriptor, "".join(f"{one}\n" for one in fresh).encode("utf-8", "surrogatepass"))
        return fresh
    finally:
        os.close(descriptor)


def add(home: str, conversation: str, ids: Iterable[str]) -> None:
    """Notes them as told. Raises OSError."""
    claim(home, conversation, ids)


def reset(home: str, conversation: str) -> None:
    """It knows nothing any more: begun anew, or what it was told is condensed away."""
    remove(_path(home, conversation))


def tidy(home: str, seconds: float = 7 * 86_400.0) -> None:
    """Removes the notes about conversations that nothing was told for so long."""
    inside = folder(home, TOLD)
    for name in names_in(inside, _ENDING):
        if older_than(os.path.join(inside, name), seconds):
            remove(os.path.join(inside, name))


def _path(home: str, conversation: str) -> str:
    return folder(home, TOLD, digest(conversation) + _ENDING)


def _parted(content: bytes) -> frozenset[str]:
    return frozenset(content.decode("utf-8", "replace").split("\n")) - {""}


def _lock(descriptor: int) -> None:
    """For a short while only: better twice than never."""
    until = time.monotonic() + _WAIT
    while not try_lock(descriptor) and time.monotonic() < until:
        time.sleep(_PAUSE)
