"""Operations on what silent capture has kept: condensing it, and writing it into a project's documents."""

from __future__ import annotations

from pydantic import Field

from mindhold.engine.capture.condense import condense
from mindhold.engine.capture.document import Written, write_documents
from mindhold.engine.capture.place import scope_of_folder
from mindhold.engine.consolidate.stage import Told
from mindhold.engine.reach import find_scope
from mindhold.model.errors import NotFound
from mindhold.operations.catalogue import Call, Effect, Input, Operation, Output

MOST_NAMED = 50  # memories that an answer names


class CondenseInput(Input):
    """Of the active scope unless one is named. A dry run changes nothing and tells what rules would do."""

    scope: str | None = None
    dry_run: bool = False
    force: bool = True  # ask a model, where one is to be, of what it has seen before as well


class CondensedView(Output):
    """A memory that was merged, dropped, replaced or pruned, and why."""

    id: str
    what: str
    why: str

    @classmethod
    def of(cls, told: Told) -> CondensedView:
        """The note as its view."""
        return cls(id=told.memory_id, what=told.what, why=told.why)


class CondenseResult(Output):
    """`merged` memories became `made`; `dropped` are in the archive, `replaced` were denied by newer ones, `pruned` gone."""

    scope: str
    kept: int
    merged: int
    made: int
    dropped: int
    replaced: int
    pruned: int
    by: str
    dry_run: bool = False
    notice: str = ""
    changes: list[CondensedView] = []  # the first of them


class WriteDocumentsInput(Input):
    """Any folder of the project; its scope is the project's own unless another is named."""

    folder: str = Field(min_length=1)
    scope: str | None = None


class WrittenView(Output):
    """One document, and its lines of memory; with a problem it was left as it is."""

    path: str
    changed: bool
    lines: int
    problem: str = ""

    @classmethod
    def of(cls, written: Written) -> WrittenView:
        """The document as its view."""
        return cls(path=written.path, changed=written.changed, lines=written.lines, problem=written.problem)


class WriteDocumentsResult(Output):
    """Documents that have the markers; none where no file has."""

    scope: str
    documents: list[WrittenView]


async def _condense(call: Call, given: CondenseInput) -> CondenseResult:
    engine, scope = call.engine, given.scope or call.engine.policy.scope
    done = await condense(engine, scope, agent=call.agent, force=given.force, dry=given.dry_run)
    return CondenseResult(
        scope=scope,
        kept=done.kept,
        merged=done.merged,
        made=done.made,
        dropped=done.dropped,
        replaced=done.replaced,
        pruned=done.pruned,
        by=done.by,
        dry_run=given.dry_run,
        notice=done.notice,
        changes=[CondensedView.of(told) for told in done.told[:MOST_NAMED]],
    )


async def _write_documents(call: Call, given: WriteDocumentsInput) -> WriteDocumentsResult:
    engine = call.engine
    if given.scope is not None:
        scope = (await find_scope(engine, given.scope)).name
    else:
        found = await scope_of_folder(engine, given.folder, create=False)
        if found is None:
            raise NotFound(
                f"{given.folder} is no project that is known here.",
                advice="`mindhold init` in that folder makes it one; a first capture does too.",
            )
        scope = found
    written = await write_documents(engine, scope, given.folder, agent=call.agent)
    return WriteDocumentsResult(scope=scope, documents=[WrittenView.of(one) for one in written])


CONDENSE = Operation(
    "condense",
    "Merge what was captured twice, and drop what is over.",
    CondenseInput,
    CondenseResult,
    _condense,
    Effect.WRITES,
    owner_only=True,
)
WRITE_DOCUMENTS = Operation(
    "write_documents",
    "Bring the memory in a project's documents up to date.",
    WriteDocumentsInput,
    WriteDocumentsResult,
    _write_documents,
    Effect.WRITES,
    owner_only=True,
)
