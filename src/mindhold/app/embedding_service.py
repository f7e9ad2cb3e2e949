"""Builds the embedding service that the settings name, with its price and limits; not called before the user adopts it."""

from __future__ import annotations

from mindhold.memories.embedding import EmbeddingServiceLog, VectorSource, adoption
from mindhold.model.errors import SettingsError
from mindhold.ports.cache import NO_SIDECAR, Cache
from mindhold.ports.embedder import ServiceTerms
from mindhold.ports.store import Clock, NewId, Store
from mindhold.providers.embedding.base import with_cache, with_shared_cache
from mindhold.providers.embedding.services import (
    PROVIDERS,
    BatchLimits,
    Service,
    ServiceEmbedder,
    requested_size,
)
from mindhold.providers.remote_service import endpoint, host_of, is_loopback
from mindhold.settings.schema import EmbeddingSettings, Settings


async def service_embedder(
    settings: Settings, store: Store, *, clock: Clock, new_id: NewId, cache: Cache = NO_SIDECAR
) -> VectorSource:
    """The vector source of the configured service; one without vectors, with the reason, if something is missing. Raises SettingsError."""
    chosen = settings.embedding
    missing = _missing(chosen)
    if missing:
        return VectorSource(None, reason=missing)
    service = service_of(chosen)
    terms = ServiceTerms(
        price=chosen.price if chosen.price >= 0 else PROVIDERS[service.provider].model(service.model).price,
        daily_tokens=chosen.daily_tokens,
        redact=settings.intake.redact,
    )
    book = EmbeddingServiceLog(store, clock=clock, new_id=new_id, model=service.name, terms=terms)
    embedder = ServiceEmbedder(service, book, limits=_bounds(chosen, service))
    await embedder.load_traits()
    return VectorSource(
        with_cache(with_shared_cache(embedder, cache), chosen.cache_size),
        terms=terms,
        gate=adoption(store, service.name, clock=clock),
    )


def service_of(chosen: EmbeddingSettings) -> Service:
    """The configured service. Raises SettingsError."""
    provider = PROVIDERS[chosen.provider]
    name = provider.usual if chosen.model == "auto" else chosen.model
    model = provider.model(name)
    return Service(
        provider=chosen.provider,
        title=provider.title,
        model=name,
        address=endpoint(
            chosen.base_url or provider.address,
            plain_http=chosen.plain_http,
            path="/embeddings",
            section="embedding",
        ),
        request_format=provider.request_format,
        key=_key(chosen),
        size=requested_size(model, name, chosen.dimensions),
        dimensions=model.dimensions,
    )


def _bounds(chosen: EmbeddingSettings, service: Service) -> BatchLimits:
    provider = PROVIDERS[service.provider]
    model = provider.model(service.model)
    return BatchLimits(
        batch=min(chosen.batch, provider.most_texts),
        batch_tokens=model.batch_tokens,
        window=chosen.window_tokens or model.window,
        requests_per_minute=chosen.requests_per_minute,
        tokens_per_minute=chosen.tokens_per_minute,
        wait_seconds=chosen.wait_seconds,
    )


def _missing(chosen: EmbeddingSettings) -> str:
    """Why the service can't be called; empty if it can."""
    provider = PROVIDERS[chosen.provider]
    if not (chosen.base_url or provider.address):
        return "embedding.base_url is empty: it says where the service is, such as http://localhost:11434/v1."
    if chosen.model == "auto" and not provider.usual:
        return "embedding.model is auto: name the model of the service."
    elsewhere = not is_loopback(host_of(chosen.base_url or provider.address))
    if provider.address and elsewhere and not _key(chosen):
        return f"embedding.{chosen.provider}_key is empty: {provider.title} wants a key."
    return ""


def _key(chosen: EmbeddingSettings) -> str:
    keys = {
        "openai": chosen.openai_key,
        "voyage": chosen.voyage_key,
        "compatible": chosen.compatible_key,
    }
    key = keys[chosen.provider].strip()
    if not key.isascii() or not key.isprintable():
        raise SettingsError(
            f"embedding.{chosen.provider}_key holds characters that no key has.", advice="Copy it anew."
        )
    return key
