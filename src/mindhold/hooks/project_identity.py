"""The project that a folder belongs to."""

from __future__ import annotations

import os

from mindhold.hooks.files import digest

_LONGEST_NOTE = 1 << 16


def project_identity(path: str) -> str:
    """The git common directory, which worktrees share, else the real path; empty for no folder. A submodule is its own project."""
    if not path:
        return ""
    real = os.path.realpath(os.path.expanduser(path))
    folder = real
    while True:
        marker = os.path.join(folder, ".git")
        if os.path.isdir(marker):
            return marker
        kind, _, target = _read_note(marker).partition(": ")
        if kind == "gitdir":
            git = os.path.normpath(os.path.join(folder, target))
            return os.path.realpath(os.path.join(git, _read_note(os.path.join(git, "commondir"))))
        parent = os.path.dirname(folder)
        if parent == folder:
            return real
        folder = parent


def identity_key(identity: str) -> str:
    """The name of files about the project."""
    return digest(identity)


def parent_folders(identity: str) -> list[str]:
    """The folders above, nearest first; none for a repository, which belongs to nothing above it."""
    parents: list[str] = []
    if os.path.exists(os.path.join(identity, "HEAD")):
        return parents
    while (parent := os.path.dirname(identity)) != identity:
        parents.append(parent)
        identity = parent
    return parents


def worktrees(identity: str) -> list[str]:
    """The folders of the other worktrees of the repository with that git directory, as far as git lists them."""
    notes = os.path.join(identity, "worktrees")
    names = sorted(os.listdir(notes)) if os.path.isdir(notes) else []
    git_files = (_read_note(os.path.join(notes, name, "gitdir")) for name in names)
    return [os.path.dirname(git_file) for git_file in git_files if os.path.isabs(git_file)]


def _read_note(path: str) -> str:
    """The content of a small file; empty if it can't be read."""
    if not os.path.isfile(path):
        return ""
    try:
        with open(path, "rb") as file:
            return file.read(_LONGEST_NOTE).decode("utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return ""
