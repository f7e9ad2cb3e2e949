"""The memories that a conversation was shown already, and marks by which a message is recognised."""

from __future__ import annotations

import os
import time

from mindhold.hooks.files import (
    digest,
    hooks_path,
    make_hooks_folder,
    names_in,
    older_than,
    read_contents,
    remove,
    write_all,
)
from mindhold.hooks.lease import try_lock

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Iterable


SHOWN_FOLDER = "told"
_ENDING = ".txt"
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
_LONGEST = 1 << 20
_WAIT, _PAUSE = 0.2, 0.005  # seconds: another hook of the conversation is quick


def read_shown(home: str, conversation: str) -> frozenset[str]:
    """The ids; none where there are no notes."""
    try:
        return _parted(read_contents(_path(home, conversation), _LONGEST))
    except OSError:
        return frozenset()


def claim_shown(home: str, conversation: str, ids: Iterable[str]) -> list[str]:
    """Those that nobody told it until now, noted as told. Raises OSError, and then nothing may be told."""
    make_hooks_folder(home, SHOWN_FOLDER)
    descriptor = os.open(_path(home, conversation), _FLAGS, 0o600)
    try:
        _lock(descriptor)
        known = _parted(read_contents(_path(home, conversation), _LONGEST))
        fresh = [one for one in dict.fromkeys(ids) if one and one not in known and "\n" not in one]
        if fresh:
            write_all(descriptor, "".join(f"{one}\n" for one in fresh).encode("utf-8", "surrogatepass"))
        return fresh
    finally:
        os.close(descriptor)


def note_shown(home: str, conversation: str, ids: Iterable[str]) -> None:
    """Notes them as told. Raises OSError."""
    claim_shown(home, conversation, ids)


def reset_shown(home: str, conversation: str) -> None:
    """It knows nothing any more: begun anew, or what it was told is condensed away."""
    remove(_path(home, conversation))


def remove_old_shown(home: str, seconds: float = 7 * 86_400.0) -> None:
    """Removes the notes about conversations that nothing was told for so long."""
    inside = hooks_path(home, SHOWN_FOLDER)
    for name in names_in(inside, _ENDING):
        if older_than(os.path.join(inside, name), seconds):
            remove(os.path.join(inside, name))


def _path(home: str, conversation: str) -> str:
    return hooks_path(home, SHOWN_FOLDER, digest(conversation) + _ENDING)


def _parted(content: bytes) -> frozenset[str]:
    return frozenset(content.decode("utf-8", "replace").split("\n")) - {""}


def _lock(descriptor: int) -> None:
    """For a short while only: better twice than never."""
    until = time.monotonic() + _WAIT
    while not try_lock(descriptor) and time.monotonic() < until:
        time.sleep(_PAUSE)


MARK_PREFIX = "said:"  # so begins such a mark; then how many characters it is of, then a digest of these
COMPARED = 500  # characters at the beginning of a message, without white space


def message_mark(text: str) -> str:
    """Empty for an empty one."""
    plain = compared_text(text)
    return f"{MARK_PREFIX}{len(plain)}:{digest(plain)}" if plain else ""


def compared_text(text: str) -> str:
    """What is compared: pieces of a message may be joined in any way."""
    return "".join(text[: COMPARED * 20].split())[:COMPARED]


def begins_with_mark(text: str, mark: str) -> bool:
    """Whether the text begins with what the mark is of."""
    length, _, wanted = mark.removeprefix(MARK_PREFIX).partition(":")
    plain = compared_text(text)
    if not length.isdecimal() or len(plain) < int(length):
        return False
    return digest(plain[: int(length)]) == wanted
