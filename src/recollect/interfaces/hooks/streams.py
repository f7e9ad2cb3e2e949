"""What a hook is given and says, without the interpreter's own streams, which may fail as it ends."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_READ = 32 << 20  # bytes; what is beyond is passed over, up to MOST_PASSED
MOST_PASSED = 256 << 20


def arguments(argv: Sequence[str]) -> tuple[str, str]:
    """The event and the home that are named; what else stands there is passed over."""
    name = home = ""
    words = iter(argv)
    for word in words:
        if word == "--home":
            home = next(words, "")
        elif word.startswith("--home="):
            home = word.removeprefix("--home=")
        elif not word.startswith("-") and not name:
            name = word
    return name, home


def stand_in() -> None:
    """For standard streams that are closed: else a file of ours would be taken for one. Raises OSError."""
    for stream in (0, 1, 2):
        try:
            os.fstat(stream)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free


def read_all(stdin: int) -> bytes:
    """What was handed in; nothing where a person sits, and of more than anybody hands in. Raises OSError."""
    if os.isatty(stdin):
        return b""
    parts, size = [], 0
    while size < MOST_PASSED and (part := os.read(stdin, 1 << 20)):
        size += len(part)
        if size <= MOST_READ:
            parts.append(part)
    return b"".join(parts) if size <= MOST_READ else b""


def complain(error: BaseException) -> None:
    """Where only the client's debug log has it; never what was said in the conversation."""
    try:
        os.write(2, f"recollect: {type(error).__name__}\n".encode("ascii", "replace"))
    except OSError:
        return
