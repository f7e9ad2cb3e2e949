"""`mindhold remember`: stores one text, or many from JSON lines."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from mindhold.interfaces.cli.command import command, with_open_session, words
from mindhold.interfaces.cli.output import Console, one_line, plural, relation_words
from mindhold.interfaces.cli.session import OpenSession, build_input
from mindhold.model.errors import ContentTooLarge, InvalidInput, MindholdError, NotFound
from mindhold.model.memory import Kind

if TYPE_CHECKING:
    from mindhold.memories.remember import RememberResult
    from mindhold.operations import Input


KINDS = [kind.value for kind in Kind]
MOST_BYTES_A_CHARACTER = 4


@command(
    "remember",
    remote=True,
    examples=[
        'mindhold remember "The staging database listens on port 5433" --kind fact --tag staging,db',
        'mindhold remember "We chose SQLite over a server" --kind decision --when "last Monday"',
        "git log -1 --format=%B | mindhold remember - --kind progress",
        "mindhold remember --file notes.md --topic onboarding",
        "mindhold remember --batch < memories.jsonl",
    ],
)
@click.argument("text", nargs=-1)
@click.option("--file", "path", metavar="PATH", help="Read the text from a file.")
@click.option(
    "--batch", is_flag=True, help="Read JSON lines: a string or an object with the fields of a memory."
)
@click.option("--kind", type=click.Choice(KINDS), help="The kind of knowledge (default: note).")
@click.option("--scope", metavar="NAME", help="The scope to store it in.")
@click.option("--topic", metavar="WORDS", help="What it is about.")
@words("--tag", "-t", "tags", metavar="TAG", help="Tags; repeat, or separate with commas.")
@words("--keyword", "keywords", metavar="WORD", help="More words to find it by.")
@click.option("--importance", type=float, metavar="0..1", help="How much it matters (default: by its kind).")
@click.option("--when", metavar="TIME", help='When it happened: a date, or words such as "last Monday".')
@click.option("--anchor", is_flag=True, help="Never forget it without --force.")
@click.option("--permanent", is_flag=True, help="Keep it for good; it never fades.")
@click.option("--source", metavar="WORDS", help="Where it comes from.")
@click.option("--conversation", metavar="ID", help="The conversation that it is part of.")
@click.option("--position", type=int, metavar="N", help="The number of the turn in it.")
@click.option("--file-ref", "file", metavar="PATH", help="The file that it is about.")
@click.option("--line", type=int, metavar="N", help="The line in that file.")
@click.option("--meta", "metadata", multiple=True, metavar="KEY=VALUE", help="Any other data; repeat.")
@words("--link", "linked_to", metavar="ID", help="A memory that it relates to.")
@click.option("--keep", "keep_noise", is_flag=True, help="Store it even if it looks like noise.")
@click.option(
    "--dry-run", is_flag=True, help="Show what would be stored, linked and replaced; store nothing."
)
@click.option(
    "--key", "idempotency_key", metavar="KEY", help="The same key again within a day stores nothing new."
)
@click.option("--no-jobs", is_flag=True, help="With --batch: leave follow-up work in the queue.")
@with_open_session
async def remember(
    session: OpenSession,
    /,
    *,
    text: tuple[str, ...],
    path: str | None,
    batch: bool,
    when: str | None,
    metadata: tuple[str, ...],
    no_jobs: bool,
    **fields: Any,
) -> int:
    """Store a memory.

    The text may also be piped in, or be `-`. Secrets and personal data are replaced before anything is written.
    """
    from mindhold.memories.remember import REMEMBER

    fields["metadata"] = pairs(metadata) or None
    fields["occurred"] = await session.instant(when) if when else None
    if batch:
        if text:
            raise click.UsageError("--batch reads stdin or --file, and takes no TEXT.")
        if fields["idempotency_key"]:
            raise click.UsageError("With --batch each line has its own idempotency_key.")
        return await remember_lines(session, path, defaults=fields, run_jobs=not no_jobs)
    content = _read_content(session, text, path)
    fields["source"] = fields["source"] or (path if path and path != "-" else None)
    result = await session.run(REMEMBER, content=content, dialect="cli", **fields)
    if session.console.json:
        session.console.document(result)
    else:
        _print(session.console, result)
    return 0


def pairs(options: tuple[str, ...]) -> dict[str, str]:
    """Parse KEY=VALUE options into a mapping."""
    mapping: dict[str, str] = {}
    for pair in options:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise click.BadParameter(f"{pair!r} is not KEY=VALUE.", param_hint="--meta")
        mapping[key.strip()] = value
    return mapping


def read_text(stream: BinaryIO, *, longest: int) -> str:
    """Read UTF-8 text of at most `longest` characters. Raises InvalidInput, ContentTooLarge."""
    data = stream.read(longest * MOST_BYTES_A_CHARACTER + 1)
    if len(data) > longest * MOST_BYTES_A_CHARACTER:
        raise ContentTooLarge(
            f"The text has over {longest:,} characters.", advice="Split it, or raise intake.longest."
        )
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInput(
            f"The text is not UTF-8: {error.reason} at byte {error.start}.", advice="Convert it first."
        ) from error


@contextmanager
def open_binary(path: str) -> Iterator[BinaryIO]:
    """Open a file, or stdin for `-`. Raises InvalidInput."""
    if path == "-":
        yield sys.stdin.buffer
        return
    try:
        with Path(path).expanduser().open("rb") as stream:
            yield stream
    except OSError as error:
        raise InvalidInput(f"{path} can't be read: {error.strerror}.", advice="Check the path.") from error


def text_or_stdin(session: OpenSession, text: tuple[str, ...]) -> str:
    """Join the words; `-` reads stdin."""
    if text != ("-",):
        return " ".join(text)
    return read_text(sys.stdin.buffer, longest=session.running.loaded.settings.intake.longest)


def _read_content(session: OpenSession, text: tuple[str, ...], path: str | None) -> str:
    if path and text:
        raise click.UsageError("Give a TEXT or a --file, not both.")
    if path:
        with open_binary(path) as stream:
            return read_text(stream, longest=session.running.loaded.settings.intake.longest)
    if not text and (sys.stdin is None or sys.stdin.isatty()):
        raise click.UsageError("There is nothing to remember: give a TEXT, `-` or a --file.")
    return text_or_stdin(session, text or ("-",))


def _print(console: Console, result: RememberResult) -> None:
    if console.quiet:
        console.line(result.id or "")
        return
    memory = result.memory
    if result.outcome == "noise" or memory is None:
        console.line("Not remembered: it looks like noise. With --keep it is stored all the same.")
        return
    if result.outcome == "duplicate":
        console.line(f"Already known as {memory.id}: {one_line(memory.content, most=60)}")
        return
    if result.outcome == "would_store":
        console.line(
            f"Would remember a {memory.kind} in scope {memory.scope}: {one_line(memory.content, most=60)}"
        )
    else:
        console.line(
            f"Remembered {console.style(memory.id, fg='green')} ({memory.kind}, scope {memory.scope})"
        )
    if result.redacted:
        what = ", ".join(f"{kind} ({count})" for kind, count in result.redacted.items())
        console.line(f"  redacted before storing: {what}")
    if len(result.parts) > 1:
        console.line(f"  split into {plural(len(result.parts), 'part')}")
    if result.superseded:
        console.line(f"  takes the place of {', '.join(result.superseded)}")
    for link in result.links:
        outward = link.target in result.linked
        far = link.target if outward else link.origin
        console.line(f"  linked: {relation_words(link.relation, outward=outward)} {far}")
    if result.repeated:
        console.line("  the answer to this key's first call; nothing new was stored")
    if result.quarantined:
        console.line(f"  quarantined, for it tries to instruct its reader: {', '.join(result.suspicious)}")
    console.note(result.notice)


CHUNK = 500
MOST_SHOWN = 20
AGAIN = "Run the whole batch again: what is stored already is not stored twice."


@dataclass
class BatchCounts:
    """The outcome of each line of a batch."""

    lines: list[dict[str, Any]] = field(default_factory=list)

    def answered(self, number: int, result: RememberResult) -> None:
        """Add the answer to a line."""
        self.lines.append(
            {
                "line": number,
                "outcome": result.outcome,
                "id": result.id,
                "superseded": result.superseded,
                "error": result.error,
            }
        )

    def unanswered(self, numbers: Iterable[int], error: MindholdError) -> None:
        """Add lines of which some may have been stored before the database failed."""
        self.lines += [
            {"line": number, "outcome": "unknown", "id": None, "error": str(error)} for number in numbers
        ]

    def failed(self, number: int, error: MindholdError) -> None:
        """Add a line that could not be used."""
        self.lines.append({"line": number, "outcome": "failed", "id": None, "error": str(error)})

    @property
    def counts(self) -> Counter[str]:
        return Counter(line["outcome"] for line in self.lines)


async def remember_lines(
    session: OpenSession, path: str | None, *, defaults: Mapping[str, Any], run_jobs: bool
) -> int:
    """Store a batch in chunks and return the exit status.

    Bad lines are reported and skipped, with exit status 1. A failure that ends the batch has its own exit status; what
    was stored until then is reported.
    """
    from mindhold.jobs.queue import RUN_JOBS

    tally, jobs = BatchCounts(), 0
    try:
        with open_binary(path or "-") as stream, session.console.progress() as progress:
            numbered = ((number, line) for number, line in enumerate(stream, 1) if line.strip())
            while chunk := list(islice(numbered, CHUNK)):
                await _store_chunk(session, chunk, tally=tally, defaults=defaults)
                progress("remember", len(tally.lines), None)
        if run_jobs and tally.counts["stored"] and not session.server:  # a server runs its jobs itself
            jobs = len((await session.run(RUN_JOBS, scheduled=False)).ran)
    except MindholdError as error:
        if not tally.lines:
            raise
        _report(session, tally, jobs=jobs, error=error)
        return error.exit_status
    _report(session, tally, jobs=jobs, error=None)
    return 1 if tally.counts["failed"] else 0


async def _store_chunk(
    session: OpenSession,
    chunk: Iterable[tuple[int, bytes]],
    *,
    tally: BatchCounts,
    defaults: Mapping[str, Any],
) -> None:
    from mindhold.memories.remember import REMEMBER_MANY
    from mindhold.operation_index import operation

    items: dict[int, Input] = {}
    for number, line in chunk:
        try:
            items[number] = build_input(
                operation("remember"), {"dialect": "cli", **defaults, **_parse_line(line)}
            )
        except InvalidInput as error:
            tally.failed(number, error)
    try:
        answer = await session.run(REMEMBER_MANY, items=list(items.values()))
    except (InvalidInput, NotFound):  # one line is bad: find out which
        await _store_singly(session, items, tally=tally)
        return
    except MindholdError as error:
        tally.unanswered(items, error)
        raise
    for number, result in zip(items, answer.results, strict=True):
        tally.answered(number, result)


async def _store_singly(session: OpenSession, items: Mapping[int, Input], *, tally: BatchCounts) -> None:
    from mindhold.memories.remember import REMEMBER_MANY

    for number, item in items.items():
        try:
            answer = await session.run(REMEMBER_MANY, items=[item])
        except (InvalidInput, NotFound) as error:
            tally.failed(number, error)
        except MindholdError as error:
            tally.unanswered([number], error)
            raise
        else:
            tally.answered(number, answer.results[0])


def _parse_line(line: bytes) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except ValueError as error:
        raise InvalidInput(f"Not JSON: {error}.") from error
    except RecursionError as error:
        raise InvalidInput("Nested too deeply.") from error
    if isinstance(value, str):
        return {"content": value}
    if not isinstance(value, dict):
        raise InvalidInput("Neither a string nor an object.")
    return value


def _report(session: OpenSession, tally: BatchCounts, *, jobs: int, error: MindholdError | None) -> None:
    console, counts = session.console, tally.counts
    if console.json:
        summary = {"created": counts["stored"], "counts": dict(counts), "lines": tally.lines, "jobs": jobs}
        failure = {"code": error.code, "message": error.message, "advice": error.advice} if error else None
        console.document({**summary, "error": failure} if failure else summary)
    else:
        _print_counts(session, tally)
    if error:
        console.warn(f"{error}\n  {AGAIN}", label="error:")


def _print_counts(session: OpenSession, tally: BatchCounts) -> None:
    counts = tally.counts
    rest = [
        f"{counts[outcome]:,} {words}"
        for outcome, words in (
            ("would_store", "would be stored"),
            ("duplicate", "already known"),
            ("noise", "passed over as noise"),
            ("failed", "failed"),
            ("unknown", "unknown"),
        )
        if counts[outcome]
    ]
    session.console.line(", ".join([f"Remembered {plural(counts['stored'], 'memory')}", *rest]) + ".")
    replaced = [line for line in tally.lines if line.get("superseded")]
    if replaced:
        number = sum(len(line["superseded"]) for line in replaced)
        session.console.line(f"The place of {plural(number, 'earlier memory')} was taken:")
    for line in replaced[:MOST_SHOWN]:
        session.console.line(
            f"  line {line['line']}: {line['id']} takes the place of {', '.join(line['superseded'])}"
        )
    if len(replaced) > MOST_SHOWN:
        session.console.line(f"  … and {len(replaced) - MOST_SHOWN} more; --json lists them all.")
    failures = [line for line in tally.lines if line["outcome"] == "failed"]
    for line in failures[:MOST_SHOWN]:
        session.console.warn(f"  line {line['line']}: {line['error']}")
    if len(failures) > MOST_SHOWN:
        session.console.warn(f"  … and {len(failures) - MOST_SHOWN} more; --json lists them all.")
