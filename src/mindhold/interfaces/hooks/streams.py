"""Arguments, input and output of a hook, without the interpreter's own streams."""

from __future__ import annotations

import os
import sys
import time

from mindhold.hooks.fast_json import parse_record

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Sequence


MOST_READ = 32 << 20  # bytes; longer input is skipped, up to MOST_SKIPPED
MOST_SKIPPED = 256 << 20
SILENCE = 5.0  # seconds of silence that end incomplete input
FIRST_SECONDS = 1.0  # within which a caller that hands something in begins


def parse_arguments(argv: Sequence[str]) -> tuple[str, str]:
    """Return the event and the home folder of the arguments; others are ignored."""
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


def fill_closed_streams() -> None:
    """Open /dev/null for closed standard streams, so that no file of ours gets their number. Raises OSError."""
    for stream in (0, 1, 2):
        try:
            os.fstat(stream)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number


def has_input(stdin: int) -> bool:
    """Whether a program hands something in, and no person. Its end counts as input too."""
    try:
        return not os.isatty(stdin) and _ready(stdin, FIRST_SECONDS)
    except (OSError, ValueError):  # it is closed
        return False


def read_all(stdin: int) -> bytes:
    """Read standard input; empty for a terminal and for input that is too long. Raises OSError.

    Reading stops at the end of the input, or when the JSON is complete: the client may leave its end open.
    """
    if os.isatty(stdin):
        return b""
    parts: list[bytes] = []
    size = 0
    while size < MOST_SKIPPED:
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
        """Whether there is input, or its end, within `seconds`."""
        until = time.monotonic() + seconds
        try:
            handle = msvcrt.get_osfhandle(stdin)
            while not _winapi.PeekNamedPipe(handle, 0)[0]:
                if time.monotonic() >= until:
                    return False
                time.sleep(0.005)
        except OSError:  # the end of a pipe, or no pipe
            return True
        return True

else:
    from select import select

    def _ready(stdin: int, seconds: float) -> bool:
        """Whether there is input, or its end, within `seconds`."""
        return bool(select([stdin], [], [], seconds)[0])


def report_error(error: BaseException) -> None:
    """Print the kind of error to standard error, which only the client's debug log keeps; never any content."""
    text = "what came in is no JSON object" if type(error) is ValueError else type(error).__name__
    try:
        os.write(2, f"mindhold: {text}\n".encode("ascii", "replace"))
    except OSError:
        return
