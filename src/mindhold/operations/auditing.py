"""Operations of the audit trail: what upkeep took away, and getting it back."""

from __future__ import annotations

from datetime import datetime

from pydantic import Field

from mindhold.engine.audit import MOST, AuditRecord, find_record, records
from mindhold.engine.capture.rewriting import rewrite_documents
from mindhold.engine.undoing import undo
from mindhold.model.life import Fate
from mindhold.operations.catalogue import Call, Effect, Input, Operation, Output

MOST_NAMED = 1_000  # memories of one record in an answer


class ListAuditInput(Input):
    """How many."""

    limit: int = Field(default=20, ge=1, le=MOST)


class AuditInput(Input):
    """Which record; the beginning of its id is enough."""

    id: str = Field(min_length=1)


class AuditView(Output):
    """One run: what it did in words, how many of what, by whom, and how to get it back."""

    id: str
    when: datetime
    what: str
    who: str
    operations: list[str]
    counts: dict[str, int]
    back: str  # how to get back what went; empty where nothing did
    scope: str = ""
    files: list[str] = []  # in the folder of backups
    undone: datetime | None = None

    @classmethod
    def of(cls, kept: AuditRecord) -> AuditView:
        return cls(
            id=kept.id,
            when=kept.when,
            what=kept.what,
            who=kept.who,
            operations=list(kept.operations),
            counts=dict(kept.counts),
            back=_back(kept),
            scope=kept.scope,
            files=list(kept.files),
            undone=kept.undone,
        )


class TouchedView(Output):
    """A memory that something was done to, and by which rule. What was erased since is named no more."""

    id: str
    what: str
    why: str


class ShowAuditResult(AuditView):
    """With the first of the memories that it concerns."""

    memories: list[TouchedView]
    more: int = 0


class ListAuditResult(Output):
    """The newest first, consolidations among them."""

    records: list[AuditView]


class UndoAuditResult(Output):
    """The ids that are back. Others are archived no more, or were said anew."""

    id: str
    restored: list[str]
    count: int
    passed_over: int
    note: str = ""
    notice: str = ""  # of documents that couldn't be written


def _back(kept: AuditRecord) -> str:
    said: list[str] = []
    if kept.archived() or "retired" in kept.counts:
        said.append(f"mindhold audit undo {kept.id}")
    said += [f"mindhold restore {name} --merge" for name in kept.files[:3] if "retired" not in kept.counts]
    if kept.counts.get(Fate.ERASED) and not kept.files:
        said.append("the file of what was removed is gone")
    return "; ".join(said)


async def _list(call: Call, given: ListAuditInput) -> ListAuditResult:
    found = await records(call.engine, limit=given.limit)
    return ListAuditResult(records=[AuditView.of(one) for one in found])


async def _show(call: Call, given: AuditInput) -> ShowAuditResult:
    kept = await find_record(call.engine, given.id)
    named = [
        TouchedView(id=told.memory_id, what=told.what, why=told.why) for told in kept.memories[:MOST_NAMED]
    ]
    more = len(kept.memories) - len(named)
    return ShowAuditResult(**dict(AuditView.of(kept)), memories=named, more=more)


async def _undo(call: Call, given: AuditInput) -> UndoAuditResult:
    done = await undo(call.engine, given.id, agent=call.agent)
    notice = await rewrite_documents(call.engine, done.back) if done.back else ""
    return UndoAuditResult(
        id=done.record.id,
        restored=[memory.id for memory in done.back],
        count=len(done.back),
        passed_over=done.passed_over,
        note=done.note,
        notice=notice,
    )


LIST_AUDIT = Operation(
    "list_audit",
    "What upkeep did, run by run.",
    ListAuditInput,
    ListAuditResult,
    _list,
    Effect.READS,
    owner_only=True,
)
SHOW_AUDIT = Operation(
    "show_audit",
    "One run of upkeep, closely.",
    AuditInput,
    ShowAuditResult,
    _show,
    Effect.READS,
    owner_only=True,
)
UNDO_AUDIT = Operation(
    "undo_audit",
    "Bring back what a run of upkeep archived.",
    AuditInput,
    UndoAuditResult,
    _undo,
    Effect.WRITES,
    owner_only=True,
)
