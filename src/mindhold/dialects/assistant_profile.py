"""The profile in the assistant contract: read whole, changed entry by entry."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from mindhold.dialects.assistant_forms import NoArguments
from mindhold.dialects.shape import ALWAYS, Answer, Arguments, From, Recalling, Tool


class Contact(Arguments):
    """Somebody, and what they are to the person."""

    name: str
    relation: str


class ContactAnswer(Answer):
    name: str
    relation: str


class UpdateArguments(Arguments):
    """What to set and what to remove, all or nothing."""

    statement: str | None = Field(None, description='What the person said: "My favourite colour is blue."')
    name: str | None = Field(None, description="The person's name.")
    preferences: dict[str, str] | None = Field(None, description="Such as tone: casual.")
    facts: dict[str, str] | None = Field(None, description="Such as favorite_color: blue.")
    contacts: list[Contact] | None = Field(None, description="People, with what they are to the person.")
    notes: list[str] | None = Field(None, description="What fits nowhere else.")
    remove: list[str] | None = Field(
        None, description="Entries to remove: name, favorite_color, contacts.Alice."
    )


class ProfileAnswer(Recalling):
    """What is known of the person."""

    name: str | None = None
    preferences: dict[str, str]
    facts: dict[str, str]
    contacts: list[ContactAnswer]
    notes: list[str]


class Change(Answer):
    """What became of an entry."""

    entry: Annotated[str, From("key")]
    section: str
    value: str | None = None
    previous: str | None = None
    change: str


class UpdateAnswer(Recalling):
    """What was done, and the profile as it is now."""

    status: Annotated[str, ALWAYS] = "OK"
    changes: list[Change]
    name: Annotated[str | None, From("profile.name")] = None
    preferences: Annotated[dict[str, str], From("profile.preferences")]
    facts: Annotated[dict[str, str], From("profile.facts")]
    contacts: Annotated[list[ContactAnswer], From("profile.contacts")]
    notes: Annotated[list[str], From("profile.notes")]


PROFILE_TOOLS = (
    Tool(
        "get_profile",
        "The person's profile",
        "Gives what is known of the person you talk with: name, preferences, facts, contacts, notes. Use it to suit them, "
        "or before you ask what they told you before.",
        "show_profile",
        NoArguments,
        ProfileAnswer,
    ),
    Tool(
        "update_profile",
        "Change the profile",
        "Keeps what the person says of themselves, or removes it. Give their words as a statement, or entries by name. "
        "What an entry said before is kept.",
        "change_profile",
        UpdateArguments,
        UpdateAnswer,
        idempotent=True,
    ),
)
