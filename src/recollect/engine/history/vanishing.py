"""Conversations whose files aren't there any more: what isn't archived goes from the index too."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path

from recollect.ports.history import Conversation


def vanished(
    known: Iterable[Conversation], *, there: Collection[Path], roots: Iterable[Path]
) -> list[Conversation]:
    """Those whose file is gone while the folder under which it lay is there: what isn't mounted loses nothing."""
    present = list(roots)
    return [
        one
        for one in known
        if not one.gone
        and one.file not in there
        and any(one.file.is_relative_to(root) for root in present)
        and _is_gone(one.file)
    ]


def _is_gone(file: Path) -> bool:
    try:
        file.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:  # it may be there, and we aren't let
        return False
    return False
