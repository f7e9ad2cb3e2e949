"""What is never captured: what somebody left out, what we said ourselves, and secrets."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path

from mindhold.bare.marks import OWN_CALL_MARK, SKIP_MARK
from mindhold.engine.text.clean import clean
from mindhold.engine.text.redact import redact
from mindhold.ports.transcripts import Role, Step, shortened


def is_excluded(folder: str, patterns: Iterable[str]) -> bool:
    """Whether the folder, or one above it, is among those left out, whatever the case of its letters.

    A pattern without a slash is a folder's name; one that begins nowhere is meant wherever it fits. * and ? stand for
    anything, a bracket for itself.
    """
    given = Path.cwd() / _expanded(folder)
    places = {_folded(str(each)) for path in (given, given.resolve()) for each in (path, *path.parents)}
    ways = [_folded(way).replace("[", "[[]") for way in _ways(patterns)]
    return any(fnmatchcase(place, way) for way in ways for place in places)


def _ways(patterns: Iterable[str]) -> Iterator[str]:
    """Each pattern as whole paths."""
    for pattern in patterns:
        wanted = _expanded(pattern.strip())
        if wanted.anchor:
            yield str(wanted)
            yield str(wanted.resolve())
        elif parts := [part for part in wanted.parts if part != ".."]:
            yield "*/" + "/".join(parts)


def _folded(path: str) -> str:
    """Signs and letters in one form, as most systems take them for the same."""
    return unicodedata.normalize("NFC", path).casefold().replace("\\", "/")


def _expanded(path: str) -> Path:
    try:
        return Path(path).expanduser()
    except RuntimeError:  # a home that nobody has
        return Path(path)


def is_own_call(steps: Sequence[Step]) -> bool | None:
    """Whether the conversation is one of ours with a model, by how it begins; None while nobody has spoken."""
    first = next((step for step in steps if step.role is Role.USER), None)
    return None if first is None else OWN_CALL_MARK in first.text


def unskipped(steps: Sequence[Step], *, skipping: bool, subagent: bool = False) -> tuple[list[Step], bool]:
    """Without the turns that are marked in what was asked or answered, and whether the last turn is such a one.

    A turn is all from a prompt to the next one; in a sub-agent's own file its prompts count, else they belong to the turn
    that it was called in. `skipping`: the steps go on with a turn that is marked.
    """
    kept: list[Step] = []
    turn: list[Step] = []
    for step in steps:
        if step.role is Role.USER and (subagent or not step.aside):
            kept += turn
            turn, skipping = [], False
        skipping = skipping or (step.role in (Role.USER, Role.CLAUDE) and SKIP_MARK in step.text)
        if skipping:
            turn = []
        else:
            turn.append(step)
    return [*kept, *turn], skipping


def redacted(steps: Sequence[Step]) -> list[Step]:
    """Without control characters, secrets and personal data, and only then shortened: before anybody else is shown them."""
    return [
        replace(
            step,
            text=shortened(redact(clean(step.text)).text, step.enough),
            tool=clean(step.tool),
            call=clean(step.call),
        )
        for step in steps
    ]
