"""`mindhold history archive`, `forget` and `status`: what is kept of past conversations."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mindhold.interfaces.cli.command import command, with_open_session, with_session
from mindhold.interfaces.cli.forget import confirm, print_receipt
from mindhold.interfaces.cli.history import SHORT_ID
from mindhold.interfaces.cli.output import Console, local_time, megabytes, neutral, one_line, plural
from mindhold.interfaces.cli.session import CliSession, OpenSession
from mindhold.model.errors import InvalidInput

if TYPE_CHECKING:
    from mindhold.history.archive import ArchiveHistoryResult
    from mindhold.history.forget import ForgetConversationResult
    from mindhold.history.status import HistoryStatusResult


SETTING = "history.archive"
MOST_LISTED = 20
LONGEST_CELL = 72


@command(
    "archive",
    examples=[
        "mindhold history archive",
        "mindhold history archive --on --yes",
        "mindhold history archive --off",
        "mindhold history archive --restore 3f2a91c0 --to ~/old.jsonl",
    ],
)
@click.option("--on", "how", flag_value="on", help="From now on, by itself; sets history.archive.")
@click.option("--off", "how", flag_value="off", help="No more from now on. What was copied stays.")
@click.option("--once", "how", flag_value="once", help="Now, and not by itself.")
@click.option("--yes", "-y", is_flag=True, help="Don't ask.")
@click.option(
    "--restore", metavar="SESSION", help="Write this conversation's transcript to a file, as it was."
)
@click.option("--to", type=click.Path(path_type=Path), help="A new file for --restore, or a folder.")
@with_session
async def archive(
    cli: CliSession, /, *, how: str | None, yes: bool, restore: str | None, to: Path | None
) -> int:
    """Keep transcripts when the program that wrote them deletes them: Claude Code does so after 30 days.

    Copies are compressed in the archive folder of the home, for you alone, whole and with all that was said, secrets too;
    what is shown of them is without. The oldest make room (history.archive_max_mb). The first time this asks.
    """
    from mindhold.history.archive import ARCHIVE_HISTORY

    if (restore is None) != (to is None):
        raise click.UsageError("--restore names the conversation, and --to where it goes: give both.")
    if restore is not None and how is not None:
        raise click.UsageError(f"--restore writes one transcript, --{how} is about the archive: give one.")
    if restore is not None and to is not None:
        await _restore(cli, restore, to)
        return 0
    if how == "off":
        _set(cli, on=False)
        return 0
    if not cli.loaded().settings.history.enabled:
        raise InvalidInput(
            "Past conversations are switched off: nothing would be copied.",
            advice="`mindhold config set history.enabled true` switches them on.",
        )
    consented = bool(cli.loaded().settings.history.archive)
    if not consented and how != "once":
        if not yes:
            _explain(cli)
            confirm(cli.console, "Keep copies of past conversations from now on?")
        _set(cli, on=True, told=not cli.console.json)
    async with cli.open() as session:
        result = await session.run(ARCHIVE_HISTORY)
    if cli.console.json:
        cli.console.document(result)
    else:
        _told(cli, result)
    return 1 if result.problems else 0


def _explain(cli: CliSession) -> None:
    settings = cli.loaded().settings
    cli.console.note(
        f"Copies go to {settings.home / 'archive'}, compressed, readable by you alone, at most "
        f"{settings.history.archive_max_mb:,} MB. They are whole: what somebody typed into a conversation, secrets too, is "
        "in them as it is in the transcripts now. --off ends it, `mindhold history forget` removes a conversation."
    )


def _set(cli: CliSession, *, on: bool, told: bool = True) -> None:
    from mindhold.interfaces.cli.config import warn_if_overridden, write_setting

    value = "true" if on else "false"
    path = write_setting(cli, SETTING, value)
    warn_if_overridden(cli, SETTING)
    if not told:
        return
    if cli.console.json:
        cli.console.document({"key": SETTING, "value": on, "file": str(path)})
        return
    cli.console.line(f"{SETTING} = {value} in {path}")
    if not on:
        folder = cli.loaded().settings.home / "archive"
        cli.console.note(
            f"What was copied stays in {folder}: delete that, or use `mindhold history forget` for one conversation."
        )


async def _restore(cli: CliSession, name: str, to: Path) -> None:
    from mindhold.history.archive import RESTORE_CONVERSATION

    async with cli.open() as session:
        result = await session.run(RESTORE_CONVERSATION, session=name, to=to)
    if cli.console.json:
        cli.console.document(result)
        return
    for file in result.files:
        cli.console.line(neutral(file))


def _told(cli: CliSession, result: ArchiveHistoryResult) -> None:
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
    for one in result.evicted[:MOST_LISTED]:
        about = one_line(one.title, most=LONGEST_CELL)
        console.line(f"  made room, or found none: {one.session_id[:SHORT_ID]}  {about}")
    if len(result.evicted) > MOST_LISTED:
        console.line(f"  and {len(result.evicted) - MOST_LISTED} more")
    for one in result.too_big:
        console.warn(f"{one.file} is bigger than the whole archive may be: history.archive_max_mb.")
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
@click.option("--dry-run", "-n", is_flag=True, help="Only say what would go.")
@click.option("--force", is_flag=True, help="Also memories that are anchors or permanent.")
@click.option("--yes", "-y", is_flag=True, help="Don't ask.")
@click.option("--lift", is_flag=True, help="Let a forgotten one be indexed and captured again.")
@with_open_session
async def forget(
    opened: OpenSession, /, *, session: str, dry_run: bool, force: bool, yes: bool, lift: bool
) -> None:
    """Remove a conversation for good: from the index, from the archive, and the memories that came from it.

    Its sub-agents' go with it, and what any agent stored in it. It is never indexed, archived or captured again, unless --lift
    says so. The transcript itself is another program's, and stays: its place is told. So do conversations that were resumed or
    forked from it: they are named. What was broken off is finished by the same command.
    """
    from mindhold.history.forget import FORGET_CONVERSATION

    console = opened.console
    if lift and (dry_run or force):
        raise click.UsageError("--lift removes nothing: leave --dry-run and --force out.")
    if lift:
        lifted = await opened.run(FORGET_CONVERSATION, session=session, lift=True)
        if console.json:
            console.document(lifted)
        else:
            console.line(f"{neutral(lifted.session_id)} may be indexed and captured again.")
            console.note("`mindhold history index` reads it now.")
        return
    if dry_run or not yes:
        before = await opened.run(FORGET_CONVERSATION, session=session, force=force, preview=True)
        if dry_run and console.json:
            console.document(before)
            return
        if not console.json:
            _preview(console, before)
        if dry_run:
            return
        confirm(console, f"Remove it for good, and {plural(before.memory_count, 'memory')} with it?")
        session = before.session_id
    result = await opened.run(FORGET_CONVERSATION, session=session, force=force)
    if console.json:
        console.document(result)
        return
    _gone(console, result)


def _preview(console: Console, doomed: ForgetConversationResult) -> None:
    title = next((one.title for one in doomed.conversations if one.title), "")
    console.line(console.style(one_line(title or doomed.session_id, most=200), bold=True))
    console.line(f"  {neutral(doomed.session_id)}")
    parts = max(0, len(doomed.conversations) - 1)
    besides = f", with {plural(parts, 'sub-agent')}" if parts else ""
    console.line(f"  {plural(doomed.passages, 'passage')} of the index{besides}")
    console.line(f"  {plural(doomed.archived, 'copy')} in the archive")
    console.line(f"  {plural(doomed.memory_count, 'memory')}")
    for one in doomed.memories:
        console.line(f"    {one.id}  {one.kind}: {one_line(one.content, most=LONGEST_CELL)}")
    if doomed.memory_count > len(doomed.memories):
        console.line(f"    and {doomed.memory_count - len(doomed.memories)} more")
    _kept(console, doomed)
    _repeated(console, doomed)
    if doomed.originals:
        console.line("  The transcript is another program's, and stays:")
    for file in doomed.originals:
        console.line(f"    {neutral(file)}")


def _gone(console: Console, result: ForgetConversationResult) -> None:
    removed = sum(result.receipt.removed.values()) if result.receipt else 0
    if result.already and not removed:
        console.line(f"{neutral(result.session_id)} is forgotten already, and nothing more of it was there.")
    else:
        console.line(
            f"Forgot {neutral(result.session_id)}, and {plural(result.memory_count, 'memory')} with it."
        )
    if result.receipt:
        print_receipt(console, result.receipt)
        console.note(
            "Rows, notes and copies were counted. A database may hold words of them in pages that it no longer uses: "
            '`mindhold doctor --scrub --phrase "..."` rewrites its file and proves that no such bytes are in it.'
        )
    _kept(console, result)
    _repeated(console, result)
    console.note(result.notice)
    if result.originals:
        console.line("The transcript is not ours and stays; delete it for the words to be gone altogether:")
        for file in result.originals:
            console.line(f"  {neutral(file)}")


def _repeated(console: Console, result: ForgetConversationResult) -> None:
    if not result.repeated_in:
        return
    console.line("  These conversations repeat parts of it, and stay; `mindhold history forget` them too:")
    for one in result.repeated_in[:MOST_LISTED]:
        console.line(f"    {neutral(one.session_id)}  {one_line(one.title, most=LONGEST_CELL)}")
    if len(result.repeated_in) > MOST_LISTED:
        console.line(f"    and {len(result.repeated_in) - MOST_LISTED} more")


def _kept(console: Console, result: ForgetConversationResult) -> None:
    if not result.kept:
        return
    stay = "stays: it is" if len(result.kept) == 1 else "stay: they are"
    console.line(f"  {plural(len(result.kept), 'memory')} {stay} kept for good (--force takes them too)")
    for one in result.kept:
        console.line(f"    {one.id}  {one.kind}: {one_line(one.content, most=LONGEST_CELL)}")


MOST_NAMED = 5  # by their whole ids


@command("status", examples=["mindhold history status", "mindhold history status --json"])
@with_open_session
async def status(session: OpenSession) -> None:
    """What is indexed and what isn't yet, what is kept, and what will be deleted within a week."""
    from mindhold.history.status import HISTORY_STATUS

    result = await session.run(HISTORY_STATUS)
    console = session.console
    if console.json:
        console.document(result)
        return
    facts = _facts(session, result)
    widest = max(len(name) for name, _ in facts)
    for name, value in facts:
        console.line(f"{console.style(name.ljust(widest), dim=True)}  {neutral(value)}")
    for one in result.vanishing:
        when = (
            "at its next start"
            if one.when <= datetime.now(UTC)
            else f"on {local_time(one.when, session.zone)[:10]}"
        )
        head = f"  {when:<17}  {one.session_id[:SHORT_ID]}"
        console.line(f"{head}  {one_line(one.title, most=console.room(head, otherwise=LONGEST_CELL))}")
    if result.vanishing_count > len(result.vanishing):
        console.line(f"  and {result.vanishing_count - len(result.vanishing)} more")
    _told_trouble(session, result)
    if result.vanishing and not result.archive:
        console.note("`mindhold history archive` keeps copies of them.")


def _told_trouble(session: OpenSession, result: HistoryStatusResult) -> None:
    """What copying met while nobody looked, and copies that nobody may expect."""
    console = session.console
    looked = f" ({local_time(result.archive_looked, session.zone)})" if result.archive_looked else ""
    for problem in result.archive_problems:
        console.warn(f"not copied{looked}: {problem}")
    for file in result.archive_too_big:
        console.warn(f"not copied{looked}: {file} is bigger than history.archive_max_mb")
    if result.made_room_count:
        named = ", ".join(one[:SHORT_ID] for one in result.made_room)
        more = ", …" if result.made_room_count > len(result.made_room) else ""
        when = result.made_room_at[:10]
        told = f"{plural(result.made_room_count, 'conversation')} made room in the archive or found none, last {when}: "
        console.note(told + named + more)
    if result.excluded_copies:
        named = ", ".join(result.excluded_copies[:MOST_NAMED])
        more = ", …" if len(result.excluded_copies) > MOST_NAMED else ""
        console.note(
            f"{plural(len(result.excluded_copies), 'conversation')} of excluded projects still have copies; "
            f"`mindhold history forget ID` removes one: {named}{more}"
        )


def _reader(result: HistoryStatusResult) -> str:
    """Who reads before an answer; also why not the RLM server that is configured."""
    told = {"rlm": "an RLM server", "index": "the index alone"}.get(result.rung, result.rung)
    return f"{told}; the RLM server can't be started: {result.doubt}" if result.doubt else told


def _facts(session: OpenSession, result: HistoryStatusResult) -> list[tuple[str, str]]:
    stood = f", last held {local_time(result.latest, session.zone)}" if result.latest else ""
    kinds = [
        (result.subagents, "of sub-agents besides"),
        (result.gone, "only in the archive"),
        (result.left_out, "left out"),
        (result.forgotten, "forgotten"),
    ]
    besides = "".join(f", {count:,} {what}" for count, what in kinds if count)
    state = "" if result.enabled else " (switched off: history.enabled)"
    vectors = f", {result.embedded:,} with vectors" if result.embedded else ""
    unread = f"{megabytes(result.unread_bytes)} in {plural(result.unread_files, 'file')}"
    kept = f"{plural(result.copies, 'copy')}, {megabytes(result.archive_bytes)} of {result.archive_room >> 20:,} MB"
    return [
        ("conversations", f"{result.conversations:,}{besides}{stood}{state}"),
        ("index", f"{plural(result.passages, 'passage')}{vectors}, {megabytes(result.index_bytes)}"),
        ("not yet indexed", unread if result.unread_files else "nothing"),
        ("archive", (kept if result.copies else "empty") + ("" if result.archive else "; switched off")),
        ("read by", _reader(result)),
        (
            "to be deleted",
            f"{plural(result.vanishing_count, 'conversation')} without a copy: Claude Code keeps {result.kept_days} days"
            if result.vanishing_count
            else "nothing that has no copy",
        ),
    ]
