"""Operations on scopes, and on everything at once: export and import."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Literal

from mindhold.engine.capture.rewriting import off_deleted_documents, shown_in
from mindhold.engine.capture.state_file import NAME, export_state, import_state, is_state, scope_of_state
from mindhold.engine.imports import import_lines
from mindhold.engine.reach import scope_called
from mindhold.engine.readable.writing import ENDINGS, LINES, export_readable, form_of, named_by_time
from mindhold.engine.scopes import (
    ScopeReport,
    change_scope,
    create_scope,
    delete_scope,
    rename_scope,
    report_scope,
    report_scopes,
)
from mindhold.engine.transfer import export_to
from mindhold.model.errors import InvalidInput
from mindhold.model.memory import ANY_STATUS
from mindhold.model.privacy import PERSONAL
from mindhold.model.query import Filter
from mindhold.operations.catalogue import Call, Effect, Input, Operation, Output
from mindhold.operations.views import ReceiptView


class ScopeView(Output):
    """One scope."""

    name: str
    description: str
    kind: str
    parent: str | None
    active: bool
    memories: int | None  # None where its store doesn't answer
    sees: list[str]
    children: list[str]
    keywords: list[str]
    created: datetime
    kinds: dict[str, int] = {}

    @classmethod
    def of(cls, report: ScopeReport) -> ScopeView:
        """The report as its view."""
        scope = report.scope
        return cls(
            name=scope.name,
            description=scope.description,
            kind=scope.kind,
            parent=scope.parent,
            active=scope.active,
            memories=report.memories,
            sees=list(report.sees),
            children=list(report.children),
            keywords=list(scope.keywords),
            created=scope.created,
            kinds=report.kinds,
        )


class ListScopesInput(Input):
    """All of them."""


class ListScopesResult(Output):
    """Every scope, by name."""

    scopes: list[ScopeView]
    notice: str = ""  # which stores don't answer


class ScopeInput(Input):
    """Which scope."""

    name: str


class CreateScopeInput(Input):
    """A new scope."""

    name: str
    description: str = ""
    kind: str = "general"
    parent: str | None = None
    keywords: list[str] = []


class ChangeScopeInput(Input):
    """What to change of a scope; what isn't given stays. Parent Global lifts it to the top."""

    name: str
    description: str | None = None
    parent: str | None = None
    active: bool | None = None
    keywords: list[str] | None = None


class RenameScopeInput(Input):
    """Old name, new name."""

    name: str
    new_name: str


class DeleteScopeInput(Input):
    """Which scope, and where its memories are exported to before they go."""

    name: str
    export: str | None = None


class DeleteScopeResult(Output):
    """What became of it."""

    name: str
    memories: int
    export: str | None
    receipt: ReceiptView | None
    notice: str = ""  # of documents that couldn't be written


class ExportInput(Input):
    """Where to; into the home's own folder when no path is given. One scope, or everything.

    Lines of JSON lose nothing and can be imported again; the other formats are for people, without what was forgotten. With `memory_mcp` a .memory/state.json of one scope: that of the project it lies in, unless one is named.
    """

    path: str | None = None
    scope: str | None = None
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


async def _list(call: Call, _given: ListScopesInput) -> ListScopesResult:
    reports, notice = await report_scopes(call.engine, agent=call.agent)
    return ListScopesResult(scopes=[ScopeView.of(report) for report in reports], notice=notice)


async def _show(call: Call, given: ScopeInput) -> ScopeView:
    return ScopeView.of(await report_scope(call.engine, given.name, agent=call.agent))


async def _create(call: Call, given: CreateScopeInput) -> ScopeView:
    scope = await create_scope(
        call.engine,
        given.name,
        description=given.description,
        kind=given.kind,
        parent=given.parent,
        keywords=given.keywords,
    )
    return await _show(call, ScopeInput(name=scope.name))


async def _change(call: Call, given: ChangeScopeInput) -> ScopeView:
    scope = await change_scope(
        call.engine,
        given.name,
        description=given.description,
        parent=given.parent,
        active=given.active,
        keywords=given.keywords,
    )
    return await _show(call, ScopeInput(name=scope.name))


async def _rename(call: Call, given: RenameScopeInput) -> ScopeView:
    scope = await rename_scope(call.engine, given.name, given.new_name)
    return await _show(call, ScopeInput(name=scope.name))


async def _delete(call: Call, given: DeleteScopeInput) -> DeleteScopeResult:
    target = Path(given.export).expanduser() if given.export else None
    places = await shown_in(call.engine, [given.name])
    dropped = await delete_scope(call.engine, given.name, agent=call.agent, export=target)
    receipt, notice = await off_deleted_documents(call.engine, dropped.receipt, places)
    return DeleteScopeResult(
        name=dropped.name,
        memories=dropped.memories,
        export=str(dropped.export) if dropped.export else None,
        receipt=ReceiptView.of(receipt) if receipt else None,
        notice=notice,
    )


async def _export(call: Call, given: ExportInput) -> ExportResult:
    if given.memory_mcp:
        return await _export_state(call, given)
    engine = call.engine
    scope = await scope_called(engine, given.scope) if given.scope else None
    scopes = (scope,) if scope else ()
    path = (
        Path(given.path).expanduser()
        if given.path
        else named_by_time(engine, engine.policy.export_dir, ENDINGS[given.format], scope=scope)
    )
    if given.format == LINES:
        where = Filter(viewer=call.agent, scopes=scopes, statuses=ANY_STATUS)
        written = await export_to(engine, path, where=where)
    else:
        form = form_of(engine, given.format)
        written = await export_readable(engine, path, form, agent=call.agent, scopes=scopes)
    return ExportResult(
        path=written.path,
        memories=written.memories,
        links=written.links,
        versions=written.versions,
        scopes=written.scopes,
        contradictions=written.contradictions,
        notice=PERSONAL,
    )


async def _export_state(call: Call, given: ExportInput) -> ExportResult:
    path = Path(given.path).expanduser() if given.path else call.engine.policy.export_dir / NAME
    scope = given.scope or await scope_of_state(call.engine, path, create=False)
    written, kept = await export_state(call.engine, path, scope=scope, agent=call.agent)
    return ExportResult(
        path=written.path,
        memories=written.memories,
        links=0,
        versions=0,
        scopes=1,
        notice=f"{kept:,} that only the file had stay in it. {PERSONAL}" if kept else PERSONAL,
    )


async def _import(call: Call, given: ImportInput) -> ImportResult:
    def told(count: int) -> None:
        call.progress("import", count, None)

    path = Path(given.path).expanduser()
    try:
        if given.memory_mcp or is_state(path):
            scope = given.scope or given.usual_scope
            done = await import_state(call.engine, path, scope=scope, agent=call.agent, progress=told)
        elif given.scope is not None:
            raise InvalidInput(
                "An export says itself which scopes its memories are of.",
                advice="Leave the scope out; it is for a state.json.",
            )
        else:
            with path.open(encoding="utf-8") as lines:
                done = await import_lines(call.engine, lines, agent=call.agent, progress=told)
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{given.path} can't be read: {error}.", advice="Check the path.") from error
    return ImportResult(
        memories=done.memories,
        skipped=done.skipped,
        links=done.links,
        versions=done.versions,
        scopes=done.scopes,
        redacted=done.redacted,
        contradictions=done.contradictions,
        notice=call.engine.meaning.reason,
    )


LIST_SCOPES = Operation(
    "list_scopes", "Every scope with its counts.", ListScopesInput, ListScopesResult, _list, Effect.READS
)
SHOW_SCOPE = Operation("show_scope", "One scope, closely.", ScopeInput, ScopeView, _show, Effect.READS)
CREATE_SCOPE = Operation("create_scope", "Make a scope.", CreateScopeInput, ScopeView, _create, Effect.WRITES)
CHANGE_SCOPE = Operation(
    "change_scope", "Describe, nest or switch a scope.", ChangeScopeInput, ScopeView, _change, Effect.WRITES
)
RENAME_SCOPE = Operation(
    "rename_scope",
    "Give a scope another name.",
    RenameScopeInput,
    ScopeView,
    _rename,
    Effect.WRITES,
    owner_only=True,
)
DELETE_SCOPE = Operation(
    "delete_scope",
    "Export a scope's memories, then remove it.",
    DeleteScopeInput,
    DeleteScopeResult,
    _delete,
    Effect.DESTROYS,
    owner_only=True,
)
EXPORT = Operation(
    "export",
    "Write everything into a file.",
    ExportInput,
    ExportResult,
    _export,
    Effect.WRITES,
    owner_only=True,
)
IMPORT = Operation(
    "import", "Read an export.", ImportInput, ImportResult, _import, Effect.WRITES, owner_only=True
)
