"""What is never captured: what somebody left out, what we said ourselves, and secrets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from fnmatch import fnmatch
from pathlib import Path

from recollect.bare.marks import OWN_CALL_MARK, SKIP_MARK
from recollect.engine.text.clean import clean
from recollect.engine.text.redact import redact
from recollect.ports.transcripts import Role, Step


def is_excluded(folder: str, patterns: Iterable[str]) -> bool:
    """Whether the folder, or one above it, is among those left out; a pattern without a slash is a folder's name."""
    given = Path.cwd() / _expanded(folder)
    places = {each for path in (given, given.resolve()) for each in (path, *path.parents)}
    for pattern in patterns:
        wanted = _expanded(pattern.strip())
        if "/" in pattern or "\\" in pattern:
            ways = {str(wanted), str(wanted.resolve())}
            if any(fnmatch(str(place), way) for way in ways for place in places):
                return True
        elif pattern.strip() and any(fnmatch(place.name, str(wanted)) for place in places):
            return True
    return False


def _expanded(path: str) -> Path:
    try:
        return Path(path).expanduser()
    except RuntimeError:  # a home that nobody has
        return Path(path)


def is_own_call(steps: Sequence[Step]) -> bool | None:
    """Whether the conversation is one of ours with a model, by how it begins; None while nobody has spoken."""
    first = next((step for step in steps if step.role is Role.USER), None)
    return None if first is None else OWN_CALL_MARK in first.text


def unskipped(steps: Sequence[Step], *, skipping: bool) -> tuple[list[Step], bool]:
    """Without the turns that a person marked and the answers to them, and whether the last turn was such a one."""
    kept: list[Step] = []
    for step in steps:
        if step.role is Role.USER and not step.aside:
            skipping = SKIP_MARK in step.text
        if not skipping:
            kept.append(step)
    return kept, skipping


def redacted(steps: Sequence[Step]) -> list[Step]:
    """Without control characters, secrets and personal data: before anybody else is shown them."""
    return [
        replace(step, text=redact(clean(step.text)).text, tool=clean(step.tool), call=clean(step.call))
        for step in steps
    ]
