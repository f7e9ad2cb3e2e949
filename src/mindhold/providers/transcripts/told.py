"""What a tool was asked and gave back, as steps: for programs whose entries aren't Claude Code's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mindhold.ports.transcripts import Role, Step
from mindhold.providers.transcripts.entries import LONGEST_NAME, string
from mindhold.providers.transcripts.steps import (
    LONGEST_ASKED,
    LONGEST_JSON,
    LONGEST_RESULT,
    Place,
    bounded,
    compact,
)

INTERRUPTED = 130  # the exit code of a command that a person stopped


def asked(tool: str, about: str, given: Mapping[str, Any], *, call: str, place: Place) -> Step:
    """A tool was asked for something: what it is `about`, else all that it was given, in short."""
    text, enough = (about, LONGEST_ASKED) if about else (compact(given), LONGEST_JSON)
    return Step(
        role=Role.TOOL,
        text=bounded(text, enough),
        line=place.line,
        end=place.end,
        timestamp=place.moment,
        tool=tool,
        call=call,
        aside=place.aside,
        enough=enough,
    )


def gave(text: str, *, failed: bool, tool: str, call: str, place: Place) -> Step:
    """And that is what it gave back."""
    return Step(
        role=Role.RESULT,
        text=bounded(text.strip(), LONGEST_RESULT),
        line=place.line,
        end=place.end,
        timestamp=place.moment,
        tool=tool,
        call=call,
        failed=failed,
        aside=place.aside,
        enough=LONGEST_RESULT,
    )


def is_failure(code: int | None, text: str) -> bool:
    """Whether a command's exit code says so: not of one that a person stopped, nor of one that merely found nothing."""
    return code not in (None, 0, INTERRUPTED) and not (code == 1 and not text.strip())


def first_of(fields: Mapping[str, Any], names: tuple[str, ...]) -> str:
    """The first of the fields that has a text."""
    return next((text for name in names if (text := string(fields.get(name)).strip())), "")


def short(value: Any) -> str:
    """A name or an id, no longer than those are."""
    return string(value)[:LONGEST_NAME]
