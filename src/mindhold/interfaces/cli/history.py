"""`mindhold history`: past conversations of every project on this machine."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from datetime import tzinfo
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mindhold.interfaces.cli.command import Group, command, with_open_session, with_session
from mindhold.interfaces.cli.output import (
    Console,
    display_width,
    local_time,
    megabytes,
    neutral,
    one_line,
    plural,
)
from mindhold.interfaces.cli.session import CliSession, OpenSession
from mindhold.model.errors import InvalidInput

if TYPE_CHECKING:
    from mindhold.history.conversation import PastConversationView, StretchView, UtteranceView
    from mindhold.history.index import IndexHistoryResult, MisreadView
    from mindhold.history.vectors import EmbedHistoryResult


SHORT_ID = 8  # characters of a session's id: a part that only it has is enough to name it
HASH, TELLING, LONGEST_TAIL = (
    32,
    3,
    4,
)  # characters of what is a hash, and of what tells something; parts of a path
MARGIN = 6  # columns for the numbers of lines
WIDE = 100  # columns, where it is no terminal
READ_FROM = {
    "archive": "read from the archive: the file is gone",
    "index": "as far as the index has it: the file is gone",
    "nowhere": "the file is gone, and nothing else has the words",
}


def print_heading(
    console: Console, one: PastConversationView, zone: tzinfo | None, *, with_file: bool = True
) -> None:
    """What a conversation is called, when and where it was held, and where it lies."""
    console.line(console.style(one_line(one.title or one.session_id, most=200), bold=True))
    when = [local_time(moment, zone) for moment in (one.started, one.ended) if moment]
    where = f"part of {one.part_of}" if one.part_of else ""
    about = [" to ".join(dict.fromkeys(when)), one.project, one.model or "", where]
    if told := " · ".join(neutral(part) for part in about if part):
        console.line(f"  {told}")
    console.line(f"  {neutral(one.session_id)}")
    if with_file:
        console.line(f"  {neutral(one.file)}")


def print_stretch(console: Console, stretch: StretchView, *, marked: int | None = None) -> None:
    """Each with the line that it stands on; what tries to instruct is marked, and stays a quotation."""
    if told := READ_FROM.get(stretch.read_from):
        console.note(told)
    if stretch.earlier:
        console.line(f"{'…':>{MARGIN}}")
    who = stretch.conversation.source.upper()
    for one in stretch.utterances:
        _print(console, one, who=who if one.role == "CLAUDE" else one.role, marked=one.line == marked)
    if stretch.after is not None:
        console.line(f"{'…':>{MARGIN}}")


def _print(console: Console, one: UtteranceView, *, who: str, marked: bool) -> None:
    tool = f" [{neutral(one.tool)}]" if one.tool else ""
    head = f"{who}{tool}{' failed' if one.failed else ''}:"
    lines = console.paragraphs(one.text, indent=MARGIN + 4)
    # What was said in one short line stands beside who said it.
    room = console.width if console.on_terminal else WIDE
    beside = len(lines) == 1 and display_width(head + lines[0]) + MARGIN + 4 <= room
    number = f"{'>' if marked else ''}{one.line}".rjust(MARGIN)
    first = console.style(head, bold=one.role == "USER", dim=one.role in ("TOOL", "RESULT"))
    console.line(f"{number}  {first}{' ' + lines[0] if beside and lines[0] else ''}")
    for line in [] if beside else lines:
        console.line(f"{'':{MARGIN}}    {line}".rstrip())
    if one.suspicious:
        why = ", ".join(one.suspicious)
        console.line(
            f"{'':{MARGIN}}    "
            + console.style(f"(looks like an instruction to whoever reads it: {why})", fg="yellow")
        )


def folder_names(paths: Iterable[str], *, longest: int) -> dict[str, str]:
    """The last part of each path, for a table: as much of it as tells it from the others, in so many characters."""
    every = list(dict.fromkeys(paths))
    names = {path: _tail(path, 1) for path in every}
    for parts in range(2, LONGEST_TAIL + 1):
        for name in {name for name in names.values() if list(names.values()).count(name) > 1}:
            names |= {path: _tail(path, parts) for path in every if names[path] == name}
    return {path: _short(name, longest) for path, name in names.items()}


def project_named(given: str | None, *, server: str) -> str | None:
    """A path that is meant from here, such as `.`, as a whole one; everything else is a name.

    Raises InvalidInput for such a path where a server is asked.
    """
    if given is None or not given.startswith((".", "~")):
        return given
    from mindhold.interfaces.cli.installation import whole_path

    if given.replace("\\", "/").split("/")[0] not in (".", "..", "~"):
        return given
    if server:
        raise InvalidInput(
            f"The folder {given!r} is one of this machine.",
            advice="Name the project as `mindhold history projects` does.",
        )
    return str(whole_path(Path(given)))


def _tail(path: str, parts: int) -> str:
    """At least so many parts; a number, or a hidden folder, tells nothing without the one above it."""
    every = [part for part in path.replace("\\", "/").split("/") if part]
    while parts < len(every) and (len(every[-parts]) < TELLING or every[-parts].startswith(".")):
        parts += 1
    return "/".join(every[-parts:]) or path


def _short(name: str, longest: int) -> str:
    """Some programs call a project by a hash."""
    if len(name) >= HASH and set(name) <= set("0123456789abcdef"):
        return f"{name[:SHORT_ID]}…"
    return name if len(name) <= longest else f"…{name[1 - longest :]}"


VECTOR_SECONDS = 60.0  # that vectors may take; the others come by and by
MOST_VECTORS = 1_000_000
MOST_WARNINGS = 20
LONGEST_CELL = 72
_HERE = "mindhold.interfaces.cli"
_WHERE = {
    "index": f"{_HERE}.history:index",
    "search": f"{_HERE}.history:search",
    "timeline": f"{_HERE}.history:timeline",
    "projects": f"{_HERE}.history:projects",
    "show": f"{_HERE}.history:show",
    "summarize": f"{_HERE}.history:summarize",
    "archive": f"{_HERE}.history_archive:archive",
    "forget": f"{_HERE}.history_archive:forget",
    "status": f"{_HERE}.history_archive:status",
}


@click.group(
    "history",
    cls=Group,
    where=_WHERE,
    examples=[
        'mindhold history search "how did I fix the flaky login test?"',
        "mindhold history timeline --days 30",
        "mindhold history show 3f2a91c0 --around 120",
    ],
)
def history() -> None:
    """Past conversations of Claude Code and others on this machine.

    A conversation is named by its id or a part that only it has, a project by its path, its folder or a part of that.
    """


@command(
    "index",
    examples=[
        "mindhold history index",
        "mindhold history index --seconds 30",
        "mindhold history index --background",
    ],
)
@click.option(
    "--seconds", "most_seconds", type=float, metavar="N", help="Stop after so long; the next goes on."
)
@click.option("--all", "every", is_flag=True, help="Read everything anew.")
@click.option("--no-vectors", is_flag=True, help="Words only.")
@click.option("--background", is_flag=True, help="Let another process do it, and return at once.")
@with_session
async def index(
    cli: CliSession, /, *, most_seconds: float | None, every: bool, no_vectors: bool, background: bool
) -> None:
    """Read what is new in the transcripts, so that it can be searched.

    It happens by itself when something is searched, and while a server runs. What was interrupted goes on where it was.
    """
    from mindhold.history.index import INDEX_HISTORY
    from mindhold.history.vectors import EMBED_HISTORY

    if background:
        _in_background(cli)
        return
    logging.getLogger("mindhold.history").addHandler(logging.NullHandler())  # it is told below
    async with cli.open() as session:
        done = await session.run(INDEX_HISTORY, all=every, most_seconds=most_seconds)
        made: EmbedHistoryResult | None = None
        if not no_vectors and not done.busy and most_seconds is None:
            session.running.warm()
            made = await session.run(EMBED_HISTORY, most=MOST_VECTORS, seconds=VECTOR_SECONDS)
        if session.console.json:
            vectors = made.model_dump(mode="json") if made else None
            session.console.document({**done.model_dump(mode="json"), "vectors": vectors})
            return
        _told_index(session, done)
        if made is not None:
            _told_vectors(session, made)


def _in_background(cli: CliSession) -> None:
    from mindhold.hooks.worker_start import start_indexer

    started = start_indexer(str(cli.loaded().settings.home))
    if cli.console.json:
        cli.console.document({"started": started})
    elif started:
        cli.console.line("It goes on in the background; `mindhold history status` tells how far it is.")
    else:
        cli.console.line("Another process is at it already.")


def _told_index(session: OpenSession, done: IndexHistoryResult) -> None:
    from mindhold.history.index import LEFT

    console = session.console
    if done.busy or (done.notice and not done.files):
        console.line(done.notice)
        return
    if done.bytes or done.passages:
        console.line(
            f"Indexed {plural(done.conversations, 'conversation')}: {megabytes(done.bytes)} in {done.seconds:.1f} s, "
            f"{plural(done.passages, 'passage')}."
        )
    elif not done.vanished and not done.excluded:
        console.line("Nothing is new.")
    if done.excluded:
        console.line(f"{plural(done.excluded, 'conversation')} left out, by history.exclude.")
    if done.vanished:
        console.line(f"{plural(done.vanished, 'conversation')} vanished from the disk.")
    if done.archive:
        console.warn(f"{done.archive} `mindhold history status` tells more.")
    if done.left:
        console.line(f"{megabytes(done.left)} are left; the next call goes on there.")
    if told := done.notice.removeprefix(LEFT).strip():
        console.line(told)
    by_file: dict[str, list[MisreadView]] = {}
    for warning in done.warnings:
        by_file.setdefault(warning.file, []).append(warning)
    for file, misread in list(by_file.items())[:MOST_WARNINGS]:
        console.warn(f"{file}{_lines(misread)}: {misread[0].problem}")
    if len(by_file) > MOST_WARNINGS:
        console.warn(f"and {len(by_file) - MOST_WARNINGS} more files; --json has them all.")


def _lines(misread: Sequence[MisreadView]) -> str:
    """Where in the file, as editors take it."""
    numbers = [one.line for one in misread if one.line]
    if not numbers:
        return ""
    return f":{numbers[0]}" + (f" and {plural(len(numbers) - 1, 'more line')}" if len(numbers) > 1 else "")


def _told_vectors(session: OpenSession, made: EmbedHistoryResult) -> None:
    if made.embedded:
        session.console.line(f"Made vectors for {plural(made.embedded, 'passage')} that had none.")
    if made.left:
        session.console.note(f"{plural(made.left, 'passage')} have no vector yet: they come by and by.")
    session.console.note(made.notice)


@command(
    "search",
    remote=True,
    examples=[
        'mindhold history search "how did I fix the flaky login test?"',
        "mindhold history search migration --project shop -n 10 --json",
    ],
)
@click.argument("query", nargs=-1, required=True)
@click.option("--project", "-p", metavar="NAME", help="Only of this project.")
@click.option("--limit", "-n", type=int, metavar="N", help="At most how many conversations (5).")
@with_open_session
async def search(
    session: OpenSession, /, *, query: tuple[str, ...], project: str | None, limit: int | None
) -> None:
    """Find what was said in past conversations: the words, and the file and line where they stand."""
    from mindhold.history.search import SEARCH_HISTORY

    session.running.warm()
    result = await session.run(
        SEARCH_HISTORY,
        query=" ".join(query),
        project=project_named(project, server=session.server),
        limit=limit,
    )
    console = session.console
    if console.json:
        console.document(result)
        return
    for number, found in enumerate(result.results, 1):
        head = f"{number}. {local_time(found.timestamp, session.zone)}"
        called = one_line(found.title or found.summary, most=console.room(head, otherwise=LONGEST_CELL))
        console.line(console.style(f"{head}  {called}", bold=True))
        about = (found.session_id[:SHORT_ID] or found.memory_id, found.project, found.relevance)
        console.line(f"   {one_line(' · '.join(filter(None, about)), most=200)}")
        told = not found.session_id and found.excerpt in called  # a memory is its own title
        for line in [] if told else console.paragraphs(found.excerpt, indent=3):
            console.line(f"   {line}")
        if found.file:
            place = f"{found.file}:{found.line}" if found.line else found.file
            where = "  (only in the archive)" if found.source == "archive" else ""
            console.line(f"   {neutral(place)}{where}")
        for memory in found.memories:
            about_it = f"{memory['id']}  {memory['kind']}: {memory['content']}"
            console.line(f"   {one_line(about_it, most=console.room(' ', otherwise=LONGEST_CELL + 40))}")
    if not result.results:
        console.line("Nothing was found.")
    if result.message:
        advice = result.resolution or ""
        console.warn(result.message if advice in result.message else f"{result.message} {advice}")
    console.note((result.suggestion or "").removeprefix("Nothing was found.").strip())
    searched = (
        f"{plural(result.total_sessions_searched, 'conversation')} searched with {result.searched_with}"
    )
    shows = (
        "; `mindhold history show SESSION --around LINE` shows one"
        if not session.server and result.results
        else ""
    )
    console.note(f"{searched}{shows}.")


@command(
    "timeline",
    remote=True,
    examples=[
        "mindhold history timeline",
        "mindhold history timeline last month",
        "mindhold history timeline --days 30 -p shop",
    ],
)
@click.argument("time", nargs=-1)
@click.option("--days", type=int, metavar="N", help="How far back (7).")
@click.option("--project", "-p", metavar="NAME", help="Only of this project; . is the folder you are in.")
@with_open_session
async def timeline(
    session: OpenSession, /, *, time: tuple[str, ...], days: int | None, project: str | None
) -> None:
    """The conversations of the last days, or of a TIME in words, the newest first."""
    from mindhold.history.timeline import HISTORY_TIMELINE

    if time and days is not None:
        raise click.UsageError("Give a TIME or --days, not both.")
    result = await session.run(
        HISTORY_TIMELINE,
        days=days,
        when=" ".join(time) or None,
        project=project_named(project, server=session.server),
    )
    if session.console.json:
        session.console.document(result)
        return
    if result.sessions:
        longest = session.console.room(otherwise=5 * LONGEST_CELL) // 5
        names = folder_names((one.project for one in result.sessions), longest=longest)
        rows = [
            [one.session_id[:SHORT_ID], local_time(one.timestamp, session.zone), names[one.project]]
            for one in result.sessions
        ]
        beside = [max(column, key=display_width) for column in zip(_TIMELINE[:-1], *rows, strict=True)]
        room = session.console.room(*beside, otherwise=LONGEST_CELL)
        about = [one_line(one.title or one.summary, most=room) for one in result.sessions]
        session.console.table(_TIMELINE, [[*row, told] for row, told in zip(rows, about, strict=True)])
        session.console.note(result.suggestion or "")
    else:
        session.console.line(result.suggestion or "No conversation.")
    more = "; `mindhold history show SESSION` shows one" if not session.server and result.sessions else ""
    session.console.note(f"{plural(result.total_sessions, 'conversation')}, {result.date_range}{more}.")


_TIMELINE = ("session", "when", "project", "about")


@command("projects", remote=True, examples=["mindhold history projects", "mindhold history projects --json"])
@with_open_session
async def projects(session: OpenSession) -> None:
    """The projects that there are conversations of, the one used last first."""
    from mindhold.history.projects import HISTORY_PROJECTS

    result = await session.run(HISTORY_PROJECTS)
    if session.console.json:
        session.console.document(result)
        return
    if result.projects:
        session.console.table(
            ["project", "conversations", "last used", "size"],
            [
                [
                    one.path,
                    one.session_count,
                    local_time(one.last_used, session.zone),
                    megabytes(int(one.total_size_mb * 1e6)),
                ]
                for one in result.projects
            ],
        )
    else:
        session.console.line("No conversation is known.")
    session.console.note(result.suggestion or "")
    if result.projects:
        size = megabytes(round(sum(one.total_size_mb for one in result.projects) * 1e6))
        held = plural(result.total_sessions, "conversation")
        session.console.note(f"{plural(result.total_projects, 'project')}, {held}, {size}.")


@command(
    "show",
    examples=[
        "mindhold history show 3f2a91c0",
        "mindhold history show 3f2a91c0 --around 120",
        "mindhold history show 3f2a91c0 --after 400 -n 100",
    ],
)
@click.argument("session")
@click.option("--around", type=int, metavar="LINE", help="What stands around this line of the file.")
@click.option("--after", type=int, metavar="LINE", help="What stands behind this line.")
@click.option(
    "--limit", "-n", type=int, metavar="N", help="At most how much: utterances (200; 10 around a line)."
)
@with_open_session
async def show(
    opened: OpenSession, /, *, session: str, around: int | None, after: int | None, limit: int | None
) -> None:
    """A conversation as it was, without secrets: from its file, else from the archive or the index.

    SESSION may be a file too, such as a sub-agent's.
    """
    from mindhold.history.conversation import SHOW_CONVERSATION

    if around is not None and after is not None:
        raise click.UsageError(
            "--around shows what stands around a line, --after what follows one: give one."
        )
    most = 10 if limit is None and around else limit
    shown = await opened.run(SHOW_CONVERSATION, session=session, around=around, after=after, limit=most)
    if opened.console.json:
        opened.console.document(shown)
        return
    print_heading(opened.console, shown.conversation, opened.zone)
    print_stretch(opened.console, shown, marked=around)
    last = shown.utterances[-1].line if shown.utterances else 0
    if around is not None and around > last:
        opened.console.warn(f"There is no line {around}: what was said ends on line {last}.")
    if after is not None and not shown.utterances:
        opened.console.warn(f"Nothing was said behind line {after}.")
    if shown.after is not None:
        opened.console.note(f"There is more: --after {shown.after} shows it.")


@command(
    "summarize",
    examples=["mindhold history summarize 3f2a91c0", "mindhold history summarize 3f2a91c0 --json"],
)
@click.argument("session")
@with_open_session
async def summarize(opened: OpenSession, /, *, session: str) -> None:
    """Sum a conversation up, and keep that: by an RLM server or a language model where one is set up, else in its own words."""
    from mindhold.history.summary import SUMMARIZE_CONVERSATION

    result = await opened.run(SUMMARIZE_CONVERSATION, session=session)
    if opened.console.json:
        opened.console.document(result)
        return
    print_heading(opened.console, result.conversation, opened.zone)
    for line in opened.console.paragraphs(result.conversation.summary, indent=2):
        opened.console.line(f"  {line}")
    by = _BY.get(result.conversation.summary_by, "")
    opened.console.note(f"{by}. {result.notice}".strip(". ") + ".")


_BY = {
    "rlm": "by the RLM server",
    "model": "by a language model",
    "made": "by rules: sentences of the conversation itself",
}
