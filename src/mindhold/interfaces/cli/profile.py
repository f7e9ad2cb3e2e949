"""`mindhold profile`: what is known about the user."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from mindhold.interfaces.cli.command import Group, global_options, with_open_session
from mindhold.interfaces.cli.output import local_time, neutral
from mindhold.interfaces.cli.remember import text_or_stdin
from mindhold.interfaces.cli.session import OpenSession

if TYPE_CHECKING:
    from mindhold.profile.profile import EntryChangeView


VERBS = {"set": "Set", "replaced": "Replaced", "removed": "Removed", "unchanged": "Unchanged"}


@click.group(
    "profile",
    cls=Group,
    remote=True,
    params=global_options(shown=False),
    invoke_without_command=True,
    examples=[
        "mindhold profile",
        "mindhold profile set favorite_color blue",
        "mindhold profile learn My favourite colour is green",
    ],
)
@click.pass_context
def profile(ctx: click.Context) -> None:
    """What is known of you: name, preferences, facts, notes.

    Without a command it is shown. Agents get it when a conversation begins. Nothing in it fades.
    """
    if ctx.invoked_subcommand is None:
        ctx.invoke(show_profile)


@profile.command("show", examples=["mindhold profile show", "mindhold profile show --json"])
@with_open_session
async def show_profile(session: OpenSession) -> None:
    """Show the whole profile."""
    from mindhold.profile.profile import SHOW_PROFILE

    result = await session.run(SHOW_PROFILE)
    console = session.console
    if console.as_json(result):
        return
    if not result.entries:
        console.line("Nothing is known yet. `mindhold profile set name ...` begins it.")
    section = ""
    for entry in result.entries:
        if entry.section != section:
            section = entry.section
            console.line(console.style(section, bold=True))
        name = entry.label if section == "contacts" else entry.key
        shared = "  (everybody's)" if entry.shared else ""
        text = neutral(entry.value) if section == "name" else f"{neutral(name)}: {neutral(entry.value)}"
        console.line(f"  {text}{shared}")


@profile.command(
    "set",
    examples=[
        "mindhold profile set name Jane Doe",
        "mindhold profile set favorite_color blue",
        "mindhold profile set --preference tone casual",
    ],
)
@click.argument("key")
@click.argument("value", nargs=-1, required=True)
@click.option("--preference", is_flag=True, help="A preference instead of a fact.")
@with_open_session
async def set_entry(session: OpenSession, /, *, key: str, value: tuple[str, ...], preference: bool) -> None:
    """Set a fact, a preference or the name. `history` shows the earlier values."""
    text = text_or_stdin(session, value)
    if key.strip().lower() == "name" and not preference:
        await _change(session, name=text)
    else:
        await _change(session, **{"preferences" if preference else "facts": {key: text}})


@profile.command("unset", examples=["mindhold profile unset favorite_color", "mindhold profile unset name"])
@click.argument("key")
@with_open_session
async def unset_entry(session: OpenSession, /, *, key: str) -> None:
    """Remove an entry.

    If a preference and a fact have the same name, write preferences.KEY or facts.KEY.
    """
    await _change(session, remove=[key])


@profile.command("learn", examples=["mindhold profile learn My favourite colour is green"])
@click.argument("text", nargs=-1, required=True)
@with_open_session
async def learn(session: OpenSession, /, *, text: tuple[str, ...]) -> None:
    """Learn from a sentence in English or Korean. What states no fact becomes a note."""
    await _change(session, statement=text_or_stdin(session, text))


@profile.command("history", examples=["mindhold profile history favorite_color"])
@click.argument("key")
@with_open_session
async def history(session: OpenSession, /, *, key: str) -> None:
    """Show every value of an entry, oldest first."""
    from mindhold.profile.profile import PROFILE_HISTORY

    result = await session.run(PROFILE_HISTORY, entry=key)
    console = session.console
    if console.as_json(result):
        return
    rows = []
    for edition in result.editions:
        until = "now" if edition.until is None else local_time(edition.until, session.zone)
        rows.append([local_time(edition.since, session.zone), until, edition.value, edition.by])
    console.table(["since", "until", "value", "by"], rows)


@profile.group("contact", cls=Group, examples=["mindhold profile contact add Alice sister"])
def contact() -> None:
    """People and how they relate to you."""


@contact.command("add", examples=["mindhold profile contact add Alice sister"])
@click.argument("name")
@click.argument("relation", nargs=-1, required=True)
@with_open_session
async def add_contact(session: OpenSession, /, *, name: str, relation: tuple[str, ...]) -> None:
    """Add a person, or change the relation."""
    await _change(session, contacts=[{"name": name, "relation": " ".join(relation)}])


@contact.command("remove", examples=["mindhold profile contact remove Alice"])
@click.argument("name")
@with_open_session
async def remove_contact(session: OpenSession, /, *, name: str) -> None:
    """Remove a person."""
    await _change(session, remove=[f"contacts.{name}"])


@profile.group("note", cls=Group, examples=["mindhold profile note add I am allergic to penicillin"])
def note() -> None:
    """Notes about you that are no facts."""


@note.command("add", examples=["mindhold profile note add I read on the train"])
@click.argument("text", nargs=-1, required=True)
@with_open_session
async def add_note(session: OpenSession, /, *, text: tuple[str, ...]) -> None:
    """Add a note; `-` reads stdin."""
    await _change(session, notes=[text_or_stdin(session, text)])


@note.command("remove", examples=["mindhold profile note remove 3f2a90b1c2d4"])
@click.argument("note", nargs=-1, required=True)
@with_open_session
async def remove_note(session: OpenSession, /, *, note: tuple[str, ...]) -> None:
    """Remove a note by its key or its text. `mindhold profile` shows the keys."""
    await _change(session, remove=[f"notes.{' '.join(note)}"])


async def _change(session: OpenSession, **fields: Any) -> None:
    from mindhold.profile.profile import CHANGE_PROFILE

    result = await session.run(CHANGE_PROFILE, **fields)
    if session.console.as_json(result):
        return
    for change in result.changes:
        session.console.line(_describe(change))


def _describe(change: EntryChangeView) -> str:
    name = change.label if change.section == "contacts" else change.key
    value = "" if change.value is None else f" = {neutral(change.value)}"
    before = f" (was {neutral(change.previous)})" if change.change == "replaced" and change.previous else ""
    place = change.section if change.section == "name" else f"{change.section}.{neutral(name)}"
    return f"{VERBS[change.change]} {place}{value}{before}"
