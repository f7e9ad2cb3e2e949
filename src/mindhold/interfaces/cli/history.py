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
    DOUBTFUL,
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
    from mindhold.history.index import IndexHistoryResult
    from mindhold.history.index_pass import MisreadView
    from mindhold.history.passages import EmbedHistoryResult


SHORT_ID = 8  # characters of a session id that are shown; any unique part names it
HASH = 32  # shortest hex name that counts as a hash
TELLING = 3  # shortest folder name that means something by itself
LONGEST_TAIL = 4  # most parts of a path that are shown
MARGIN = 6  # columns for line numbers
WIDE = 100  # columns without a terminal
READ_FROM = {
    "archive": "read from the archive: the file is gone",
    "index": "as far as the index has it: the file is gone",
    "nowhere": "the file is gone, and nothing else has the words",
}


def print_heading(
    console: Console, conversation: PastConversationView, zone: tzinfo | None, *, with_file: bool = True
) -> None:
    """Print the title, times, project, id and file of a conversation."""
    console.line(console.style(one_line(conversation.title or conversation.session_id, most=200), bold=True))
    when = [local_time(moment, zone) for moment in (conversation.started, conversation.ended) if moment]
    where = f"part of {conversation.part_of}" if conversation.part_of else ""
    about = [" to ".join(dict.fromkeys(when)), conversation.project, conversation.model or "", where]
    if details := " · ".join(neutral(part) for part in about if part):
        console.line(f"  {details}")
    console.line(f"  {neutral(conversation.session_id)}")
    if with_file:
        console.line(f"  {neutral(conversation.file)}")


def print_stretch(console: Console, stretch: StretchView, *, marked: int | None = None) -> None:
    """Print utterances with their line numbers; text that looks like an instruction is marked."""
    if note := READ_FROM.get(stretch.read_from):
        console.note(note)
    if stretch.earlier:
        console.line(f"{'…':>{MARGIN}}")
    who = stretch.conversation.source.upper()
    for utterance in stretch.utterances:
        speaker = who if utterance.role == "CLAUDE" else utterance.role
        _print(console, utterance, who=speaker, marked=utterance.line == marked)
    if stretch.after is not None:
        console.line(f"{'…':>{MARGIN}}")


def _print(console: Console, utterance: UtteranceView, *, who: str, marked: bool) -> None:
    tool = f" [{neutral(utterance.tool)}]" if utterance.tool else ""
    head = f"{who}{tool}{' failed' if utterance.failed else ''}:"
    lines = console.paragraphs(utterance.text, indent=MARGIN + 4)
    # One short line is printed on the speaker's line.
    room = console.width if console.on_terminal else WIDE
    fits = len(lines) == 1 and display_width(head + lines[0]) + MARGIN + 4 <= room
    number = f"{'>' if marked else ''}{utterance.line}".rjust(MARGIN)
    first = console.style(head, bold=utterance.role == "USER", dim=utterance.role in ("TOOL", "RESULT"))
    console.line(f"{number}  {first}{' ' + lines[0] if fits and lines[0] else ''}")
    for line in [] if fits else lines:
        console.line(f"{'':{MARGIN}}    {line}".rstrip())
    if utterance.suspicious:
        why = ", ".join(utterance.suspicious)
        warning = f"(looks like an instruction to whoever reads it: {why})"
        console.line(f"{'':{MARGIN}}    {console.style(warning, fg='yellow')}")


def folder_names(paths: Iterable[str], *, longest: int) -> dict[str, str]:
    """Shorten each path for a table, to the last parts that tell it from the others."""
    every = list(dict.fromkeys(paths))
    names = {path: _tail(path, 1) for path in every}
    for parts in range(2, LONGEST_TAIL + 1):
        for name in {name for name in names.values() if list(names.values()).count(name) > 1}:
            names |= {path: _tail(path, parts) for path in every if names[path] == name}
    return {path: _short(name, longest) for path, name in names.items()}


def resolve_project(name: str | None, *, server: str) -> str | None:
    """Resolve a relative path such as `.`; everything else is a project's name.

    Raises InvalidInput for a relative path if a server is used.
    """
    if name is None or name.replace("\\", "/").split("/")[0] not in (".", "..", "~"):
        return name
    if server:
        raise InvalidInput(
            f"The folder {name!r} is one of this machine.",
            advice="Name the project as `mindhold history projects` does.",
        )
    from mindhold.interfaces.cli.installation import whole_path

    return str(whole_path(Path(name)))


def _tail(path: str, parts: int) -> str:
    """Return at least `parts` parts; a very short name or a hidden folder takes its parent along."""
    every = [part for part in path.replace("\\", "/").split("/") if part]
    while parts < len(every) and (len(every[-parts]) < TELLING or every[-parts].startswith(".")):
        parts += 1
    return "/".join(every[-parts:]) or path


def _short(name: str, longest: int) -> str:
    """Shorten a name to `longest` characters; a hash, which some programs use as a name, to its beginning."""
    if len(name) >= HASH and set(name) <= set("0123456789abcdef"):
        return f"{name[:SHORT_ID]}…"
    return name if len(name) <= longest else f"…{name[1 - longest :]}"


VECTOR_SECONDS = 60.0  # limit for making vectors; the rest is made later
MOST_VECTORS = 1_000_000
MOST_WARNINGS = 20
LONGEST_CELL = 72
IN_BACKGROUND = "It goes on in the background; `mindhold history status` tells how far it is."
_HERE = "mindhold.interfaces.cli.history"
_WHERE = {
    name: f"{_HERE}:{name}" for name in ("index", "search", "timeline", "projects", "show", "summarize")
}
_WHERE |= {name: f"{_HERE}_archive:{name}" for name in ("archive", "forget", "status")}


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
    """Past conversations of Claude Code and other programs.

    Name a conversation by its id or a unique part of it, and a project by its path, its folder or a part of that.
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
    "--seconds", "most_seconds", type=float, metavar="N", help="Stop after this time; the next run continues."
)
@click.option("--all", "every", is_flag=True, help="Read everything again.")
@click.option("--no-vectors", is_flag=True, help="Make no vectors.")
@click.option("--background", is_flag=True, help="Start another process for it and return at once.")
@with_session
async def index(
    cli: CliSession, /, *, most_seconds: float | None, every: bool, no_vectors: bool, background: bool
) -> None:
    """Index new parts of the transcripts, so that they can be searched.

    Searches and servers do it by themselves. An interrupted run continues where it stopped.
    """
    from mindhold.history.index import INDEX_HISTORY
    from mindhold.history.passages import EMBED_HISTORY
    from mindhold.hooks.worker import start_indexer

    if background:
        started = start_indexer(str(cli.loaded().settings.home))
        if not cli.console.as_json({"started": started}):
            cli.console.line(IN_BACKGROUND if started else "Another process is at it already.")
        return
    logging.getLogger("mindhold.history").addHandler(logging.NullHandler())  # printed below
    async with cli.open() as session:
        indexed = await session.run(INDEX_HISTORY, all=every, most_seconds=most_seconds)
        embedded: EmbedHistoryResult | None = None
        if not no_vectors and not indexed.busy and most_seconds is None:
            session.running.warm()
            embedded = await session.run(EMBED_HISTORY, most=MOST_VECTORS, seconds=VECTOR_SECONDS)
        vectors = embedded.model_dump(mode="json") if embedded else None
        if session.console.as_json({**indexed.model_dump(mode="json"), "vectors": vectors}):
            return
        _print_indexed(session.console, indexed)
        if embedded is None:
            return
        if embedded.embedded:
            session.console.line(f"Made vectors for {plural(embedded.embedded, 'passage')} that had none.")
        if embedded.left:
            session.console.note(
                f"{plural(embedded.left, 'passage')} have no vector yet: they come by and by."
            )
        session.console.note(embedded.notice)


def _print_indexed(console: Console, result: IndexHistoryResult) -> None:
    from mindhold.history.index import LEFT

    if result.busy or (result.notice and not result.files):
        console.line(result.notice)
        return
    if result.bytes or result.passages:
        console.line(
            f"Indexed {plural(result.conversations, 'conversation')}: {megabytes(result.bytes)} in {result.seconds:.1f} s, "
            f"{plural(result.passages, 'passage')}."
        )
    elif not result.vanished and not result.excluded:
        console.line("Nothing is new.")
    if result.excluded:
        console.line(f"{plural(result.excluded, 'conversation')} left out, by history.exclude.")
    if result.vanished:
        console.line(f"{plural(result.vanished, 'conversation')} vanished from the disk.")
    if result.archive:
        console.warn(f"{result.archive} `mindhold history status` tells more.")
    if result.left:
        console.line(f"{megabytes(result.left)} are left; the next call goes on there.")
    if notice := result.notice.removeprefix(LEFT).strip():
        console.line(notice)
    by_file: dict[str, list[MisreadView]] = {}
    for warning in result.warnings:
        by_file.setdefault(warning.file, []).append(warning)
    for file, misread in list(by_file.items())[:MOST_WARNINGS]:
        console.warn(f"{file}{_format_lines(misread)}: {misread[0].problem}")
    if len(by_file) > MOST_WARNINGS:
        console.warn(f"and {len(by_file) - MOST_WARNINGS} more files; --json has them all.")


async def _continue_indexing(session: OpenSession) -> None:
    """Have a background process index what the question had no time for."""
    if session.running.history_behind and await session.running.index_in_background():
        session.console.note(f"Older conversations are being indexed. {IN_BACKGROUND}")


def _format_lines(misread: Sequence[MisreadView]) -> str:
    """Format line numbers as editors accept them."""
    numbers = [warning.line for warning in misread if warning.line]
    if not numbers:
        return ""
    return f":{numbers[0]}" + (f" and {plural(len(numbers) - 1, 'more line')}" if len(numbers) > 1 else "")


@command(
    "search",
    remote=True,
    examples=[
        'mindhold history search "how did I fix the flaky login test?"',
        "mindhold history search migration --project shop -n 10 --json",
    ],
)
@click.argument("query", nargs=-1, required=True)
@click.option("--project", "-p", metavar="NAME", help="Only this project.")
@click.option("--limit", "-n", type=int, metavar="N", help="How many conversations at most (default: 5).")
@with_open_session
async def search(
    session: OpenSession, /, *, query: tuple[str, ...], project: str | None, limit: int | None
) -> None:
    """Search past conversations; prints text, file and line."""
    from mindhold.history.search import SEARCH_HISTORY
    from mindhold.memories.recall import NEAREST

    session.running.warm()
    project = resolve_project(project, server=session.server)
    result = await session.run(SEARCH_HISTORY, query=" ".join(query), project=project, limit=limit)
    await _continue_indexing(session)
    console = session.console
    if console.as_json(result):
        return
    if result.nearest:
        console.line(DOUBTFUL)
    elif not result.results:
        console.line("Nothing was found.")
    shown = result.results or result.nearest
    for number, hit in enumerate(shown, 1):
        head = f"{number}. {local_time(hit.timestamp, session.zone)}"
        title = one_line(hit.title or hit.summary, most=console.room(head, otherwise=LONGEST_CELL))
        console.line(console.style(f"{head}  {title}", bold=True))
        details = (hit.session_id[:SHORT_ID] or hit.memory_id, hit.project, hit.relevance)
        console.line(f"   {one_line(' · '.join(filter(None, details)), most=200)}")
        is_title = not hit.session_id and hit.excerpt in title  # a memory's content is its title
        for line in [] if is_title else console.paragraphs(hit.excerpt, indent=3):
            console.line(f"   {line}")
        if hit.file:
            place = f"{hit.file}:{hit.line}" if hit.line else hit.file
            where = "  (only in the archive)" if hit.source == "archive" else ""
            console.line(f"   {neutral(place)}{where}")
        for memory in hit.memories:
            text = f"{memory['id']}  {memory['kind']}: {memory['content']}"
            console.line(f"   {one_line(text, most=console.room(' ', otherwise=LONGEST_CELL + 40))}")
    if result.message:
        advice = result.resolution or ""
        console.warn(result.message if advice in result.message else f"{result.message} {advice}")
    console.note((result.suggestion or "").removeprefix(NEAREST).strip())
    count = plural(result.total_sessions_searched, "conversation")
    can_show = shown and not session.server
    shows = "; `mindhold history show SESSION --around LINE` shows one" if can_show else ""
    console.note(f"{count} searched with {result.searched_with}{shows}.")


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
@click.option("--days", type=int, metavar="N", help="How far back (default: 7).")
@click.option("--project", "-p", metavar="NAME", help="Only this project; . is the current folder.")
@with_open_session
async def timeline(
    session: OpenSession, /, *, time: tuple[str, ...], days: int | None, project: str | None
) -> None:
    """List conversations of the last days or of a TIME in words."""
    from mindhold.history.timeline import HISTORY_TIMELINE

    if time and days is not None:
        raise click.UsageError("Give a TIME or --days, not both.")
    project = resolve_project(project, server=session.server)
    result = await session.run(HISTORY_TIMELINE, days=days, when=" ".join(time) or None, project=project)
    await _continue_indexing(session)
    if session.console.as_json(result):
        return
    if result.sessions:
        longest = session.console.room(otherwise=5 * LONGEST_CELL) // 5
        names = folder_names((conversation.project for conversation in result.sessions), longest=longest)
        heads = ("session", "when", "project")
        rows = []
        for conversation in result.sessions:
            when = local_time(conversation.timestamp, session.zone)
            rows.append([conversation.session_id[:SHORT_ID], when, names[conversation.project]])
        widest = [max(column, key=display_width) for column in zip(heads, *rows, strict=True)]
        room = session.console.room(*widest, otherwise=LONGEST_CELL)
        for row, conversation in zip(rows, result.sessions, strict=True):
            row.append(one_line(conversation.title or conversation.summary, most=room))
        session.console.table((*heads, "about"), rows)
        session.console.note(result.suggestion or "")
    else:
        session.console.line(result.suggestion or "No conversation.")
    more = "; `mindhold history show SESSION` shows one" if not session.server and result.sessions else ""
    session.console.note(f"{plural(result.total_sessions, 'conversation')}, {result.date_range}{more}.")


@command("projects", remote=True, examples=["mindhold history projects", "mindhold history projects --json"])
@with_open_session
async def projects(session: OpenSession) -> None:
    """List projects that have conversations, last used first."""
    from mindhold.history.projects import HISTORY_PROJECTS

    result = await session.run(HISTORY_PROJECTS)
    await _continue_indexing(session)
    if session.console.as_json(result):
        return
    if not result.projects:
        session.console.line("No conversation is known.")
        session.console.note(result.suggestion or "")
    else:
        rows = []
        for project in result.projects:
            size = megabytes(int(project.total_size_mb * 1e6))
            rows.append(
                [project.path, project.session_count, local_time(project.last_used, session.zone), size]
            )
        session.console.table(["project", "conversations", "last used", "size"], rows)
        session.console.note(result.suggestion or "")
        size = megabytes(round(sum(project.total_size_mb for project in result.projects) * 1e6))
        conversations = plural(result.total_sessions, "conversation")
        session.console.note(f"{plural(result.total_projects, 'project')}, {conversations}, {size}.")


@command(
    "show",
    examples=[
        "mindhold history show 3f2a91c0",
        "mindhold history show 3f2a91c0 --around 120",
        "mindhold history show 3f2a91c0 --after 400 -n 100",
    ],
)
@click.argument("session")
@click.option("--around", type=int, metavar="LINE", help="Show what is around this line of the file.")
@click.option("--after", type=int, metavar="LINE", help="Show what follows this line.")
@click.option(
    "--limit",
    "-n",
    type=int,
    metavar="N",
    help="How many utterances at most (default: 200; 10 around a line).",
)
@with_open_session
async def show(
    opened: OpenSession, /, *, session: str, around: int | None, after: int | None, limit: int | None
) -> None:
    """Show a conversation without secrets.

    It is read from its file, else from the archive or the index. SESSION may also be a file, such as a sub-agent's.
    """
    from mindhold.history.conversation import SHOW_CONVERSATION

    if around is not None and after is not None:
        raise click.UsageError(
            "--around shows what stands around a line, --after what follows one: give one."
        )
    most = 10 if limit is None and around else limit
    stretch = await opened.run(SHOW_CONVERSATION, session=session, around=around, after=after, limit=most)
    if opened.console.as_json(stretch):
        return
    print_heading(opened.console, stretch.conversation, opened.zone)
    print_stretch(opened.console, stretch, marked=around)
    last = stretch.utterances[-1].line if stretch.utterances else 0
    if around is not None and around > last:
        opened.console.warn(f"There is no line {around}: what was said ends on line {last}.")
    if after is not None and not stretch.utterances:
        opened.console.warn(f"Nothing was said behind line {after}.")
    if stretch.after is not None:
        opened.console.note(f"There is more: --after {stretch.after} shows it.")


@command(
    "summarize",
    examples=["mindhold history summarize 3f2a91c0", "mindhold history summarize 3f2a91c0 --json"],
)
@click.argument("session")
@with_open_session
async def summarize(opened: OpenSession, /, *, session: str) -> None:
    """Summarise a conversation and store the summary.

    An RLM server or a language model writes it if one is set up; else it consists of sentences of the conversation.
    """
    from mindhold.history.conversation import SUMMARIZE_CONVERSATION

    result = await opened.run(SUMMARIZE_CONVERSATION, session=session)
    if opened.console.as_json(result):
        return
    print_heading(opened.console, result.conversation, opened.zone)
    opened.console.text(result.conversation.summary, indent=2)
    by = _BY.get(result.conversation.summary_by, "")
    opened.console.note(f"{by}. {result.notice}".strip(". ") + ".")


_BY = {
    "rlm": "by the RLM server",
    "model": "by a language model",
    "made": "by rules: sentences of the conversation itself",
}
