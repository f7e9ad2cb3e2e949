"""Operations that retire a scope, and bring it back."""

from __future__ import annotations

from mindhold.engine.capture.rewriting import off_deleted_documents, shown_in
from mindhold.engine.retiring import retire_scope, revive_scope
from mindhold.engine.scopes import report_scope
from mindhold.operations.catalogue import Call, Effect, Input, Operation, Output
from mindhold.operations.keeping import ScopeView
from mindhold.operations.views import ReceiptView


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


async def _retire(call: Call, given: RetireScopeInput) -> RetireScopeResult:
    places = await shown_in(call.engine, [given.name]) if given.delete else []
    done = await retire_scope(call.engine, given.name, agent=call.agent, delete=given.delete)
    receipt, notice = None, ""
    if done.dropped is not None:
        receipt, notice = await off_deleted_documents(call.engine, done.dropped.receipt, places)
    back = (
        f"`mindhold restore {done.backup} --merge` brings it back."
        if given.delete
        else f"Only who names it finds it; `mindhold scopes revive {given.name}` brings it back."
    )
    exported = done.dropped.export if done.dropped else None
    return RetireScopeResult(
        name=done.name,
        memories=done.memories,
        deleted=given.delete,
        backup=done.backup,
        audit=done.audit,
        export=str(exported) if exported else None,
        receipt=ReceiptView.of(receipt) if receipt else None,
        note=back,
        notice=notice,
    )


async def _revive(call: Call, given: ReviveScopeInput) -> ScopeView:
    await revive_scope(call.engine, given.name, agent=call.agent)
    return ScopeView.of(await report_scope(call.engine, given.name, agent=call.agent))


RETIRE_SCOPE = Operation(
    "retire_scope",
    "Put a scope aside and switch it off, or remove it.",
    RetireScopeInput,
    RetireScopeResult,
    _retire,
    Effect.DESTROYS,
    owner_only=True,
)
REVIVE_SCOPE = Operation(
    "revive_scope",
    "Switch a retired scope on again.",
    ReviveScopeInput,
    ScopeView,
    _revive,
    Effect.WRITES,
    owner_only=True,
)
