"""The language of what is stored, which decides between local models."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from mindhold.engine import Engine
from mindhold.model.errors import StoreError
from mindhold.model.query import Filter
from mindhold.ports.embedder import MULTILINGUAL, models_in
from mindhold.text.language import is_english

LANGUAGE_CURSOR = "language"  # whether most of what is stored is English, as it was found last
ENGLISH, OTHER = "english", "other"
SAMPLE = 300
LEAST_TOLD = 10  # texts whose language can be told
# Between these shares of English nothing changes, so that a mixed store doesn't go back and forth.
OTHER_BELOW, ENGLISH_ABOVE = 0.4, 0.6


async def stored_language(engine: Engine) -> str | None:
    """The language of most of the newest memories; the last finding while they are few or mixed, None while a store is away."""
    try:
        known = await engine.store.cursor(LANGUAGE_CURSOR)
        memories = await engine.store.find(Filter(viewer="system"), limit=SAMPLE)
    except StoreError:
        return None
    told = [english for memory in memories if (english := is_english(memory.content)) is not None]
    if len(told) < LEAST_TOLD:
        return known
    share = sum(told) / len(told)
    return OTHER if share < OTHER_BELOW else ENGLISH if share > ENGLISH_ABOVE else known


async def note_language(engine: Engine) -> str:
    """Keep the language for the next start, which chooses the model by it. Returns the advice that follows from a change."""
    with suppress(StoreError):  # the next hour tries again
        language = await stored_language(engine)
        if language is not None and language != await engine.store.cursor(LANGUAGE_CURSOR):
            await engine.store.set_cursor(LANGUAGE_CURSOR, language)
            return await language_advice(engine, language)
    return ""


async def language_advice(engine: Engine, language: str | None) -> str:
    """What to do if recall goes by a model of another language than most of what is stored; usually empty.

    A model that was chosen by name is not questioned.
    """
    chosen = engine.settings.embedding
    if language != OTHER or chosen.provider != "local" or chosen.model != "auto":
        return ""
    cards = await asyncio.to_thread(engine.models.installed)
    used = models_in(engine.vector_source.model or "")
    if any(card.name in used and card.languages != "English" for card in cards):
        return ""
    if any(card.alias == MULTILINGUAL for card in cards):
        return "Most of what is stored is not English: from the next start on, recall goes by the multilingual model."
    return (
        "Most of what is stored is not English: `mindhold models pull multilingual` fetches a model for recall in "
        "100 languages."
    )
