"""The export and import operations, and readable exports, scope by scope."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Literal, TextIO

from pydantic import Field

from mindhold.access.secrets import fingerprint
from mindhold.aio import run_uncancelled
from mindhold.capture.state_file import STATE_FILE_NAME, export_state, import_state, is_state, scope_of_state
from mindhold.conversations.messages import pages, role_of, session_of, whole_texts
from mindhold.conversations.sessions import DOCUMENT
from mindhold.engine import Engine
from mindhold.memories.assistant_store import SourceKind
from mindhold.memories.export import (
    CONVERSATIONS,
    FACTS,
    PROFILE,
    SUMMARIES,
    CsvForm,
    ExportConversation,
    ExportConversationEnd,
    Exported,
    ExportEnd,
    ExportFormat,
    ExportHead,
    ExportItem,
    ExportPart,
    ExportSection,
    JsonForm,
    MarkdownForm,
    ScopeEnd,
    SectionEnd,
    export_to,
    in_one_piece,
)
from mindhold.memories.importer import import_lines
from mindhold.model.errors import InvalidInput
from mindhold.model.memory import ANY_STATUS, LOG_DIALECT, PRIVACY_NOTICE, Kind, Memory, Status
from mindhold.model.query import Filter
from mindhold.model.scope import Scope
from mindhold.operations import Context, Input, Output, operation
from mindhold.projects.scopes import scope_name
from mindhold.projects.summary import SUMMARY_OF

PAGE = 200
# Readable exports leave out forgotten memories; importing one would bring them back.
TOLD = tuple(status for status in Status if status is not Status.FORGOTTEN)


async def walk(engine: Engine, *, agent: str, scopes: Sequence[str] = ()) -> AsyncIterator[list[ExportPart]]:
    """Yield the parts of an export of all scopes, or of those, in bounded batches."""
    yield [ExportHead(engine.clock())]
    count = 0
    for scope in await engine.store.scopes():
        if scopes and scope.name not in scopes:
            continue
        yield [scope]
        where = Filter(viewer=agent, scopes=(scope.name,), statuses=TOLD)
        sections = {
            CONVERSATIONS: _conversations(engine, where),
            SUMMARIES: _chosen(engine, where, SUMMARIES, _is_summary),
            FACTS: _chosen(engine, where, FACTS, _is_fact),
            PROFILE: _chosen(engine, where, PROFILE, _is_profile),
        }
        for name, parts in sections.items():
            yield [ExportSection(name)]
            async for batch in parts:
                count += sum(isinstance(part, ExportItem) for part in batch)
                yield batch
            yield [SectionEnd()]
        yield [ScopeEnd()]
    yield [ExportEnd(count)]


async def _conversations(engine: Engine, where: Filter) -> AsyncIterator[list[ExportPart]]:
    """Yield each conversation in the order of its first message."""
    exported: set[str] = set()
    turns = replace(where, turns=True)
    async for page in pages(engine, turns, size=PAGE):
        for memory in page:
            conversation = memory.provenance.conversation
            mark = fingerprint(conversation or "")
            if mark in exported:
                continue
            exported.add(mark)
            yield [ExportConversation(session_of(memory))]
            async for batch in pages(engine, replace(turns, conversation=conversation), size=PAGE):
                texts = await whole_texts(engine, batch, agent=where.viewer)
                yield [_item(turn, CONVERSATIONS, texts.get(turn.id, turn.content)) for turn in batch]
            yield [ExportConversationEnd()]


async def _chosen(
    engine: Engine, where: Filter, section: str, belongs: Callable[[Memory], bool]
) -> AsyncIterator[list[ExportPart]]:
    async for batch in engine.store.scan(where, batch=PAGE):
        items = [
            _item(memory, section, await _text_of(engine, memory, where))
            for memory in batch
            if belongs(memory) and not _is_later_part(memory)
        ]
        if items:
            yield list(items)


def _is_summary(memory: Memory) -> bool:
    return memory.provenance.source == SourceKind.SUMMARY or SUMMARY_OF in memory.metadata


def _is_profile(memory: Memory) -> bool:
    return memory.provenance.source == SourceKind.PROFILE


def _is_fact(memory: Memory) -> bool:
    logged = memory.provenance.dialect == LOG_DIALECT and memory.kind is Kind.EPISODE
    return not (logged or _is_summary(memory) or _is_profile(memory))


def _is_later_part(memory: Memory) -> bool:
    """Whether it is a later part of a long text, which is exported with the first."""
    return _is_document(memory) and bool(memory.provenance.position)


def _is_document(memory: Memory) -> bool:
    return (memory.provenance.conversation or "").startswith(DOCUMENT)


async def _text_of(engine: Engine, memory: Memory, where: Filter) -> str:
    if not _is_document(memory):
        return memory.content
    parts = [
        part
        async for batch in pages(
            engine, replace(where, conversation=memory.provenance.conversation), size=PAGE
        )
        for part in batch
    ]
    return "\n\n".join(part.content for part in sorted(parts, key=lambda part: part.provenance.position or 0))


def _item(memory: Memory, section: str, text: str) -> ExportItem:
    return ExportItem(
        id=memory.id,
        text=text,
        scope=memory.scope,
        section=section,
        kind=memory.kind,
        source=memory.provenance.source,
        status=memory.status,
        occurred=memory.occurred,
        created=memory.created,
        tags=memory.tags,
        topic=memory.topic,
        importance=memory.importance,
        speaker=role_of(memory),
        conversation=session_of(memory),
    )


JSON, MARKDOWN, CSV, LINES = "json", "markdown", "csv", "jsonl"
ENDINGS = {JSON: JsonForm.ending, MARKDOWN: MarkdownForm.ending, CSV: CsvForm.ending, LINES: ".jsonl"}


def form_of(engine: Engine, name: str) -> ExportFormat:
    """Return the format of that name."""
    if name == MARKDOWN:
        return MarkdownForm(engine.zone())
    return CsvForm() if name == CSV else JsonForm()


async def export_readable(
    engine: Engine, path: Path, form: ExportFormat, *, agent: str, scopes: Sequence[str] = ()
) -> Exported:
    """Export into a file atomically: it is complete or not there. Raises StoreFull, StoreReadOnly."""

    async def write(stream: TextIO) -> Exported:
        memories = scope_count = 0
        async for batch in walk(engine, agent=agent, scopes=scopes):
            await run_uncancelled(asyncio.to_thread(stream.writelines, map(form.written, batch)))
            scope_count += sum(isinstance(part, Scope) for part in batch)
            memories += sum(part.memories for part in batch if isinstance(part, ExportEnd))
        return Exported(str(path), memories, links=0, versions=0, scopes=scope_count)

    return await in_one_piece(path, write)


def named_by_time(engine: Engine, folder: Path, ending: str, *, scope: str | None) -> Path:
    """Return an unused path such as `full_export_2026-11-16-103000.json`, with the scope's name if there is one."""
    prefix = "full" if scope is None else "".join(char if char.isalnum() else "-" for char in scope)[:40]
    stem = f"{prefix}_export_{engine.clock():%Y-%m-%d-%H%M%S}"
    path, number = folder / f"{stem}{ending}", 1
    while path.exists():
        number += 1
        path = folder / f"{stem}-{number}{ending}"
    return path


class ExportInput(Input):
    """Where to; into the home's own folder when no path is given. One scope, or everything.

    Lines of JSON lose nothing and can be imported again; the other formats are for people, without what was forgotten. With `memory_mcp` a .memory/state.json of one scope: that of the project it lies in, unless one is named.
    """

    path: str | None = None
    scope: str | None = Field(default=None, description="The scope; the server's default scope if absent.")
    format: Literal["jsonl", "json", "markdown", "csv"] = "jsonl"
    memory_mcp: bool = False


class ExportResult(Output):
    """How much was written."""

    path: str
    memories: int
    links: int
    versions: int
    scopes: int
    contradictions: int = 0  # pairs of which something is known
    notice: str = ""


class ImportInput(Input):
    """Where from. A .memory/state.json is known by its shape; `scope` is where its memories go.

    Without one that is `usual_scope`, else that of the project it lies in.
    """

    path: str
    scope: str | None = None
    usual_scope: str | None = None
    memory_mcp: bool = False  # it is one, whatever it looks like


class ImportResult(Output):
    """What came in; `skipped` were there already."""

    memories: int
    skipped: int
    links: int
    versions: int
    scopes: int
    redacted: int
    contradictions: int = 0
    notice: str = ""


async def _export(context: Context, request: ExportInput) -> ExportResult:
    """Write everything into a file."""
    if request.memory_mcp:
        return await _export_state(context, request)
    engine = context.engine
    scope = await scope_name(engine, request.scope) if request.scope else None
    scopes = (scope,) if scope else ()
    path = (
        Path(request.path).expanduser()
        if request.path
        else named_by_time(engine, engine.settings.export_dir, ENDINGS[request.format], scope=scope)
    )
    if request.format == LINES:
        where = Filter(viewer=context.agent, scopes=scopes, statuses=ANY_STATUS)
        written = await export_to(engine, path, where=where)
    else:
        form = form_of(engine, request.format)
        written = await export_readable(engine, path, form, agent=context.agent, scopes=scopes)
    return ExportResult(**asdict(written), notice=PRIVACY_NOTICE)


EXPORT = operation("export", _export, writes=True, owner_only=True)


async def _export_state(context: Context, given: ExportInput) -> ExportResult:
    path = (
        Path(given.path).expanduser() if given.path else context.engine.settings.export_dir / STATE_FILE_NAME
    )
    scope = given.scope or await scope_of_state(context.engine, path, create=False)
    written, kept_count = await export_state(context.engine, path, scope=scope, agent=context.agent)
    kept = f"{kept_count:,} that only the file had stay in it. " if kept_count else ""
    return ExportResult(**asdict(written), notice=f"{kept}{PRIVACY_NOTICE}")


async def _import(context: Context, request: ImportInput) -> ImportResult:
    """Read an export."""

    def told(count: int) -> None:
        context.progress("import", count, None)

    path = Path(request.path).expanduser()
    try:
        if request.memory_mcp or is_state(path):
            scope = request.scope or request.usual_scope
            imported = await import_state(
                context.engine, path, scope=scope, agent=context.agent, progress=told
            )
        elif request.scope is not None:
            raise InvalidInput(
                "An export says itself which scopes its memories are of.",
                advice="Leave the scope out; it is for a state.json.",
            )
        else:
            with path.open(encoding="utf-8") as lines:
                imported = await import_lines(context.engine, lines, agent=context.agent, progress=told)
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{request.path} can't be read: {error}.", advice="Check the path.") from error
    return ImportResult(**asdict(imported), notice=context.engine.vector_source.reason)


IMPORT = operation("import", _import, writes=True, owner_only=True)
