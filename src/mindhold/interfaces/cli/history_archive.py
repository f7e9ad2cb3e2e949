"""`mindhold history archive`, `forget` and `status`: what is kept of past conversations."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mindhold.interfaces.cli.command import command, with_open_session, with_session
from mindhold.interfaces.cli.forget import confirm, print_receipt
from mindhold.interfaces.cli.history import LONGEST_CELL, SHORT_ID
from mindhold.interfaces.cli.output import Console, local_time, megabytes, neutral, one_line, plural
from mindhold.interfaces.cli.session import CliSession, OpenSession
from mindhold.model.errors import InvalidInput

if TYPE_CHECKING:
    from mindhold.history.archive import ArchiveHistoryResult
    from mindhold.history.forget import ForgetConversationResult
    from mindhold.history.status import HistoryStatusResult


SETTING = "history.archive"
MOST_LISTED = 20


@command(
    "archive",
    examples=[
        "mindhold history archive",
        "mindhold history archive --on --yes",
        "mindhold history archive --off",
        "mindhold history archive --restore 3f2a91c0 --to ~/old.jsonl",
    ],
)
@click.option("--on", "how", flag_value="on", help="Archive from now on; sets history.archive.")
@click.option("--off", "how", flag_value="off", help="Stop archiving; existing copies stay.")
@click.option("--once", "how", flag_value="once", help="Archive once, now.")
@click.option("--yes", "-y", is_flag=True, help="Don't ask for confirmation.")
@click.option("--restore", metavar="SESSION", help="Write the transcript of this conversation to a file.")
@click.option("--to", type=click.Path(path_type=Path), help="The new file or the folder for --restore.")
@with_session
async def archive(
    cli: CliSession, /, *, how: str | None, yes: bool, restore: str | None, to: Path | None
) -> int:
    """Keep copies of transcripts, which Claude Code deletes.

    Claude Code deletes transcripts after 30 days. The compressed copies lie in the archive folder of the home, readable
    by you alone. They are complete, with any secrets; what is shown of them is redacted. If space runs out, the oldest
    are removed (history.archive_max_mb). The first run asks.
    """
    from mindhold.history.archive import ARCHIVE_HISTORY

    if (restore is None) != (to is None):
        raise click.UsageError("--restore names the conversation, and --to where it goes: give both.")
    if restore is not None and how is not None:
        raise click.UsageError(f"--restore writes one transcript, --{how} is about the archive: give one.")
    if restore is not None:
        await _restore(cli, restore, to)
        return 0
    if how == "off":
        _set_archive(cli, on=False)
        return 0
    if not cli.loaded().settings.history.enabled:
        raise InvalidInput(
            "Past conversations are switched off: nothing would be copied.",
            advice="`mindhold config set history.enabled true` switches them on.",
        )
    if not cli.loaded().settings.history.archive and how != "once":
        if not yes:
            _explain(cli)
            confirm(cli.console, "Keep copies of past conversations from now on?")
        _set_archive(cli, on=True, report=not cli.console.json)
    async with cli.open() as session:
        result = await session.run(ARCHIVE_HISTORY)
    if not cli.console.as_json(result):
        _print_archived(cli, result)
    return 1 if result.problems else 0


def _explain(cli: CliSession) -> None:
    settings = cli.loaded().settings
    cli.console.note(
        f"Copies go to {settings.home / 'archive'}, compressed, readable by you alone, at most "
        f"{settings.history.archive_max_mb:,} MB. They are whole: what somebody typed into a conversation, secrets too, is "
        "in them as it is in the transcripts now. --off ends it, `mindhold history forget` removes a conversation."
    )


def _set_archive(cli: CliSession, *, on: bool, report: bool = True) -> None:
    from mindhold.interfaces.cli.config import warn_if_overridden, write_setting

    value = "true" if on else "false"
    path = write_setting(cli, SETTING, value)
    warn_if_overridden(cli, SETTING)
    if not report or cli.console.as_json({"key": SETTING, "value": on, "file": str(path)}):
        return
    cli.console.line(f"{SETTING} = {value} in {path}")
    if not on:
        folder = cli.loaded().settings.home / "archive"
        cli.console.note(
            f"What was copied stays in {folder}: delete that, or use `mindhold history forget` for one conversation."
        )


async def _restore(cli: CliSession, name: str, to: Path | None) -> None:
    from mindhold.history.archive import RESTORE_CONVERSATION

    async with cli.open() as session:
        result = await session.run(RESTORE_CONVERSATION, session=name, to=to)
    if cli.console.as_json(result):
        return
    for file in result.files:
        cli.console.line(neutral(file))


def _print_archived(cli: CliSession, result: ArchiveHistoryResult) -> None:
    console = cli.console
    if result.busy:
        console.line("Another process is at it: nothing was copied.")
        return
    room = f"{megabytes(result.on_disk)} of {result.room >> 20:,} MB"
    if result.conversations:
        console.line(f"Copied {plural(result.conversations, 'conversation')}, {megabytes(result.bytes)}.")
    else:
        console.line("Nothing is new.")
    console.line(f"The archive has {plural(result.copies, 'copy')}: {room}.")
    for copy in result.evicted[:MOST_LISTED]:
        about = one_line(copy.title, most=LONGEST_CELL)
        console.line(f"  made room, or found none: {copy.session_id[:SHORT_ID]}  {about}")
    if len(result.evicted) > MOST_LISTED:
        console.line(f"  and {len(result.evicted) - MOST_LISTED} more")
    for copy in result.too_big:
        console.warn(f"{copy.file} is bigger than the whole archive may be: history.archive_max_mb.")
    for problem in result.problems:
        console.warn(problem)


@command(
    "forget",
    examples=[
        "mindhold history forget 3f2a91c0 --dry-run",
        "mindhold history forget 3f2a91c0",
        "mindhold history forget 3f2a91c0 --lift",
    ],
)
@click.argument("session")
@click.option("--dry-run", "-n", is_flag=True, help="Only show what would be removed.")
@click.option("--force", is_flag=True, help="Also remove anchors and permanent memories.")
@click.option("--yes", "-y", is_flag=True, help="Don't ask for confirmation.")
@click.option("--lift", is_flag=True, help="Allow a forgotten one to be indexed and captured again.")
@with_open_session
async def forget(
    opened: OpenSession, /, *, session: str, dry_run: bool, force: bool, yes: bool, lift: bool
) -> None:
    """Remove a conversation and its memories for good.

    It is removed from the index and the archive, with its sub-agents and the memories that any agent stored in it. It is
    never indexed, archived or captured again, except after --lift. The transcript itself belongs to another program and
    stays; its path is printed. Conversations that were resumed or forked from it stay too, and are listed. Run the same
    command again to finish an interrupted removal.
    """
    from mindhold.history.forget import FORGET_CONVERSATION

    console = opened.console
    if lift and (dry_run or force):
        raise click.UsageError("--lift removes nothing: leave --dry-run and --force out.")
    if lift:
        lifted = await opened.run(FORGET_CONVERSATION, session=session, lift=True)
        if not console.as_json(lifted):
            console.line(f"{neutral(lifted.session_id)} may be indexed and captured again.")
            console.note("`mindhold history index` reads it now.")
        return
    if dry_run or not yes:
        before = await opened.run(FORGET_CONVERSATION, session=session, force=force, preview=True)
        if dry_run and console.as_json(before):
            return
        if not console.json:
            _print_preview(console, before)
        if dry_run:
            return
        confirm(console, f"Remove it for good, and {plural(before.memory_count, 'memory')} with it?")
        session = before.session_id
    result = await opened.run(FORGET_CONVERSATION, session=session, force=force)
    if not console.as_json(result):
        _print_forgotten(console, result)


def _print_preview(console: Console, result: ForgetConversationResult) -> None:
    title = next((view.title for view in result.conversations if view.title), "")
    console.line(console.style(one_line(title or result.session_id, most=200), bold=True))
    console.line(f"  {neutral(result.session_id)}")
    parts = max(0, len(result.conversations) - 1)
    sub_agents = f", with {plural(parts, 'sub-agent')}" if parts else ""
    console.line(f"  {plural(result.passages, 'passage')} of the index{sub_agents}")
    console.line(f"  {plural(result.archived, 'copy')} in the archive")
    console.line(f"  {plural(result.memory_count, 'memory')}")
    for view in result.memories:
        console.line(f"    {view.id}  {view.kind}: {one_line(view.content, most=LONGEST_CELL)}")
    if result.memory_count > len(result.memories):
        console.line(f"    and {result.memory_count - len(result.memories)} more")
    _print_summaries(console, result, rewritten="are rewritten", dropped="go")
    _print_remaining(console, result)
    if result.originals:
        console.line("  The transcript is another program's, and stays:")
    for file in result.originals:
        console.line(f"    {neutral(file)}")


def _print_forgotten(console: Console, result: ForgetConversationResult) -> None:
    removed = sum(result.receipt.removed.values()) if result.receipt else 0
    name = neutral(result.session_id)
    if result.already and not removed:
        console.line(f"{name} is forgotten already, and nothing more of it was there.")
    else:
        console.line(f"Forgot {name}, and {plural(result.memory_count, 'memory')} with it.")
    _print_summaries(console, result, rewritten="were rewritten", dropped="are gone")
    if result.receipt:
        print_receipt(console, result.receipt)
        console.note(
            "Rows, notes and copies were counted. A database may hold words of them in pages that it no longer uses: "
            '`mindhold doctor --scrub --phrase "..."` rewrites its file and proves that no such bytes are in it.'
        )
    _print_remaining(console, result)
    console.note(result.notice)
    if result.originals:
        console.line("The transcript is not ours and stays; delete it for the words to be gone altogether:")
        for file in result.originals:
            console.line(f"  {neutral(file)}")


def _print_summaries(
    console: Console, result: ForgetConversationResult, *, rewritten: str, dropped: str
) -> None:
    """Print the versions of project summaries that hold words of the conversation."""
    for summary in result.summaries:
        for numbers, what in ((summary.rewritten, rewritten), (summary.dropped, dropped)):
            if numbers:
                versions = ", ".join(map(str, numbers))
                console.line(f"  Of the summary of {neutral(summary.project)}, versions {what}: {versions}")


def _print_remaining(console: Console, result: ForgetConversationResult) -> None:
    """Print the memories that stay, and the conversations that repeat parts of this one."""
    if result.kept:
        stay = "stays: it is" if len(result.kept) == 1 else "stay: they are"
        console.line(f"  {plural(len(result.kept), 'memory')} {stay} kept for good (--force takes them too)")
    for memory in result.kept:
        console.line(f"    {memory.id}  {memory.kind}: {one_line(memory.content, most=LONGEST_CELL)}")
    if result.repeated_in:
        console.line(
            "  These conversations repeat parts of it, and stay; `mindhold history forget` them too:"
        )
    for conversation in result.repeated_in[:MOST_LISTED]:
        title = one_line(conversation.title, most=LONGEST_CELL)
        console.line(f"    {neutral(conversation.session_id)}  {title}")
    if len(result.repeated_in) > MOST_LISTED:
        console.line(f"    and {len(result.repeated_in) - MOST_LISTED} more")


MOST_NAMED = 5  # printed with full ids


@command("status", examples=["mindhold history status", "mindhold history status --json"])
@with_open_session
async def status(session: OpenSession) -> None:
    """Show what is indexed, archived, and soon to be deleted."""
    from mindhold.history.status import HISTORY_STATUS

    result = await session.run(HISTORY_STATUS)
    console = session.console
    if console.as_json(result):
        return
    facts = _facts(session, result)
    widest = max(len(name) for name, _ in facts)
    for name, value in facts:
        console.line(f"{console.style(name.ljust(widest), dim=True)}  {neutral(value)}")
    for conversation in result.vanishing:
        day = f"on {local_time(conversation.when, session.zone)[:10]}"
        when = "at its next start" if conversation.when <= datetime.now(UTC) else day
        head = f"  {when:<17}  {conversation.session_id[:SHORT_ID]}"
        title = one_line(conversation.title, most=console.room(head, otherwise=LONGEST_CELL))
        console.line(f"{head}  {title}")
    if result.vanishing_count > len(result.vanishing):
        console.line(f"  and {result.vanishing_count - len(result.vanishing)} more")
    _print_problems(session, result)
    if result.vanishing and not result.archive:
        console.note("`mindhold history archive` keeps copies of them.")


def _print_problems(session: OpenSession, result: HistoryStatusResult) -> None:
    """Print problems of archiving, and copies of excluded projects."""
    console = session.console
    looked = f" ({local_time(result.archive_looked, session.zone)})" if result.archive_looked else ""
    for problem in result.archive_problems:
        console.warn(f"not copied{looked}: {problem}")
    for file in result.archive_too_big:
        console.warn(f"not copied{looked}: {file} is bigger than history.archive_max_mb")
    if result.made_room_count:
        ids = ", ".join(session_id[:SHORT_ID] for session_id in result.made_room)
        more = ", …" if result.made_room_count > len(result.made_room) else ""
        when = result.made_room_at[:10]
        text = f"{plural(result.made_room_count, 'conversation')} made room in the archive or found none, last {when}: "
        console.note(text + ids + more)
    if result.excluded_copies:
        ids = ", ".join(result.excluded_copies[:MOST_NAMED])
        more = ", …" if len(result.excluded_copies) > MOST_NAMED else ""
        console.note(
            f"{plural(len(result.excluded_copies), 'conversation')} of excluded projects still have copies; "
            f"`mindhold history forget ID` removes one: {ids}{more}"
        )


def _facts(session: OpenSession, result: HistoryStatusResult) -> list[tuple[str, str]]:
    latest = f", last held {local_time(result.latest, session.zone)}" if result.latest else ""
    kinds = [
        (result.subagents, "of sub-agents besides"),
        (result.gone, "only in the archive"),
        (result.left_out, "left out"),
        (result.forgotten, "forgotten"),
    ]
    others = "".join(f", {count:,} {what}" for count, what in kinds if count)
    state = "" if result.enabled else " (switched off: history.enabled)"
    vectors = f", {result.embedded:,} with vectors" if result.embedded else ""
    unread = f"{megabytes(result.unread_bytes)} in {plural(result.unread_files, 'file')}"
    copies = f"{plural(result.copies, 'copy')}, {megabytes(result.archive_bytes)} of {result.archive_room >> 20:,} MB"
    reader = {"rlm": "an RLM server", "index": "the index alone"}.get(result.rung, result.rung)
    count = plural(result.vanishing_count, "conversation")
    vanishing = f"{count} without a copy: Claude Code keeps {result.kept_days} days"
    return [
        ("conversations", f"{result.conversations:,}{others}{latest}{state}"),
        ("index", f"{plural(result.passages, 'passage')}{vectors}, {megabytes(result.index_bytes)}"),
        ("not yet indexed", unread if result.unread_files else "nothing"),
        ("archive", (copies if result.copies else "empty") + ("" if result.archive else "; switched off")),
        ("read by", f"{reader}; the RLM server can't be started: {result.doubt}" if result.doubt else reader),
        ("to be deleted", vanishing if result.vanishing_count else "nothing that has no copy"),
    ]
