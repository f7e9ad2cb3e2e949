"""Forgetting well: small steps that archive what is old, unused, repeated or too much, each only by its own rule.

Nothing is removed here. What is archived leaves the archive by the life that all memories have, and by nothing else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import replace
from time import perf_counter

from mindhold.engine.audit import RETENTION, Journal
from mindhold.engine.claims import claim
from mindhold.engine.consolidate.stage import NOTHING, Bounds, Stage, part_of
from mindhold.engine.core import Engine
from mindhold.engine.retention.noise import merge_repeated
from mindhold.engine.retention.recapping import Recaps, recaps_of
from mindhold.engine.retention.room import room_finding, room_notice, room_of
from mindhold.engine.retention.size import make_room
from mindhold.engine.retention.time import put_old_talk_away
from mindhold.engine.retention.use import put_unused_away
from mindhold.model.errors import ModelError

__all__ = ["NAME", "Bounds", "Stage", "room_finding", "room_notice", "room_of", "run"]

NAME = RETENTION
KEPT_ALL = "retention.level is keep-all: nothing goes by itself"
Step = Callable[[Engine, Bounds, Recaps], Awaitable[Stage]]
STEPS: tuple[Step, ...] = (put_old_talk_away, merge_repeated, put_unused_away, make_room)
OF_LIFE: tuple[Step, ...] = (merge_repeated, put_unused_away)  # what a consolidation does as well


async def run(
    engine: Engine, within: Bounds, *, recaps: Recaps | None = None, consolidated: bool = False
) -> Stage:
    """All that retention asks for now; run again at once it does nothing. Of two at once one does it.

    `consolidated`: a consolidation has just done its part. What goes is in the audit trail before it goes. Raises the
    store's errors.
    """
    if not engine.policy.retention.prunes:
        return Stage(NAME, 0, KEPT_ALL)
    known = recaps or recaps_of()
    steps = [step for step in STEPS if not (consolidated and step in OF_LIFE)]
    if within.dry:
        return _together([await step(engine, within, known) for step in steps])
    async with claim(engine, NAME) as mine:
        if not mine:
            return Stage(NAME, 0, "another process is at it")
        journal = Journal(engine, RETENTION)
        done: list[Stage] = []
        noted = replace(within, before=journal.before)
        for number, step in enumerate(steps):
            if journal.full:
                done.append(Stage(NAME, 0, "", more=True))
                break
            done.append(await _stepped(step, engine, part_of(noted, 1 / (len(steps) - number)), known))
        whole = _together(done)
        operations = [stage.detail for stage in done if stage.changed]
        await journal.close(whole.examples, operations=operations, counts=whole.counts)
    return whole


async def _stepped(step: Step, engine: Engine, within: Bounds, recaps: Recaps) -> Stage:
    """A model that fails keeps no other step from its work."""
    begun = perf_counter()
    try:
        stage = await step(engine, within, recaps)
    except ModelError as error:
        stage = Stage(NAME, 0, f"failed: {error.message}")
    return replace(stage, seconds=perf_counter() - begun)


def _together(done: list[Stage]) -> Stage:
    """`detail` has what each step did, by semicolons."""
    counts = sum((Counter(stage.counts) for stage in done), Counter[str]())
    return Stage(
        NAME,
        changed=sum(stage.changed for stage in done),
        detail="; ".join(stage.detail for stage in done if stage.detail and stage.detail != NOTHING)
        or NOTHING,
        seconds=sum(stage.seconds for stage in done),
        more=any(stage.more for stage in done),
        looked=sum(stage.looked for stage in done),
        examples=tuple(told for stage in done for told in stage.examples),
        counts=dict(counts),
    )
