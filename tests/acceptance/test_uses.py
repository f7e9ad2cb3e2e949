"""Uses are written down by themselves, while the process goes on."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from front_door import Open, recall, run, show, stored

from mindhold.app.application import App
from mindhold.app.stores import utc_now
from mindhold.engine import UseCounter
from mindhold.memories.context import CONTEXT


async def test_another_process_sees_them_before_this_one_ends(opened: Open) -> None:
    async with opened() as app, opened() as other:
        uses = UseCounter(app.engine.store, utc_now, seconds=0.0)
        quick = App(replace(app.engine, use_counter=uses), app.loaded)
        memory_id = await stored(quick, "The lighthouse keeper prefers tea.", kind="preference")
        await recall(quick, "lighthouse tea")
        await run(quick, CONTEXT)
        async with asyncio.timeout(30):
            seen = (await show(other, memory_id)).memory
            while not (seen.uses and seen.shown):
                seen = (await show(other, memory_id)).memory
        assert (seen.uses, seen.shown, seen.tier) == (1, 1, "hot")
