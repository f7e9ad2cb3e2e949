"""Which embedder the settings ask for: settings in, Meaning out. Nothing is sent anywhere from here."""

from __future__ import annotations

from mindhold.engine.embed import EMBEDDER_CURSOR
from mindhold.engine.meaning import Meaning
from mindhold.ports.cache import ALONE, Cache
from mindhold.ports.clock import Clock, NewId
from mindhold.ports.store import Store
from mindhold.providers.embedding.cache import cached
from mindhold.providers.embedding.hashing import HashingEmbedder
from mindhold.providers.embedding.onnx import OnnxEmbedder
from mindhold.providers.embedding.shelf import LocalShelf
from mindhold.settings.declared import Settings


async def meaning_of(
    settings: Settings, store: Store, shelf: LocalShelf, *, clock: Clock, new_id: NewId, cache: Cache = ALONE
) -> Meaning:
    """What recall stands on; a service's vectors of questions are shared by the cache. Raises SettingsError, and the store's errors."""
    chosen = settings.embedding
    if chosen.provider == "none":
        return Meaning(None, reason="embedding.provider is none.")
    if chosen.provider == "hashing":
        return Meaning(HashingEmbedder())
    if chosen.provider != "local":
        from mindhold.service_meaning import by_service  # for those who use one

        return await by_service(settings, store, clock=clock, new_id=new_id, cache=cache)
    before = await store.cursor(EMBEDDER_CURSOR) or ""
    name = chosen.model if chosen.model != "auto" else _usual_model(shelf, before)
    if name is None:
        return Meaning(None, reason="No model is here yet: `mindhold models pull` fetches one.")
    precision = chosen.precision if chosen.precision != "auto" else _usual_precision(shelf, name, before)
    embedder = OnnxEmbedder(
        settings.models_dir, name, threads=chosen.threads, device=chosen.device, precision=precision
    )
    return Meaning(cached(embedder, chosen.cache_size))


def _usual_model(shelf: LocalShelf, before: str) -> str | None:
    """The one that made the stored vectors if it is here, else the best one that is."""
    installed = [card.name for card in shelf.installed()]
    name = before.rpartition("/")[0]
    if name in installed:
        return name
    return installed[0] if installed else None


def _usual_precision(shelf: LocalShelf, name: str, before: str) -> str:
    """The one of the stored vectors if it is here, else int8 if that is, else what is."""
    here = next((card.precision.split(", ") for card in shelf.installed() if card.name == name), ["int8"])
    used = before.rpartition("/")[2] if before.startswith(f"{name}/") else "int8"
    return next(precision for precision in (used, "int8", here[0]) if precision in here)
