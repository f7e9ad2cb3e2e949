"""Which project a folder belongs to."""

from __future__ import annotations

import os

from recollect.bare.digest import digest

_LONGEST_NOTE = 1 << 16


def identity(path: str) -> str:
    """The git common directory, which worktrees share; where there is none, the real path. A submodule is its own."""
    real = os.path.realpath(os.path.expanduser(path))
    folder = real
    while True:
        marker = os.path.join(folder, ".git")
        if os.path.isdir(marker):
            return marker
        kind, _, named = _noted(marker).partition(": ")
        if kind == "gitdir":
            return _common(os.path.normpath(os.path.join(folder, named)))
        above = os.path.dirname(folder)
        if above == folder:
            return real
        folder = above


def key(identity: str) -> str:
    """What files about it are called."""
    return digest(identity)


def _common(git: str) -> str:
    shared = _noted(os.path.join(git, "commondir"))
    return os.path.realpath(os.path.join(git, shared) if shared else git)


def _noted(path: str) -> str:
    """What a small file says; nothing where it can't be read."""
    if not os.path.isfile(path):
        return ""
    try:
        with open(path, "rb") as file:
            return file.read(_LONGEST_NOTE).decode("utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return ""
