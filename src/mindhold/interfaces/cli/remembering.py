"""`mindhold remember`: one text, or many from JSON lines."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from mindhold.interfaces.cli.command import command, with_desk, words
from mindhold.interfaces.cli.output import Console, one_line, plural, relation_words
from mindhold.interfaces.cli.session import Desk
from mindhold.model.errors import ContentTooLarge, InvalidInput
from mindhold.model.memory import Kind

if TYPE_CHECKING:
    from mindhold.operations.writing import RememberResult

KINDS = [kind.value for kind in Kind]
MOST_BYTES_A_CHARACTER = 4


@command(
    "remember",
    examples=[
        'mindhold remember "The staging database listens on port 5433" --kind fact --tag staging,db',
        'mindhold remember "We chose SQLite over a server" --kind decision --when "last Monday"',
        "git log -1 --format=%B | mindhold remember - --kind progress",
        "mindhold remember --file notes.md --topic onboarding",
        "mindhold remember --batch < memories.jsonl",
    ],
)
@click.argument("text", nargs=-1)
@click.option("--file", "path", metavar="PATH", help="Take the text from a file.")
@click.option("--batch", is_flag=True, help="Take JSON lines: a string, or an object with the fields of one.")
@click.option("--kind", type=click.Choice(KINDS), help="What sort of knowledge it is (note).")
@click.option("--scope", metavar="NAME", help="The scope to keep it in.")
@click.option("--topic", metavar="WORDS", help="What it is about.")
@words("--tag", "-t", "tags", metavar="TAG", help="Tags; repeat, or separate with commas.")
@words("--keyword", "keywords", metavar="WORD", help="Further words to find it by.")
@click.option(
    "--importance", type=float, metavar="0..1", help="How much it matters; by its kind if not given."
)
@click.option("--when", metavar="TIME", help='When it happened: a date, or words such as "last Monday".')
@click.option("--anchor", is_flag=True, help="Never forgotten without --force.")
@click.option("--permanent", is_flag=True, help="Kept for good, whatever happens to the rest.")
@click.option("--source", metavar="WORDS", help="Where it comes from.")
@click.option("--conversation", metavar="ID", help="The conversation that it is a turn of.")
@click.option("--position", type=int, metavar="N", help="Which turn of it.")
@click.option("--file-ref", "file", metavar="PATH", help="The file that it is about.")
@click.option("--line", type=int, metavar="N", help="The line in that file.")
@click.option("--meta", "metadata", multiple=True, metavar="KEY=VALUE", help="Anything else; repeat.")
@words("--link", "linked_to", metavar="ID", help="A memory that it relates to.")
@click.option("--keep", "keep_noise", is_flag=True, help="Store it even if it looks like noise.")
@click.option("--dry-run", is_flag=True, help="Say what would be stored, linked and replaced; store nothing.")
@click.option(
    "--key", "idempotency_key", metavar="KEY", help="The same key again within a day stores nothing new."
)
@click.option("--no-jobs", is_flag=True, help="With --batch: leave follow-up work in the queue.")
@with_desk
async def remember(
    desk: Desk,
    /,
    *,
    text: tuple[str, ...],
    path: str | None,
    batch: bool,
    when: str | None,
    metadata: tuple[str, ...],
    no_jobs: bool,
    **given: Any,
) -> int:
    """Store a memory.

    The text may also be piped in, or be `-`. Secrets and personal data are replaced before anything is written.
    """
    given["metadata"] = pairs(metadata) or None
    given["occurred"] = await desk.instant(when) if when else None
    if batch:
        from mindhold.interfaces.cli.batch import remember_lines

        if text:
            raise click.UsageError("--batch reads stdin or --file, and takes no TEXT.")
        if given["idempotency_key"]:
            raise click.UsageError("With --batch each line has its own idempotency_key.")
        return await remember_lines(desk, path, defaults=given, run_jobs=not no_jobs)
    content = _content(desk, text, path)
    given["source"] = given["source"] or (path if path and path != "-" else None)
    result: RememberResult = await desk.run("remember", content=content, dialect="cli", **given)
    if desk.console.json:
        desk.console.document(result)
    else:
        _print(desk.console, result)
    return 0


def pairs(given: tuple[str, ...]) -> dict[str, str]:
    """KEY=VALUE options as a mapping."""
    found: dict[str, str] = {}
    for pair in given:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise click.BadParameter(f"{pair!r} is not KEY=VALUE.", param_hint="--meta")
        found[key.strip()] = value
    return found


def read_text(stream: BinaryIO, *, longest: int) -> str:
    """UTF-8 of at most `longest` characters. Raises InvalidInput, ContentTooLarge."""
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
    """A file, or stdin for `-`. Raises InvalidInput."""
    if path == "-":
        yield sys.stdin.buffer
        return
    try:
        with Path(path).expanduser().open("rb") as stream:
            yield stream
    except OSError as error:
        raise InvalidInput(f"{path} can't be read: {error.strerror}.", advice="Check the path.") from error


def text_or_stdin(desk: Desk, text: tuple[str, ...]) -> str:
    """The words, or what is piped in for `-`."""
    if text != ("-",):
        return " ".join(text)
    return read_text(sys.stdin.buffer, longest=desk.running.loaded.settings.intake.longest)


def _content(desk: Desk, text: tuple[str, ...], path: str | None) -> str:
    if path and text:
        raise click.UsageError("Give a TEXT or a --file, not both.")
    if path:
        with open_binary(path) as stream:
            return read_text(stream, longest=desk.running.loaded.settings.intake.longest)
    if not text and (sys.stdin is None or sys.stdin.isatty()):
        raise click.UsageError("There is nothing to remember: give a TEXT, `-` or a --file.")
    return text_or_stdin(desk, text or ("-",))


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
