"""Arguments, input and output of a hook, without the interpreter's own streams."""

from __future__ import annotations

import os
import sys
import time

from mindhold.hooks.fast_json import parse_record

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Sequence


MOST_READ = 32 << 20  # bytes; what is beyond is passed over, up to MOST_PASSED
MOST_PASSED = 256 << 20
SILENCE = 5.0  # seconds, after which what is not whole won't be


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
    """What was handed in; nothing where a person sits, and of more than anybody hands in. Raises OSError.

    It ends where the input does, or where it is whole: who hands it in may leave it open, and not wait for us then.
    """
    if os.isatty(stdin):
        return b""
    parts: list[bytes] = []
    size = 0
    while size < MOST_PASSED:
        if not _ready(stdin, 0.0) and (_is_whole(parts) or not _ready(stdin, SILENCE)):
            break
        part = os.read(stdin, 1 << 20)
        if not part:
            break
        size += len(part)
        if size <= MOST_READ:
            parts.append(part)
    return b"".join(parts) if size <= MOST_READ else b""


def _is_whole(parts: Sequence[bytes]) -> bool:
    if not parts or parts[-1].rstrip()[-1:] not in (b"}", b""):
        return False
    try:
        parse_record(b"".join(parts))
    except ValueError:
        return False
    return True


if sys.platform == "win32":
    import _winapi
    import msvcrt

    def _ready(stdin: int, seconds: float) -> bool:
        """Whether there is something to read, or the end, within so many seconds."""
        until = time.monotonic() + seconds
        try:
            handle = msvcrt.get_osfhandle(stdin)
            while not _winapi.PeekNamedPipe(handle, 0)[0]:
                if time.monotonic() >= until:
                    return False
                time.sleep(0.005)
        except OSError:  # the end of a pipe, or no pipe, which has its end
            return True
        return True

else:
    from select import select

    def _ready(stdin: int, seconds: float) -> bool:
        """Whether there is something to read, or the end, within so many seconds."""
        return bool(select([stdin], [], [], seconds)[0])


def complain(error: BaseException) -> None:
    """Where only the client's debug log has it; never what was said in the conversation."""
    told = "what came in is no JSON object" if type(error) is ValueError else type(error).__name__
    try:
        os.write(2, f"mindhold: {told}\n".encode("ascii", "replace"))
    except OSError:
        return
