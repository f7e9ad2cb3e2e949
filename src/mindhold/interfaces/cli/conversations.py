"""`mindhold conversations`: the message log and its summaries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from mindhold.interfaces.cli.command import Group, global_options, with_open_session
from mindhold.interfaces.cli.output import local_time, neutral, one_line, plural
from mindhold.interfaces.cli.session import OpenSession

if TYPE_CHECKING:
    from mindhold.conversations.recaps import RecapView


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
def conversations(ctx: click.Context) -> None:
    """Messages that programs saved here, and their summaries.

    Without a command the conversations are listed. For the transcripts that Claude Code and other programs keep
    themselves, see `mindhold history`.
    """
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_conversations)


@conversations.command(
    "list", examples=["mindhold conversations list", "mindhold conversations list --scope shop --json"]
)
@click.option("--scope", "project", metavar="NAME", help="Only in this scope.")
@click.option("--limit", "-n", type=int, metavar="N", help="How many at most (default: 20).")
@with_open_session
async def list_conversations(session: OpenSession, /, **fields: Any) -> None:
    """List conversations with counts and summaries, latest first."""
    from mindhold.conversations.recaps import LIST_CONVERSATIONS

    result = await session.run(LIST_CONVERSATIONS, **fields)
    console = session.console
    if console.as_json(result):
        return
    if not result.conversations:
        console.line("No message was saved yet. Past conversations of Claude Code are in `mindhold history`.")
        return
    rows = []
    for view in result.conversations:
        name, last = one_line(view.conversation, most=40), local_time(view.last, session.zone)
        rows.append([name, view.scope, view.messages, last, _gist(view.recap)])
    console.table(["conversation", "scope", "messages", "last", "summary"], rows)


@conversations.command(
    "show", examples=["mindhold conversations show abc-123", "mindhold conversations show abc-123 -n 200"]
)
@click.argument("conversation")
@click.option("--scope", "project", metavar="NAME", help="In this scope.")
@click.option("--limit", "-n", type=int, metavar="N", help="How many messages at most (default: 50).")
@with_open_session
async def show(session: OpenSession, /, *, conversation: str, project: str | None, limit: int | None) -> None:
    """Show the summaries of a conversation with their messages."""
    from mindhold.conversations.recaps import LIST_CONVERSATIONS, LIST_RECAPS

    result = await session.run(LIST_CONVERSATIONS, project=project, conversation=conversation)
    recaps = await session.run(
        LIST_RECAPS, project=project, conversation=conversation, archived=True, limit=200
    )
    console = session.console
    if console.as_json(result.model_dump(mode="json") | recaps.model_dump(mode="json", include={"recaps"})):
        return
    if not result.conversations:
        console.line(
            "There is no message of that conversation. `mindhold conversations list` names those there are."
        )
    for view in result.conversations:
        times = f"{local_time(view.first, session.zone)} to {local_time(view.last, session.zone)}"
        where = f"{neutral(view.conversation)}  {neutral(view.scope)}"
        console.line(console.style(f"{where}, {plural(view.messages, 'message')}, {times}", bold=True))
        own = [recap for recap in recaps.recaps if recap.scope == view.scope]
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
    """Summarise a conversation now, or update its summary."""
    from mindhold.conversations.recaps import RECAP

    result = await session.run(RECAP, conversation=conversation, project=project)
    console = session.console
    if console.as_json(result):
        return
    console.note(result.notice)
    if result.recap:
        console.text(result.recap.content)
        news = "" if result.made else " Nothing is new."
        console.note(
            f"{result.recap.id}, by {result.recap.made_by}, {plural(result.recap.count, 'message')}.{news}"
        )


async def _print_recap(session: OpenSession, recap: RecapView, *, limit: int | None) -> None:
    from mindhold.conversations.recaps import RECAP_MESSAGES

    console = session.console
    away = ", in the archive" if recap.archived else ""
    console.line(f"{recap.id}  level {recap.level}, by {recap.made_by}{away}")
    console.text(recap.content, indent=2)
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
