"""Operations on scopes: list, show, create, change, rename, delete, retire and revive."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from mindhold.backup.create import back_up_scope
from mindhold.capture.documents import document_places, erase_from_deleted_documents
from mindhold.capture.hook_cache_removal import blank_hook_caches
from mindhold.engine import Engine
from mindhold.lifecycle.audit import RETIREMENT, write_audit_record
from mindhold.memories.views import ReceiptView
from mindhold.model.errors import Refused
from mindhold.model.memory import ANY_STATUS
from mindhold.model.query import Filter
from mindhold.model.scope import GLOBAL
from mindhold.operations import Context, Input, Output, operation
from mindhold.projects.scopes import (
    DroppedScope,
    ScopeReport,
    change_scope,
    create_scope,
    delete_scope,
    find_scope,
    rename_scope,
    report_scope,
    report_scopes,
)
from mindhold.projects.storage import refuse_shared


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


async def _list(context: Context, _given: ListScopesInput) -> ListScopesResult:
    """Every scope with its counts."""
    reports, notice = await report_scopes(context.engine, agent=context.agent)
    return ListScopesResult(scopes=[ScopeView.of(report) for report in reports], notice=notice)


LIST_SCOPES = operation("list_scopes", _list, reads=True)


async def _show(context: Context, request: ScopeInput) -> ScopeView:
    """One scope, closely."""
    return ScopeView.of(await report_scope(context.engine, request.name, agent=context.agent))


SHOW_SCOPE = operation("show_scope", _show, reads=True)


async def _create(context: Context, request: CreateScopeInput) -> ScopeView:
    """Make a scope."""
    scope = await create_scope(
        context.engine,
        request.name,
        description=request.description,
        kind=request.kind,
        parent=request.parent,
        keywords=request.keywords,
    )
    return await _show(context, ScopeInput(name=scope.name))


CREATE_SCOPE = operation("create_scope", _create, writes=True)


async def _change(context: Context, request: ChangeScopeInput) -> ScopeView:
    """Describe, nest or switch a scope."""
    scope = await change_scope(
        context.engine,
        request.name,
        description=request.description,
        parent=request.parent,
        active=request.active,
        keywords=request.keywords,
    )
    return await _show(context, ScopeInput(name=scope.name))


CHANGE_SCOPE = operation("change_scope", _change, writes=True)


async def _rename(context: Context, request: RenameScopeInput) -> ScopeView:
    """Give a scope another name."""
    scope = await rename_scope(context.engine, request.name, request.new_name)
    return await _show(context, ScopeInput(name=scope.name))


RENAME_SCOPE = operation("rename_scope", _rename, writes=True, owner_only=True)


async def _delete(context: Context, request: DeleteScopeInput) -> DeleteScopeResult:
    """Export a scope's memories, then remove it."""
    target = Path(request.export).expanduser() if request.export else None
    places = await document_places(context.engine, [request.name])
    dropped = await delete_scope(context.engine, request.name, agent=context.agent, export=target)
    receipt, notice = await erase_from_deleted_documents(context.engine, dropped.receipt, places)
    return DeleteScopeResult(
        name=dropped.name,
        memories=dropped.memories,
        export=str(dropped.export) if dropped.export else None,
        receipt=ReceiptView.of(receipt) if receipt else None,
        notice=notice,
    )


DELETE_SCOPE = operation("delete_scope", _delete, destroys=True, owner_only=True)


RETIRED, DELETED, REVIVED = "retired", "deleted", "revived"


@dataclass(frozen=True, slots=True)
class RetiredScope:
    """What became of a scope. `backup` is a file in the folder of backups; `dropped` is there where it was removed."""

    name: str
    memories: int
    backup: str
    audit: str
    dropped: DroppedScope | None = None


async def retire_scope(engine: Engine, name: str, *, agent: str, delete: bool = False) -> RetiredScope:
    """Put aside what is in it, then switch it off: only who names it finds it. With `delete` it goes for good.

    Raises ScopeNotFound, Refused for Global, Conflict for one with children that is to be deleted, StoreFull.
    """
    scope = await find_scope(engine, name)
    if name == GLOBAL:
        raise Refused("Global is above every scope and always there.")
    if delete:
        await refuse_shared(engine, name, what="deleted")
    memories = await engine.store.count(Filter(viewer=agent, scopes=(name,), statuses=ANY_STATUS))
    aside = (await back_up_scope(engine, name, agent=agent)).path.name
    dropped = await delete_scope(engine, name, agent=agent) if delete else None
    if dropped is None:
        await change_scope(engine, name, active=False)
        await blank_hook_caches(engine)
    counted = f"{memories} memor{'y' if memories == 1 else 'ies'}"
    done = f"deleted with its {counted}" if delete else f"switched off with its {counted}"
    written = await write_audit_record(
        engine,
        RETIREMENT,
        who=agent,
        operations=(f"the scope {scope.name} was put aside and {done}",),
        counts={DELETED if delete else RETIRED: memories},
        scope=name,
        files=(aside,),
    )
    return RetiredScope(name, memories, aside, written.id, dropped)


async def revive_scope(engine: Engine, name: str, *, agent: str) -> None:
    """Switch it on again. Raises ScopeNotFound."""
    if (await find_scope(engine, name)).active:
        return
    await change_scope(engine, name, active=True)
    operations = (f"the scope {name} was switched on again",)
    await write_audit_record(
        engine, RETIREMENT, who=agent, operations=operations, counts={REVIVED: 1}, scope=name
    )


class RetireScopeInput(Input):
    """Which. It is put aside and switched off; `delete` removes it and its memories for good besides."""

    name: str
    delete: bool = False


class RetireScopeResult(Output):
    """What became of it; `backup` is a file in the folder of backups, `audit` the record that tells of it."""

    name: str
    memories: int
    deleted: bool
    backup: str
    audit: str
    export: str | None = None
    receipt: ReceiptView | None = None
    note: str
    notice: str = ""


class ReviveScopeInput(Input):
    """Which."""

    name: str


async def _retire(context: Context, request: RetireScopeInput) -> RetireScopeResult:
    """Put a scope aside and switch it off, or remove it."""
    places = await document_places(context.engine, [request.name]) if request.delete else []
    done = await retire_scope(context.engine, request.name, agent=context.agent, delete=request.delete)
    receipt, notice = None, ""
    if done.dropped is not None:
        receipt, notice = await erase_from_deleted_documents(context.engine, done.dropped.receipt, places)
    back = (
        f"`mindhold restore {done.backup} --merge` brings it back."
        if request.delete
        else f"Only who names it finds it; `mindhold scopes revive {request.name}` brings it back."
    )
    exported = done.dropped.export if done.dropped else None
    return RetireScopeResult(
        name=done.name,
        memories=done.memories,
        deleted=request.delete,
        backup=done.backup,
        audit=done.audit,
        export=str(exported) if exported else None,
        receipt=ReceiptView.of(receipt) if receipt else None,
        note=back,
        notice=notice,
    )


RETIRE_SCOPE = operation("retire_scope", _retire, destroys=True, owner_only=True)


async def _revive(context: Context, request: ReviveScopeInput) -> ScopeView:
    """Switch a retired scope on again."""
    await revive_scope(context.engine, request.name, agent=context.agent)
    return ScopeView.of(await report_scope(context.engine, request.name, agent=context.agent))


REVIVE_SCOPE = operation("revive_scope", _revive, writes=True, owner_only=True)
