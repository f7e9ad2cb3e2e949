"""Condenses captured memories: merges duplicates, archives what is over."""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mindhold.access.secrets import fingerprint
from mindhold.capture.condensation_plan import (
    SYSTEM,
    CondensationPlan,
    apply_plan,
    merge_target,
    outdated,
    plan_batches,
    plan_by_rules,
    plan_prompt,
    read_plan,
    was_dropped,
)
from mindhold.capture.extracted_items import CAPTURED
from mindhold.engine import LEAST_TRUST, Engine
from mindhold.lifecycle.archive import erase
from mindhold.lifecycle.audit import CONDENSING, AuditJournal
from mindhold.lifecycle.stage_report import StageExample
from mindhold.locks import claim
from mindhold.memories.model_budget import CONDENSE_PURPOSE, Metered, metered
from mindhold.model.errors import Conflict, MemoryNotFound, ModelError
from mindhold.model.job import Entry
from mindhold.model.lifecycle import Fate, fate_of, is_kept_for_good, is_part, is_working
from mindhold.model.memory import Kind, Memory, Status
from mindhold.model.policies import CAPTURED_KINDS
from mindhold.model.query import Filter
from mindhold.operations import Context, Input, Output, operation
from mindhold.projects.scopes import find_scope

CONDENSED_NAMESPACE = "capture:condensed"  # by scope: the state after the last condensation
MAX_MEMORIES = 20_000  # memories of a kind that are read
TOKENS_PER_MEMORY = 60  # of the answer
RULES = "rules"
OVER_REASON = "it told of work that is over"
SESSION_END_EVENT = "SessionEnd"
_KINDS = tuple(sorted(CAPTURED_KINDS))


MAX_LISTED = 50  # memories that an answer lists


class CondenseInput(Input):
    """The active scope unless one is named. A dry run changes nothing and says what rules would do."""

    scope: str | None = None
    dry_run: bool = False
    force: bool = True  # ask a model about what it has seen before as well


class CondensedView(Output):
    """A memory that was merged, dropped, replaced or pruned, and why."""

    id: str
    what: str
    why: str


class CondenseResult(Output):
    """`merged` memories became `made`; `dropped` are archived, `replaced` were denied by newer ones, `pruned` are erased."""

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


async def condensation_reason(engine: Engine, scope: str, *, event: str, captures: int) -> str:
    """Return why the scope's captured memories are condensed after this event and so many captures; empty: they aren't."""
    settings = engine.settings.capture
    if engine.settings.lifecycle_rules.keeps_all:
        return ""
    if event == SESSION_END_EVENT:
        return "a conversation ended"
    if captures > 0 and captures % settings.condense_every == 0:
        return f"{captures} captures"
    entry = await engine.store.entry(CONDENSED_NAMESPACE, scope, now=engine.clock())
    last_active = int(entry.value.get("active", 0)) if entry else 0
    # Memories that can't be condensed any further aren't checked again after each capture.
    threshold = max(settings.condense_above, last_active + settings.condense_every - 1)
    active = await _count_active(engine, scope, most=threshold + 1)
    return f"more than {threshold} memories" if active > threshold else ""


async def condense(
    engine: Engine, scope: str, *, agent: str, force: bool = False, dry: bool = False
) -> CondenseResult:
    """Condense what the agent's conversations left in that scope. Of two processes, one does it and the other says so.

    A model is asked about what has changed since the last time, with `force` about everything. `dry` changes nothing, and
    asks no model either. Raises ScopeNotFound and the store's errors.
    """
    await find_scope(engine, scope)
    run = _CondensationRun(engine, scope, agent=agent, force=force, dry=dry)
    if dry:
        return await run.run()
    async with claim(engine, f"condense {scope}") as is_claimed:
        if is_claimed:
            return await run.run()
    return run.result(notice="Another process is condensing it.")


class _CondensationRun:
    """One run."""

    def __init__(self, engine: Engine, scope: str, *, agent: str, force: bool, dry: bool) -> None:
        self._engine = engine
        self._scope = scope
        self._agent = agent
        self._dry = dry
        self._force = force
        self._model: Metered | None = None
        if not dry and engine.llm is not None and engine.settings.capture.by_model:
            self._model = metered(engine, engine.llm, purpose=CONDENSE_PURPOSE)
        self._calls = engine.settings.capture.most_calls
        self._by = RULES
        self._notice = ""
        self._examples: list[StageExample] = []
        self._kept_count = self._made_count = 0
        self._seen: dict[str, str] = {}
        self._journal = AuditJournal(engine, CONDENSING, who=agent)

    async def run(self) -> CondenseResult:
        entry = await self._engine.store.entry(CONDENSED_NAMESPACE, self._scope, now=self._engine.clock())
        value: dict[str, Any] = dict(entry.value) if entry else {}
        self._seen = dict(value.get(self._agent_key, {}))
        for kind in _KINDS:
            await self._condense(kind)
        pruned = await self._prune()
        if not self._dry:
            await self._audit()
            active = await _count_active(self._engine, self._scope)
            value |= {"active": active, self._agent_key: self._seen}
            now = self._engine.clock()
            await self._engine.store.put_entry(Entry(CONDENSED_NAMESPACE, self._scope, value, now))
        return self.result(pruned=pruned, notice=self._notice)

    def result(self, *, notice: str, pruned: int = 0) -> CondenseResult:
        """Return what was done so far."""
        counts = Counter(example.what for example in self._examples)
        return CondenseResult(
            scope=self._scope,
            kept=self._kept_count,
            merged=counts["merged"],
            made=self._made_count,
            dropped=counts["dropped"],
            replaced=counts["replaced"],
            pruned=pruned,
            by=self._by,
            dry_run=self._dry,
            notice=notice,
            changes=[
                CondensedView(id=example.memory_id, what=example.what, why=example.why)
                for example in self._examples[:MAX_LISTED]
            ],
        )

    async def _audit(self) -> None:
        """Record the changes in the audit journal, without the memories' text: it may be erased one day."""
        rules = {"dropped": (Fate.ARCHIVED, OVER_REASON), "pruned": (Fate.ERASED, "dropped long enough ago")}
        examples = [
            StageExample(example.memory_id, *rules[example.what])
            for example in self._examples
            if example.what in rules
        ]
        counts = Counter(example.what for example in examples)
        words: dict[str, str] = {
            Fate.ARCHIVED: "archived {} that told of work that is over",
            Fate.ERASED: "removed {} of those",
        }
        operations = [f"{words[what].format(number)} in {self._scope}" for what, number in counts.items()]
        await self._journal.close(examples, operations=operations, counts=counts)

    @property
    def _agent_key(self) -> str:
        return f"seen by {fingerprint(self._agent)}"

    async def _condense(self, kind: Kind) -> None:
        group = await self._group(kind)
        if len(group) < 2:
            return
        plan = await self._plan(kind, group)
        made_ids: dict[str, str] = {}
        if not self._dry and plan.ids():
            if plan.drops:
                await self._journal.before(
                    [StageExample(each.memory.id, Fate.ARCHIVED, OVER_REASON) for each in plan.drops]
                )
            try:
                plan, made_ids = await apply_plan(self._engine, plan, agent=self._agent)
            except (Conflict, MemoryNotFound) as error:
                plan, self._notice = CondensationPlan(), str(error)
        self._add_examples(plan, made_ids)
        self._made_count += len(plan.merges)
        removed = sum(len(each.sources) for each in plan.merges) + len(plan.drops) + len(plan.replaced)
        self._kept_count += len(group) - removed
        if not self._dry and kind in self._seen and plan.ids():
            self._seen[kind] = _digest(await self._group(kind))

    async def _group(self, kind: Kind) -> list[Memory]:
        where = Filter(
            viewer=self._agent,
            agents=(self._agent,),
            scopes=(self._scope,),
            kinds=(kind,),
            minimum_trust=LEAST_TRUST,
        )
        memories: list[Memory] = []
        async for batch in self._engine.store.scan(where):
            memories += [memory for memory in batch if is_condensable(memory)]
            if len(memories) >= MAX_MEMORIES:
                break
        return memories

    async def _plan(self, kind: Kind, group: Sequence[Memory]) -> CondensationPlan:
        # A few memories of a kind are only looked at for repetitions, which costs nothing.
        is_large = len(group) >= self._engine.settings.capture.condense_from
        plan = outdated(group, self._engine.clock()) if is_large else CondensationPlan()
        planned_ids = plan.ids()
        rest = [memory for memory in group if memory.id not in planned_ids]
        if is_large and self._model is not None and (self._force or self._seen.get(kind) != _digest(group)):
            by_model = await self._by_model(kind, rest)
            if by_model is not None:
                self._seen[kind] = _digest(group)
                return plan + by_model
        vectors = await self._vectors(rest)
        similarity, threshold = (
            self._engine.vector_source.similarity,
            self._engine.settings.intake.near_duplicate,
        )

        def alike(memory: Memory, other: Memory) -> bool:
            if memory.id not in vectors or other.id not in vectors:
                return False
            return similarity(float(vectors[memory.id] @ vectors[other.id])) > threshold

        # In a thread, so that other callers are served meanwhile.
        return plan + await asyncio.to_thread(plan_by_rules, rest, alike=alike)

    async def _by_model(self, kind: Kind, memories: Sequence[Memory]) -> CondensationPlan | None:
        """Plan with the model; None where it failed, or was asked as often as allowed: then rules plan."""
        assert self._model is not None
        plan = CondensationPlan()
        for batch in plan_batches(memories):
            if self._calls <= 0:
                self._notice = (
                    "The model was asked as often as capture.most_calls allows; the rest went by rules."
                )
                return None
            self._calls -= 1
            try:
                answer = await self._model.complete(
                    plan_prompt(kind, batch),
                    system=SYSTEM,
                    most_tokens=200 + TOKENS_PER_MEMORY * len(batch),
                    memories=[memory.id for memory in batch],
                )
            except ModelError as error:
                self._notice = str(error)
                self._model = None
                return None
            batch_plan = read_plan(answer, batch)
            if batch_plan is None:
                self._notice = f"{self._model.name} gave no answer that could be used."
                return None
            plan += batch_plan
            self._by = self._model.name
            if batch_plan.refused:
                self._notice = (
                    f"{plan.refused} things that {self._model.name} would merge or drop stay as they are: something would "
                    "be lost, or turned round."
                )
        return plan

    async def _vectors(self, memories: Sequence[Memory]) -> dict[str, Any]:
        model = self._engine.vector_source.model
        if model is None:
            return {}
        vectors = await self._engine.store.vector_of([memory.id for memory in memories], model=model)
        return {memory_id: vector / (np.linalg.norm(vector) or 1.0) for memory_id, vector in vectors.items()}

    def _add_examples(self, plan: CondensationPlan, made_ids: dict[str, str]) -> None:
        for merge in plan.merges:
            target_id = made_ids.get(merge_target(merge).id, "one")
            self._examples += [
                StageExample(item.id, "merged", f"into {target_id}: {merge.content}")
                for item in merge.sources
            ]
        self._examples += [StageExample(item.memory.id, "dropped", item.why) for item in plan.drops]
        self._examples += [
            StageExample(item.old.id, "replaced", f"by {item.new.id}") for item in plan.replaced
        ]

    async def _prune(self) -> int:
        """Erase what condensation archived so long ago that nobody will ask for it."""
        settings = self._engine.settings
        keep_days = settings.capture.keep_dropped_days
        engine = self._engine.with_settings(life=replace(settings.life, keep_archived_days=keep_days))
        life = engine.settings.lifecycle_rules
        where = Filter(
            viewer=self._agent,
            agents=(self._agent,),
            scopes=(self._scope,),
            kinds=_KINDS,
            statuses=(Status.ARCHIVED, Status.FORGOTTEN),
        )
        now = self._engine.clock()
        ids = [
            memory.id
            async for batch in self._engine.store.scan(where)
            for memory in batch
            if was_dropped(memory) and fate_of(memory, now, life)[0] is Fate.ERASED
        ]
        self._examples += [StageExample(memory, "pruned", "dropped long enough ago") for memory in ids]
        if self._dry or not ids:
            return len(ids)
        return len(await erase(engine, ids))


def is_condensable(memory: Memory) -> bool:
    """Whether it was captured, and nobody made it permanent."""
    return (
        memory.status is Status.ACTIVE
        and memory.provenance.source == CAPTURED
        and not is_kept_for_good(memory)
        and not is_part(memory)
        and not is_working(memory)
    )


async def _count_active(engine: Engine, scope: str, *, most: int | None = None) -> int:
    return await engine.store.count(Filter(viewer="system", scopes=(scope,), kinds=_KINDS), most=most)


def _digest(group: Sequence[Memory]) -> str:
    content = "\n".join(sorted(f"{memory.id} {memory.content_hash}" for memory in group))
    return hashlib.sha256(content.encode()).hexdigest()[:16]


async def _condense(context: Context, request: CondenseInput) -> CondenseResult:
    """Merge duplicates among captured memories, and archive what is over."""
    engine = context.engine
    scope = request.scope or engine.settings.scope
    return await condense(engine, scope, agent=context.agent, force=request.force, dry=request.dry_run)


CONDENSE = operation("condense", _condense, writes=True, owner_only=True)
