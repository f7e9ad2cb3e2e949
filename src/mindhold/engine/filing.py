"""Filing what an assistant is told: in which scope, and as what. A message, a summary, a fact of the profile, or a note."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from mindhold.engine.core import Engine
from mindhold.engine.messages import Message, free_position, message_draft
from mindhold.engine.projects import open_project
from mindhold.engine.scope_choice import Placed, placed
from mindhold.engine.text.profile import profile_fact, sentences
from mindhold.engine.verbatim import Kept, keep_verbatim

GENERAL = "general"  # the kind of scope that an assistant makes by storing into it


class Source(StrEnum):
    """Where something is from, which decides what becomes of it; whatever else a caller says, it is a note."""

    CONVERSATION = "conversation"
    SUMMARY = "summary"
    PROFILE = "user_profile"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Said:
    """One turn of a conversation, as it is to be logged."""

    content: str
    scope: str
    speaker: str = "user"
    conversation: str | None = None
    tags: tuple[str, ...] = ()


async def place(
    engine: Engine, text: str, tags: tuple[str, ...], *, scope: str | None, create: bool = False
) -> Placed:
    """The scope that is named, whatever the case of its name; else the one that the text belongs to.

    Raises ScopeNotFound, Refused for one that is deactivated, InvalidInput for a name that can't be one.
    """
    if scope is not None:
        named = await open_project(engine, scope, create=create, writing=True, kind=GENERAL)
        return Placed(named.name)
    found = placed(text, tags, scopes=await engine.store.scopes(), active=engine.policy.scope)
    return replace(found, scope=(await open_project(engine, found.scope, writing=True)).name)


async def log_message(engine: Engine, said: Said, *, agent: str) -> Kept:
    """The turn as the last one of its conversation, word for word.

    Raises EmptyContent, InvalidInput, ContentTooLarge and the store's errors.
    """
    message = Message(role=said.speaker, content=said.content, conversation=said.conversation)
    draft = message_draft(engine, message, project=said.scope, agent=agent)
    position = await free_position(engine, draft.provenance.conversation or "", scope=said.scope)
    provenance = replace(draft.provenance, position=position, source=Source.CONVERSATION)
    return await keep_verbatim(engine, replace(draft, tags=said.tags, provenance=provenance))


def states_profile(text: str) -> bool:
    """Whether every sentence of it plainly says something of the person who speaks."""
    said = sentences(text)
    return bool(said) and all(profile_fact(one) is not None for one in said)
