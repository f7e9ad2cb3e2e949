"""Operations on scopes: list, show, create, change, rename, delete, retire and revive."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from pydantic import Field

from mindhold.backup.create import back_up_scope
from mindhold.capture.claude_md import document_places, erase_from_deleted_documents
from mindhold.capture.hook_cache_removal import blank_hook_caches
from mindhold.engine import Engine
from mindhold.lifecycle.audit import RETIREMENT, write_audit_record
from mindhold.memories.views import Notice, ReceiptView, View
from mindhold.model.errors import Refused
from mindhold.model.memory import ANY_STATUS
from mindhold.model.query import Filter
from mindhold.model.scope import GLOBAL, Scope, lineage
from mindhold.operations import Context, Input, Output, operation
from mindhold.projects.scopes import (
    change_scope,
    create_scope,
    delete_scope,
    find_scope,
    rename_scope,
)
from mindhold.projects.storage import ask_reachable, refuse_shared


class ScopeView(View):
    """One scope."""

    name: str = Field(description="Its name.", examples=["work"])
    description: str = Field(description="A short description.", examples=["The day job"])
    kind: str = Field(description="Its kind.", examples=["general"])
    parent: str | None = Field(description="Its parent scope.", examples=[None])
    active: bool = Field(
        description="Whether it is in use. An inactive one keeps its memories.", examples=[True]
    )
    # None if its store doesn't answer.
    memories: int | None = Field(description="Number of memories.", examples=[42])
    sees: list[str] = Field(examples=[["work", "Global"]])
    children: list[str] = Field(description="Its child scopes.", examples=[["shop"]])
    keywords: list[str] = Field(description="Keywords for search.", examples=[["office"]])
    created: datetime = Field(description="When it was created.", examples=["2026-11-02T08:15:00Z"])
    kinds: dict[str, int] = Field(
        default={}, description="Number of memories by kind.", examples=[{"fact": 30, "decision": 12}]
    )


class ListScopesInput(Input):
    """All of them."""


class ListScopesResult(Output):
    """Every scope, by name."""

    scopes: list[ScopeView]
    notice: Notice = ""  # which stores don't answer


class ScopeInput(Input):
    """Which scope."""

    name: str = Field(description="Its name.", examples=["work"])


class CreateScopeInput(ScopeInput):
    """A new scope."""

    description: str = Field(default="", description="A short description.", examples=["The day job"])
    kind: str = Field(default="general", description="Its kind.")
    parent: str | None = Field(default=None, description="Its parent scope.")
    keywords: list[str] = Field(default=[], description="Keywords for search.")


class ChangeScopeInput(ScopeInput):
    """What to change of a scope; what isn't given stays. Parent Global lifts it to the top."""

    description: str | None = Field(
        default=None, description="A short description.", examples=["All about the day job"]
    )
    parent: str | None = Field(default=None, description="Its parent scope.")
    active: bool | None = Field(
        default=None, description="Whether it is in use. An inactive one keeps its memories."
    )
    keywords: list[str] | None = Field(default=None, description="Keywords for search.")


class RenameScopeInput(ScopeInput):
    """Old name, new name."""

    new_name: str = Field(description="The new name.", examples=["office"])


class DeleteScopeInput(ScopeInput):
    """Which scope, and where its memories are exported to before they go."""

    export: str | None = None


class DeleteScopeResult(Output):
    """What became of it."""

    name: str = Field(description="Its name.", examples=["work"])
    memories: int = Field(description="Number of memories.", examples=[42])
    export: str | None = Field(
        examples=["/home/me/.mindhold/export/scope-shop-20261116T103000Z-4kq7zp.jsonl"]
    )
    receipt: ReceiptView | None
    notice: Notice = ""  # of documents that couldn't be written


async def _list(context: Context, _request: ListScopesInput) -> ListScopesResult:
    """Every scope with its counts."""
    store = context.engine.store
    scopes = await store.scopes()

    async def count(names: tuple[str, ...]) -> dict[str, int]:
        counts = await store.tally(Filter(viewer=context.agent, scopes=names), "scope")
        return {name: counts.get(name, 0) for name in names or [scope.name for scope in scopes]}

    counts, notice = await ask_reachable(context.engine, count)
    views = [_view(scope, scopes, memories=counts.get(scope.name), kinds={}) for scope in scopes]
    return ListScopesResult(scopes=views, notice=notice)


def _view(scope: Scope, scopes: Sequence[Scope], *, memories: int | None, kinds: dict[str, int]) -> ScopeView:
    return ScopeView.fill(
        scope,
        memories=memories,
        sees=list(lineage(scope.name, scopes)),
        children=[child.name for child in scopes if child.parent == scope.name],
        kinds=kinds,
    )


LIST_SCOPES = operation("list_scopes", _list, reads=True)


async def _show(context: Context, request: ScopeInput) -> ScopeView:
    """One scope, closely."""
    return await _show_scope(context, request.name)


async def _show_scope(context: Context, name: str) -> ScopeView:
    scope = await find_scope(context.engine, name)
    kinds = await context.engine.store.tally(Filter(viewer=context.agent, scopes=(name,)), "kind")
    return _view(scope, await context.engine.store.scopes(), memories=sum(kinds.values()), kinds=kinds)


SHOW_SCOPE = operation("show_scope", _show, reads=True)


async def _create(context: Context, request: CreateScopeInput) -> ScopeView:
    """Make a scope."""
    scope = await create_scope(context.engine, **dict(request))
    return await _show_scope(context, scope.name)


CREATE_SCOPE = operation("create_scope", _create, writes=True)


async def _change(context: Context, request: ChangeScopeInput) -> ScopeView:
    """Describe, nest or switch a scope."""
    scope = await change_scope(context.engine, **dict(request))
    return await _show_scope(context, scope.name)


CHANGE_SCOPE = operation("change_scope", _change, writes=True)


async def _rename(context: Context, request: RenameScopeInput) -> ScopeView:
    """Give a scope another name."""
    scope = await rename_scope(context.engine, request.name, request.new_name)
    return await _show_scope(context, scope.name)


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


class RetireScopeInput(ScopeInput):
    """Which. It is put aside and switched off; `delete` removes it and its memories for good besides."""

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
    notice: Notice = ""


class ReviveScopeInput(ScopeInput):
    """Which."""


async def _retire(context: Context, request: RetireScopeInput) -> RetireScopeResult:
    """Put a scope aside and switch it off, or remove it.

    It is backed up first. A scope that is switched off is only found by name. Raises ScopeNotFound, Refused for Global,
    Conflict for deleting one with children, StoreFull.
    """
    engine, agent, name = context.engine, context.agent, request.name
    places = await document_places(engine, [name]) if request.delete else []
    await find_scope(engine, name)
    if name == GLOBAL:
        raise Refused("Global is above every scope and always there.")
    if request.delete:
        await refuse_shared(engine, name, what="deleted")
    memories = await engine.store.count(Filter(viewer=agent, scopes=(name,), statuses=ANY_STATUS))
    backup = (await back_up_scope(engine, name, agent=agent)).path.name
    dropped = await delete_scope(engine, name, agent=agent) if request.delete else None
    if dropped is None:
        await change_scope(engine, name, active=False)
        await blank_hook_caches(engine)
        state, action = RETIRED, "switched off"
        note = f"Only who names it finds it; `mindhold scopes revive {name}` brings it back."
    else:
        state, action = DELETED, "deleted"
        note = f"`mindhold restore {backup} --merge` brings it back."
    count_text = f"{memories} memor{'y' if memories == 1 else 'ies'}"
    audit = await write_audit_record(
        engine,
        RETIREMENT,
        who=agent,
        operations=(f"the scope {name} was put aside and {action} with its {count_text}",),
        counts={state: memories},
        scope=name,
        files=(backup,),
    )
    receipt, notice = None, ""
    if dropped is not None:
        receipt, notice = await erase_from_deleted_documents(engine, dropped.receipt, places)
    return RetireScopeResult(
        name=name,
        memories=memories,
        deleted=request.delete,
        backup=backup,
        audit=audit.id,
        export=str(dropped.export) if dropped and dropped.export else None,
        receipt=ReceiptView.of(receipt) if receipt else None,
        note=note,
        notice=notice,
    )


RETIRE_SCOPE = operation("retire_scope", _retire, destroys=True, owner_only=True)


async def _revive(context: Context, request: ReviveScopeInput) -> ScopeView:
    """Switch a retired scope on again."""
    await revive_scope(context.engine, request.name, agent=context.agent)
    return await _show_scope(context, request.name)


REVIVE_SCOPE = operation("revive_scope", _revive, writes=True, owner_only=True)


async def revive_scope(engine: Engine, name: str, *, agent: str) -> None:
    """Switch a scope on again. Raises ScopeNotFound."""
    if (await find_scope(engine, name)).active:
        return
    await change_scope(engine, name, active=True)
    operations = (f"the scope {name} was switched on again",)
    await write_audit_record(
        engine, RETIREMENT, who=agent, operations=operations, counts={REVIVED: 1}, scope=name
    )
