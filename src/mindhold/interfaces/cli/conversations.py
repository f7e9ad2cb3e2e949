"""`mindhold conversations`: the message log and its summaries."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from mindhold.interfaces.cli.command import Group, global_options, with_open_session
from mindhold.interfaces.cli.output import local_time, neutral, one_line, plural
from mindhold.interfaces.cli.session import OpenSession

if TYPE_CHECKING:
    from mindhold.conversations.recaps import (
        ConversationView,
        RecapView,
    )


LONGEST_CELL = 60


@click.group(
    "conversations",
    cls=Group,
    remote=True,
    params=global_options(shown=False),
    invoke_without_command=True,
    examples=["mindhold conversations", "mindhold conversations show abc-123"],
)
@click.pass_context
def conversations(ctx: click.Context) -> int | None:
    """What was saved message by message, and the summaries that stand for it.

    These are the messages that programs and assistants save here. The transcripts that Claude Code and others keep themselves are
    `mindhold history`. Without a command they are listed.
    """
    if ctx.invoked_subcommand is not None:
        return None
    status: int | None = ctx.invoke(list_conversations)
    return status


@conversations.command(
    "list", examples=["mindhold conversations list", "mindhold conversations list --scope shop --json"]
)
@click.option("--scope", "project", metavar="NAME", help="Only in this scope.")
@click.option("--limit", "-n", type=int, metavar="N", help="At most how many (20).")
@with_open_session
async def list_conversations(
    session: OpenSession, /, *, project: str | None = None, limit: int | None = None
) -> None:
    """The conversations of the log, the latest first: how much was said, when, and what it came to."""
    from mindhold.conversations.recaps import LIST_CONVERSATIONS

    result = await session.run(LIST_CONVERSATIONS, project=project, limit=limit)
    console = session.console
    if console.json:
        console.document(result)
        return
    if not result.conversations:
        console.line("No message was saved yet. Past conversations of Claude Code are in `mindhold history`.")
        return
    console.table(
        ["conversation", "scope", "messages", "last", "summary"],
        [
            [
                one_line(one.conversation, most=40),
                one.scope,
                str(one.messages),
                local_time(one.last, session.zone),
                _gist(one.recap),
            ]
            for one in result.conversations
        ],
    )


@conversations.command(
    "show", examples=["mindhold conversations show abc-123", "mindhold conversations show abc-123 -n 200"]
)
@click.argument("conversation")
@click.option("--scope", "project", metavar="NAME", help="In this scope.")
@click.option("--limit", "-n", type=int, metavar="N", help="At most how many messages (50).")
@with_open_session
async def show(session: OpenSession, /, *, conversation: str, project: str | None, limit: int | None) -> None:
    """A conversation's summaries, and the messages that they stand for."""
    from mindhold.conversations.recaps import LIST_CONVERSATIONS, LIST_RECAPS

    found = await session.run(LIST_CONVERSATIONS, project=project, conversation=conversation)
    told = await session.run(
        LIST_RECAPS, project=project, conversation=conversation, archived=True, limit=200
    )
    console = session.console
    if console.json:
        console.document(found.model_dump(mode="json") | told.model_dump(mode="json", include={"recaps"}))
        return
    if not found.conversations:
        console.line(
            "There is no message of that conversation. `mindhold conversations list` names those there are."
        )
    for one in found.conversations:
        _print_heading(session, one)
        own = [recap for recap in told.recaps if recap.scope == one.scope]
        for recap in sorted(own, key=lambda recap: (recap.part is not None, recap.part or 0)):
            await _print_recap(session, recap, limit=limit)
        if not own:
            console.note(f"It has no summary yet: `mindhold conversations recap {conversation}` makes one.")


@conversations.command(
    "recap",
    examples=["mindhold conversations recap abc-123", "mindhold conversations recap abc-123 --json"],
)
@click.argument("conversation")
@click.option("--scope", "project", metavar="NAME", help="In this scope.")
@with_open_session
async def recap(session: OpenSession, /, *, conversation: str, project: str | None) -> None:
    """Summarise a conversation now, or bring its summary up to date."""
    from mindhold.conversations.recaps import RECAP

    result = await session.run(RECAP, conversation=conversation, project=project)
    console = session.console
    if console.json:
        console.document(result)
        return
    console.note(result.notice)
    if result.recap:
        for line in console.paragraphs(result.recap.content, indent=0):
            console.line(line)
        news = "" if result.made else " Nothing is new."
        console.note(
            f"{result.recap.id}, by {result.recap.made_by}, {plural(result.recap.count, 'message')}.{news}"
        )


def _print_heading(session: OpenSession, one: ConversationView) -> None:
    times = f"{local_time(one.first, session.zone)} to {local_time(one.last, session.zone)}"
    head = f"{neutral(one.conversation)}  {neutral(one.scope)}, {plural(one.messages, 'message')}, {times}"
    session.console.line(session.console.style(head, bold=True))


async def _print_recap(session: OpenSession, recap: RecapView, *, limit: int | None) -> None:
    from mindhold.conversations.recaps import RECAP_MESSAGES

    console = session.console
    away = ", in the archive" if recap.archived else ""
    console.line(f"{recap.id}  level {recap.level}, by {recap.made_by}{away}")
    for line in console.paragraphs(recap.content, indent=2):
        console.line(f"  {line}")
    if recap.part is None:
        return
    result = await session.run(RECAP_MESSAGES, id=recap.id, limit=limit)
    for message in result.messages:
        when = local_time(message.timestamp, session.zone)
        console.line(f"    {when}  {message.message_type}: {one_line(message.content, most=160)}")
    if len(result.messages) < result.total:
        console.note(f"{len(result.messages)} of {result.total}; -n shows more.")


def _gist(recap: RecapView | None) -> str:
    if recap is None:
        return ""
    lines = [line for line in recap.content.split("\n")[1:] if line.startswith("- ")]
    return one_line((lines or recap.content.split("\n"))[0].removeprefix("- "), most=LONGEST_CELL)
