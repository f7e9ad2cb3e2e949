"""Operations on scopes: list, show, create, change, rename, delete, retire and revive."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from pydantic import Field

from mindhold.backup.create import back_up_scope
from mindhold.capture.claude_md import document_places, erase_from_deleted_documents
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

    name: str = Field(description="Its name.", examples=["work"])
    description: str = Field(description="A short description.", examples=["The day job"])
    kind: str = Field(description="Its kind.", examples=["general"])
    parent: str | None = Field(description="Its parent scope.", examples=[None])
    active: bool = Field(
        description="Whether it is in use. An inactive one keeps its memories.", examples=[True]
    )
    memories: int | None = Field(
        description="Number of memories.", examples=[42]
    )  # None if its store doesn't answer
    sees: list[str] = Field(examples=[["work", "Global"]])
    children: list[str] = Field(description="Its child scopes.", examples=[["shop"]])
    keywords: list[str] = Field(description="Keywords for search.", examples=[["office"]])
    created: datetime = Field(description="When it was created.", examples=["2026-11-02T08:15:00Z"])
    kinds: dict[str, int] = Field(
        default={}, description="Number of memories by kind.", examples=[{"fact": 30, "decision": 12}]
    )

    @classmethod
    def of(cls, report: ScopeReport) -> ScopeView:
        """Return the report as a view."""
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
    notice: str = Field(
        default="", description="A notice about this answer; usually empty."
    )  # which stores don't answer


class ScopeInput(Input):
    """Which scope."""

    name: str = Field(description="Its name.", examples=["work"])


class CreateScopeInput(Input):
    """A new scope."""

    name: str = Field(description="Its name.", examples=["work"])
    description: str = Field(default="", description="A short description.", examples=["The day job"])
    kind: str = Field(default="general", description="Its kind.")
    parent: str | None = Field(default=None, description="Its parent scope.")
    keywords: list[str] = Field(default=[], description="Keywords for search.")


class ChangeScopeInput(Input):
    """What to change of a scope; what isn't given stays. Parent Global lifts it to the top."""

    name: str = Field(description="Its name.", examples=["work"])
    description: str | None = Field(
        default=None, description="A short description.", examples=["All about the day job"]
    )
    parent: str | None = Field(default=None, description="Its parent scope.")
    active: bool | None = Field(
        default=None, description="Whether it is in use. An inactive one keeps its memories."
    )
    keywords: list[str] | None = Field(default=None, description="Keywords for search.")


class RenameScopeInput(Input):
    """Old name, new name."""

    name: str = Field(description="Its name.", examples=["work"])
    new_name: str = Field(description="The new name.", examples=["office"])


class DeleteScopeInput(Input):
    """Which scope, and where its memories are exported to before they go."""

    name: str = Field(description="Its name.", examples=["work"])
    export: str | None = None


class DeleteScopeResult(Output):
    """What became of it."""

    name: str = Field(description="Its name.", examples=["work"])
    memories: int = Field(description="Number of memories.", examples=[42])
    export: str | None = Field(
        examples=["/home/me/.mindhold/export/scope-shop-20261116T103000Z-4kq7zp.jsonl"]
    )
    receipt: ReceiptView | None
    notice: str = Field(
        default="", description="A notice about this answer; usually empty."
    )  # of documents that couldn't be written


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
    """What became of a scope. `backup` is a file in the backup folder; `dropped` is set if it was deleted."""

    name: str
    memories: int
    backup: str
    audit: str
    dropped: DroppedScope | None = None


async def retire_scope(engine: Engine, name: str, *, agent: str, delete: bool = False) -> RetiredScope:
    """Back up a scope, then switch it off, so that it is only found by name. With `delete` it is removed for good.

    Raises ScopeNotFound, Refused for Global, Conflict for deleting one with children, StoreFull.
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
    count_text = f"{memories} memor{'y' if memories == 1 else 'ies'}"
    action = f"deleted with its {count_text}" if delete else f"switched off with its {count_text}"
    written = await write_audit_record(
        engine,
        RETIREMENT,
        who=agent,
        operations=(f"the scope {scope.name} was put aside and {action}",),
        counts={DELETED if delete else RETIRED: memories},
        scope=name,
        files=(aside,),
    )
    return RetiredScope(name, memories, aside, written.id, dropped)


async def revive_scope(engine: Engine, name: str, *, agent: str) -> None:
    """Switch a scope on again. Raises ScopeNotFound."""
    if (await find_scope(engine, name)).active:
        return
    await change_scope(engine, name, active=True)
    operations = (f"the scope {name} was switched on again",)
    await write_audit_record(
        engine, RETIREMENT, who=agent, operations=operations, counts={REVIVED: 1}, scope=name
    )


class RetireScopeInput(Input):
    """Which. It is put aside and switched off; `delete` removes it and its memories for good besides."""

    name: str = Field(description="Its name.", examples=["work"])
    delete: bool = Field(default=False, description="Also delete the scope and its memories permanently.")


class RetireScopeResult(Output):
    """What became of it; `backup` is a file in the folder of backups, `audit` the record that tells of it."""

    name: str = Field(description="Its name.", examples=["work"])
    memories: int = Field(description="Number of memories.", examples=[42])
    deleted: bool = Field(examples=[False])
    backup: str = Field(
        description="The backup that was made first.",
        examples=["scope-work-1a2b3c4d-20250601T030000Z.jsonl.gz"],
    )
    audit: str = Field(examples=["01m7gv42a3fzcy3gb19vmek4q7"])
    export: str | None = None
    receipt: ReceiptView | None = None
    note: str = Field(description="A note about it.", examples=["Only who names it finds it."])
    notice: str = Field(default="", description="A notice about this answer; usually empty.")


class ReviveScopeInput(Input):
    """Which."""

    name: str = Field(description="Its name.", examples=["work"])


async def _retire(context: Context, request: RetireScopeInput) -> RetireScopeResult:
    """Put a scope aside and switch it off, or remove it."""
    places = await document_places(context.engine, [request.name]) if request.delete else []
    retired = await retire_scope(context.engine, request.name, agent=context.agent, delete=request.delete)
    receipt, notice = None, ""
    if retired.dropped is not None:
        receipt, notice = await erase_from_deleted_documents(context.engine, retired.dropped.receipt, places)
    back = (
        f"`mindhold restore {retired.backup} --merge` brings it back."
        if request.delete
        else f"Only who names it finds it; `mindhold scopes revive {request.name}` brings it back."
    )
    exported = retired.dropped.export if retired.dropped else None
    return RetireScopeResult(
        name=retired.name,
        memories=retired.memories,
        deleted=request.delete,
        backup=retired.backup,
        audit=retired.audit,
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
