"""The project that a folder belongs to."""

from __future__ import annotations

import os

from mindhold.hooks.files import digest

_LONGEST_NOTE = 1 << 16


def project_identity(path: str) -> str:
    """The git common directory, which worktrees share; where there is none, the real path. A submodule is its own,
    and no folder is none."""
    if not path:
        return ""
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


def identity_key(identity: str) -> str:
    """What files about it are called."""
    return digest(identity)


def parent_folders(identity: str) -> list[str]:
    """The folders that one lies in, the nearest first; none of a repository, which belongs to nothing above it."""
    found: list[str] = []
    if os.path.exists(os.path.join(identity, "HEAD")):
        return found
    while (parent := os.path.dirname(identity)) != identity:
        found.append(parent)
        identity = parent
    return found


def worktrees(identity: str) -> list[str]:
    """The folders of the other worktrees of the repository with that git directory, as far as git has noted them."""
    notes = os.path.join(identity, "worktrees")
    names = sorted(os.listdir(notes)) if os.path.isdir(notes) else []
    found = (_noted(os.path.join(notes, name, "gitdir")) for name in names)
    return [os.path.dirname(git) for git in found if os.path.isabs(git)]


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
