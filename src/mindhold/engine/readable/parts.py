"""What a readable export is told in: scopes, sections, conversations and items, one after the other."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from mindhold.model.scope import Scope

CONVERSATIONS, SUMMARIES, FACTS, PROFILE = "conversations", "summaries", "facts", "profile"


@dataclass(frozen=True, slots=True)
class Head:
    """The beginning of the whole."""

    created: datetime


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a scope begins."""

    name: str


@dataclass(frozen=True, slots=True)
class Talk:
    """A conversation begins; None for messages that name none."""

    conversation: str | None


@dataclass(frozen=True, slots=True)
class Item:
    """One thing that is remembered, whole."""

    id: str
    text: str
    scope: str
    section: str
    kind: str
    source: str
    status: str
    occurred: datetime
    created: datetime
    tags: tuple[str, ...] = ()
    topic: str = ""
    importance: float = 0.5
    speaker: str = ""
    conversation: str | None = None


@dataclass(frozen=True, slots=True)
class TalkEnd:
    """The conversation is told."""


@dataclass(frozen=True, slots=True)
class SectionEnd:
    """The section is told."""


@dataclass(frozen=True, slots=True)
class ScopeEnd:
    """The scope is told."""


@dataclass(frozen=True, slots=True)
class End:
    """All is told."""

    memories: int


Part = Head | Scope | Section | Talk | Item | TalkEnd | SectionEnd | ScopeEnd | End


class Form(Protocol):
    """A way to write it down. It is told the parts in order, and remembers no more than where it is."""

    ending: str  # of the file's name

    def written(self, part: Part) -> str:
        """The text for this part."""
