"""`mindhold history status`: how past conversations stand."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from mindhold.interfaces.cli.command import command, with_desk
from mindhold.interfaces.cli.output import local_time, neutral, one_line, plural
from mindhold.interfaces.cli.session import Desk
from mindhold.interfaces.cli.talking import SHORT_ID, megabytes

if TYPE_CHECKING:
    from mindhold.operations.history_forms import HistoryStatusResult

LONGEST_CELL = 72
MOST_NAMED = 5  # by their whole ids


@command("status", examples=["mindhold history status", "mindhold history status --json"])
@with_desk
async def status(desk: Desk) -> None:
    """What is indexed and what isn't yet, what is kept, and what will be deleted within a week."""
    result: HistoryStatusResult = await desk.run("history_status")
    console = desk.console
    if console.json:
        console.document(result)
        return
    facts = _facts(desk, result)
    widest = max(len(name) for name, _ in facts)
    for name, value in facts:
        console.line(f"{console.style(name.ljust(widest), dim=True)}  {neutral(value)}")
    for one in result.vanishing:
        when = (
            "at its next start"
            if one.when <= datetime.now(UTC)
            else f"on {local_time(one.when, desk.zone)[:10]}"
        )
        head = f"  {when:<17}  {one.session_id[:SHORT_ID]}"
        console.line(f"{head}  {one_line(one.title, most=console.room(head, otherwise=LONGEST_CELL))}")
    if result.vanishing_count > len(result.vanishing):
        console.line(f"  and {result.vanishing_count - len(result.vanishing)} more")
    _told_trouble(desk, result)
    if result.vanishing and not result.archive:
        console.note("`mindhold history archive` keeps copies of them.")


def _told_trouble(desk: Desk, result: HistoryStatusResult) -> None:
    """What copying met while nobody looked, and copies that nobody may expect."""
    console = desk.console
    looked = f" ({local_time(result.archive_looked, desk.zone)})" if result.archive_looked else ""
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


def _facts(desk: Desk, result: HistoryStatusResult) -> list[tuple[str, str]]:
    stood = f", last held {local_time(result.latest, desk.zone)}" if result.latest else ""
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
