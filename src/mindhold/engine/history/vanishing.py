"""Conversations whose files aren't there any more: what isn't archived goes from the index too."""

from __future__ import annotations

import stat
from collections.abc import Collection, Iterable
from pathlib import Path

from mindhold.ports.history import Conversation


def vanished(
    known: Iterable[Conversation], *, there: Collection[Path], roots: Iterable[Path]
) -> list[Conversation]:
    """Those whose file is gone while the folder under which it lay is there: what isn't mounted loses nothing. Of one that
    lies elsewhere, as where the program's folder was another, that is the file's own."""
    present = list(roots)
    return [
        one
        for one in known
        if not one.gone
        and one.file not in there
        and is_gone(one.file)
        and (any(one.file.is_relative_to(root) for root in present) or one.file.parent.is_dir())
    ]


def surely_gone(
    lost: Iterable[Conversation], *, there: Collection[Path], roots: Iterable[Path]
) -> list[Conversation]:
    """Of those the ones that were deleted for all that can be told: its own folder is there, or others in the program's. One
    in which nothing is left may be the place of a disk that is away."""
    filled = [root for root in roots if any(file.is_relative_to(root) for file in there)]
    return [
        one
        for one in lost
        if one.file.parent.is_dir() or any(one.file.is_relative_to(root) for root in filled)
    ]


def is_gone(file: Path) -> bool:
    """An emptied one is: its program begins anew. What lies behind a link that leads nowhere isn't: a disk may be away."""
    try:
        facts = file.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return not any(folder.is_symlink() and not folder.exists() for folder in file.parents)
    except OSError:  # it may be there, and we aren't let
        return False
    return stat.S_ISREG(facts.st_mode) and facts.st_size == 0
