"""What a doctor finds about past conversations: the index, what it lacks, what will vanish, and who reads them."""

from __future__ import annotations

import asyncio

from mindhold.engine.core import Engine
from mindhold.engine.history.status import HistoryState, history_state
from mindhold.engine.history.vectors import history_model
from mindhold.model.errors import StoreError
from mindhold.ports.store import Finding

INDEX, VANISHING, ARCHIVE, READER = "history", "vanishing conversations", "archive", "rlm"


async def history_findings(engine: Engine) -> list[Finding]:
    """Nothing where conversations aren't indexed, or are withheld. That some aren't indexed yet is nothing wrong."""
    if not engine.policy.history.enabled or engine.history.withheld:
        return []
    try:
        state = await history_state(engine)
    except StoreError as error:
        return [Finding(INDEX, False, f"{error.code}: {error.message}", error.advice)]
    found = [Finding(INDEX, True, _indexed(engine, state), advice=_unread(state)), *_vanishing(engine, state)]
    found += _archive(state)
    if engine.rlm is not None:
        doubt = await asyncio.to_thread(engine.rlm.doubt)
        told = doubt or f"{engine.rlm.name} can be started"
        found.append(
            Finding(READER, not doubt, told, advice="Look at rlm.server_path, rlm.command." if doubt else "")
        )
    return found


def _indexed(engine: Engine, state: HistoryState) -> str:
    told = f"{state.conversations:,} conversations indexed, {state.stock.passages:,} passages"
    if history_model(engine) is not None:
        told += f", {state.stock.embedded:,} of them with a vector"
    if state.unread_files:
        told += f"; {state.unread_files:,} files with {state.unread_bytes / 1e6:.1f} MB are not indexed yet"
    return told


def _unread(state: HistoryState) -> str:
    return "`mindhold history index` indexes them now." if state.unread_files else ""


def _archive(state: HistoryState) -> list[Finding]:
    """What couldn't be copied, and what made room: nobody was there to be told."""
    trouble = state.trouble
    if trouble is None:
        return []
    told = []
    if trouble.problems:
        told.append(f"not everything could be copied: {trouble.problems[0]}")
    if trouble.too_big:
        told.append(f"bigger than the archive may be: {trouble.too_big[0]}")
    if trouble.made_room:
        told.append(f"{trouble.made_room:,} made room or found none, last {trouble.made_room_at[:10]}")
    if not told:
        return []
    advice = (
        "`mindhold history archive` tries again."
        if trouble.problems
        else "Raise history.archive_max_mb to keep more."
    )
    return [Finding(ARCHIVE, not trouble.failed, "; ".join(told), advice=advice)]


def _vanishing(engine: Engine, state: HistoryState) -> list[Finding]:
    """With consent there should be none; without, it is theirs to say."""
    if not state.vanishing:
        return []
    told = f"{len(state.vanishing):,} will be deleted by Claude Code within a week or by now, and there is no copy of them"
    if engine.policy.history.archive:
        return [Finding(VANISHING, False, told, advice="`mindhold history archive` keeps them.")]
    advice = "`mindhold history archive` tells how copies of them are kept, and asks."
    return [Finding(VANISHING, True, told, advice=advice)]
