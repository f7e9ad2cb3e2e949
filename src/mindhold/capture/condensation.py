"""Condenses captured memories: merges duplicates, archives what is over."""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
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
from mindhold.capture.items import CAPTURED
from mindhold.engine import LEAST_TRUST, Engine
from mindhold.lifecycle.archive import erase
from mindhold.lifecycle.audit import CONDENSING, AuditJournal
from mindhold.lifecycle.stages import StageExample
from mindhold.locks import claim
from mindhold.memories.spending import CONDENSE_PURPOSE, Metered, metered
from mindhold.model.errors import Conflict, MemoryNotFound, ModelError
from mindhold.model.job import Entry
from mindhold.model.lifecycle import Fate, fate_of, is_kept_for_good, is_part, is_working
from mindhold.model.memory import Kind, Memory, Status
from mindhold.model.policies import CAPTURED_KINDS
from mindhold.model.query import Filter
from mindhold.operations import Context, Input, Output, operation
from mindhold.projects.scopes import find_scope

CONDENSED_NAMESPACE = "capture:condensed"  # by scope: what the last condensing left
MOST = 20_000  # memories of a kind that are looked at
TOKENS_A_MEMORY = 60  # of the answer
RULES = "rules"
OVER = "it told of work that is over"
ENDED = "SessionEnd"
_KINDS = tuple(sorted(CAPTURED_KINDS))


@dataclass(frozen=True, slots=True)
class Condensation:
    """What was done, or would be: `merged` became `made`, `replaced` had been denied by newer ones, `pruned` is gone."""

    kept: int = 0
    merged: int = 0
    made: int = 0
    dropped: int = 0
    replaced: int = 0
    pruned: int = 0
    by: str = RULES
    notice: str = ""
    told: tuple[StageExample, ...] = ()


async def condensation_reason(engine: Engine, scope: str, *, event: str, captures: int) -> str:
    """Why what was captured in that scope is to be condensed after this event and so many captures; empty: it isn't."""
    settings = engine.settings.capture
    if engine.settings.lifecycle_rules.keeps_all:
        return ""
    if event == ENDED:
        return "a conversation ended"
    if captures > 0 and captures % settings.condense_every == 0:
        return f"{captures} captures"
    noted = await engine.store.entry(CONDENSED_NAMESPACE, scope, now=engine.clock())
    left = int(noted.value.get("active", 0)) if noted else 0
    # What can't be condensed any further isn't looked at again for each capture.
    most = max(settings.condense_above, left + settings.condense_every - 1)
    active = await _active(engine, scope, most=most + 1)
    return f"more than {most} memories" if active > most else ""


async def condense(
    engine: Engine, scope: str, *, agent: str, force: bool = False, dry: bool = False
) -> Condensation:
    """Condense what the agent's conversations left in that scope. Of two at once one does it, and the other says so.

    A model is asked of what has changed since it was last asked, with `force` of all. `dry` changes nothing; it asks no
    model either. Raises ScopeNotFound and the store's errors.
    """
    await find_scope(engine, scope)
    condensing = _Condensing(engine, scope, agent=agent, force=force, dry=dry)
    if dry:
        return await condensing.run()
    async with claim(engine, f"condense {scope}") as mine:
        if not mine:
            return Condensation(notice="Another process is condensing it.")
        return await condensing.run()


class _Condensing:
    """One run."""

    def __init__(self, engine: Engine, scope: str, *, agent: str, force: bool, dry: bool) -> None:
        self._engine = engine
        self._scope = scope
        self._agent = agent
        self._dry = dry
        self._force = force
        self._model = _asked_model(engine) if not dry else None
        self._calls = engine.settings.capture.most_calls
        self._by = RULES
        self._notice = ""
        self._told: list[StageExample] = []
        self._kept = self._made = 0
        self._seen: dict[str, str] = {}
        self._journal = AuditJournal(engine, CONDENSING, who=agent)

    async def run(self) -> Condensation:
        noted = await self._engine.store.entry(CONDENSED_NAMESPACE, self._scope, now=self._engine.clock())
        value: dict[str, Any] = dict(noted.value) if noted else {}
        self._seen = dict(value.get(self._agent_key, {}))
        for kind in _KINDS:
            await self._condense(kind)
        pruned = await self._pruned()
        if not self._dry:
            await self._audit()
            active = await _active(self._engine, self._scope)
            value |= {"active": active, self._agent_key: self._seen}
            now = self._engine.clock()
            await self._engine.store.put_entry(Entry(CONDENSED_NAMESPACE, self._scope, value, now))
        done = Counter(one.what for one in self._told)
        return Condensation(
            kept=self._kept,
            merged=done["merged"],
            made=self._made,
            dropped=done["dropped"],
            replaced=done["replaced"],
            pruned=pruned,
            by=self._by,
            notice=self._notice,
            told=tuple(self._told),
        )

    async def _audit(self) -> None:
        """What was said of each stays out of it: those are words of what may be erased."""
        rules = {"dropped": (Fate.ARCHIVED, OVER), "pruned": (Fate.ERASED, "dropped long enough ago")}
        told = [StageExample(one.memory_id, *rules[one.what]) for one in self._told if one.what in rules]
        counts = Counter(one.what for one in told)
        words: dict[str, str] = {
            Fate.ARCHIVED: "archived {} that told of work that is over",
            Fate.ERASED: "removed {} of those",
        }
        operations = [f"{words[what].format(number)} in {self._scope}" for what, number in counts.items()]
        await self._journal.close(told, operations=operations, counts=counts)

    @property
    def _agent_key(self) -> str:
        return f"seen by {fingerprint(self._agent)}"

    async def _condense(self, kind: Kind) -> None:
        group = await self._group(kind)
        if len(group) < self._engine.settings.capture.condense_from:
            return
        plan = await self._plan(kind, group)
        made: dict[str, str] = {}
        if not self._dry and plan.ids():
            if plan.drops:
                await self._journal.before(
                    [StageExample(one.memory.id, Fate.ARCHIVED, OVER) for one in plan.drops]
                )
            try:
                plan, made = await apply_plan(self._engine, plan, agent=self._agent)
            except (Conflict, MemoryNotFound) as error:
                plan, self._notice = CondensationPlan(), str(error)
        self._tell(plan, made)
        self._made += len(plan.merges)
        gone = sum(len(one.sources) for one in plan.merges) + len(plan.drops) + len(plan.replaced)
        self._kept += len(group) - gone
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
        found: list[Memory] = []
        async for batch in self._engine.store.scan(where):
            found += [one for one in batch if is_condensable(one)]
            if len(found) >= MOST:
                break
        return found

    async def _plan(self, kind: Kind, group: Sequence[Memory]) -> CondensationPlan:
        plan = outdated(group, self._engine.clock())
        gone = plan.ids()
        rest = [one for one in group if one.id not in gone]
        if self._model is not None and (self._force or self._seen.get(kind) != _digest(group)):
            by_model = await self._by_model(kind, rest)
            if by_model is not None:
                self._seen[kind] = _digest(group)
                return plan + by_model
        vectors = await self._vectors(rest)
        similarity, same = self._engine.vector_source.similarity, self._engine.settings.intake.near_duplicate

        def alike(one: Memory, other: Memory) -> bool:
            if one.id not in vectors or other.id not in vectors:
                return False
            return similarity(float(vectors[one.id] @ vectors[other.id])) > same

        # In a thread, for those who are served meanwhile.
        return plan + await asyncio.to_thread(plan_by_rules, rest, alike=alike)

    async def _by_model(self, kind: Kind, memories: Sequence[Memory]) -> CondensationPlan | None:
        """None where it failed, or was asked often enough: then it is for rules."""
        assert self._model is not None
        plan = CondensationPlan()
        for lot in plan_batches(memories):
            if self._calls <= 0:
                self._notice = (
                    "The model was asked as often as capture.most_calls allows; the rest went by rules."
                )
                return None
            self._calls -= 1
            try:
                answer = await self._model.complete(
                    plan_prompt(kind, lot),
                    system=SYSTEM,
                    most_tokens=200 + TOKENS_A_MEMORY * len(lot),
                    memories=[one.id for one in lot],
                )
            except ModelError as error:
                self._notice = str(error)
                self._model = None
                return None
            found = read_plan(answer, lot)
            if found is None:
                self._notice = f"{self._model.name} gave no answer that could be used."
                return None
            plan += found
            self._by = self._model.name
            if found.refused:
                self._notice = (
                    f"{plan.refused} things that {self._model.name} would merge or drop stay as they are: something would "
                    "be lost, or turned round."
                )
        return plan

    async def _vectors(self, memories: Sequence[Memory]) -> dict[str, Any]:
        model = self._engine.vector_source.model
        if model is None:
            return {}
        found = await self._engine.store.vector_of([one.id for one in memories], model=model)
        return {name: vector / (np.linalg.norm(vector) or 1.0) for name, vector in found.items()}

    def _tell(self, plan: CondensationPlan, made: dict[str, str]) -> None:
        for merge in plan.merges:
            into = made.get(merge_target(merge).id, "one")
            self._told += [
                StageExample(one.id, "merged", f"into {into}: {merge.content}") for one in merge.sources
            ]
        self._told += [StageExample(one.memory.id, "dropped", one.why) for one in plan.drops]
        self._told += [StageExample(one.old.id, "replaced", f"by {one.new.id}") for one in plan.replaced]

    async def _pruned(self) -> int:
        """What condensing dropped so long ago that nobody will ask for it."""
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
            one.id
            async for batch in self._engine.store.scan(where)
            for one in batch
            if was_dropped(one) and fate_of(one, now, life)[0] is Fate.ERASED
        ]
        self._told += [StageExample(one, "pruned", "dropped long enough ago") for one in ids]
        if self._dry or not ids:
            return len(ids)
        return len(await erase(engine, ids))


def is_condensable(memory: Memory) -> bool:
    """Captured by itself, and made to stay by nobody."""
    return (
        memory.status is Status.ACTIVE
        and memory.provenance.source == CAPTURED
        and not is_kept_for_good(memory)
        and not is_part(memory)
        and not is_working(memory)
    )


def _asked_model(engine: Engine) -> Metered | None:
    if engine.llm is None or not engine.settings.capture.by_model:
        return None
    return metered(engine, engine.llm, purpose=CONDENSE_PURPOSE)


async def _active(engine: Engine, scope: str, *, most: int | None = None) -> int:
    return await engine.store.count(Filter(viewer="system", scopes=(scope,), kinds=_KINDS), most=most)


def _digest(group: Sequence[Memory]) -> str:
    told = "\n".join(sorted(f"{one.id} {one.content_hash}" for one in group))
    return hashlib.sha256(told.encode()).hexdigest()[:16]


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
    def of(cls, told: StageExample) -> CondensedView:
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


async def _condense(context: Context, request: CondenseInput) -> CondenseResult:
    """Merge what was captured twice, and drop what is over."""
    engine, scope = context.engine, request.scope or context.engine.settings.scope
    done = await condense(engine, scope, agent=context.agent, force=request.force, dry=request.dry_run)
    return CondenseResult(
        scope=scope,
        kept=done.kept,
        merged=done.merged,
        made=done.made,
        dropped=done.dropped,
        replaced=done.replaced,
        pruned=done.pruned,
        by=done.by,
        dry_run=request.dry_run,
        notice=done.notice,
        changes=[CondensedView.of(told) for told in done.told[:MOST_NAMED]],
    )


CONDENSE = operation("condense", _condense, writes=True, owner_only=True)
