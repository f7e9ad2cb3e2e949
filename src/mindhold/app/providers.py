"""Builds the providers that the settings name: language models, embedder, embedding service, classifier, RLM server, transcripts. Calls none of them."""

from __future__ import annotations

import shlex
import sys
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from mindhold.lifecycle.contradiction_detection import LayeredClassifier, RuleClassifier
from mindhold.memories.embedding import EMBEDDER_CURSOR, EmbeddingServiceLog, VectorSource, adoption
from mindhold.memories.language import LANGUAGE_CURSOR, OTHER
from mindhold.model.errors import ModelDenied, ModelError, ModelMissing, SettingsError
from mindhold.model.host import is_service_here
from mindhold.ports.cache import Cache
from mindhold.ports.embedder import BETWEEN_MODELS, MULTILINGUAL, ServiceTerms, models_in
from mindhold.ports.llm import FREE, Classifier, FallbackModel, ModelLevel, ModelPrice, OwnModel, RlmServer
from mindhold.ports.store import Clock, NewId, Store
from mindhold.providers.embedding.base import HashingEmbedder, with_cache, with_shared_cache
from mindhold.providers.embedding.paired import local_embedder
from mindhold.providers.embedding.services import (
    PROVIDERS,
    BatchLimits,
    Service,
    ServiceEmbedder,
    requested_size,
)
from mindhold.providers.model_registry import (
    MINILM,
    MULTILINGUAL_E5,
    LocalModelRegistry,
    find_known_model,
)
from mindhold.providers.remote_service import endpoint, host_of
from mindhold.providers.transcripts.claude import ClaudeTranscripts, CombinedTranscripts
from mindhold.providers.transcripts.codex import CodexTranscripts
from mindhold.providers.transcripts.cursor import CursorTranscripts
from mindhold.providers.transcripts.gemini import GeminiTranscripts
from mindhold.providers.transcripts.reader import TranscriptSource
from mindhold.settings.loader import child_environment
from mindhold.settings.schema import EmbeddingSettings, Settings
from mindhold.settings.sections import (
    CLAUDE_SDK,
    LlmSettings,
    ModelChoice,
    RlmSettings,
    comma_list,
    fallbacks,
    origin_of,
)

if TYPE_CHECKING:
    from mindhold.providers.llm.services import ModelTransport


async def service_embedder(
    settings: Settings, store: Store, *, clock: Clock, new_id: NewId, cache: Cache
) -> VectorSource:
    """The vector source of the configured service; one without vectors, with the reason, if something is missing. Raises SettingsError."""
    chosen = settings.embedding
    if missing := _missing(chosen):
        return VectorSource(None, reason=missing)
    service, provider = service_of(chosen), PROVIDERS[chosen.provider]
    model = provider.model(service.model)
    terms = ServiceTerms(
        price=chosen.price if chosen.price >= 0 else model.price,
        daily_tokens=chosen.daily_tokens,
        redact=settings.intake.redact,
    )
    limits = BatchLimits(
        batch=min(chosen.batch, provider.most_texts),
        batch_tokens=model.batch_tokens,
        window=chosen.window_tokens or model.window,
        requests_per_minute=chosen.requests_per_minute,
        tokens_per_minute=chosen.tokens_per_minute,
        wait_seconds=chosen.wait_seconds,
    )
    book = EmbeddingServiceLog(store, clock=clock, new_id=new_id, model=service.name, terms=terms)
    embedder = ServiceEmbedder(service, book, limits=limits)
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
        key=_key(chosen, "embedding"),
        size=requested_size(model, name, chosen.dimensions),
        dimensions=model.dimensions,
    )


def _missing(chosen: EmbeddingSettings) -> str:
    """Why the service can't be called; empty if it can."""
    provider = PROVIDERS[chosen.provider]
    if not (chosen.base_url or provider.address):
        return "embedding.base_url is empty: it says where the service is, such as http://localhost:11434/v1."
    if chosen.model == "auto" and not provider.usual:
        return "embedding.model is auto: name the model of the service."
    elsewhere = not is_service_here(host_of(chosen.base_url or provider.address))
    if provider.address and elsewhere and not _key(chosen, "embedding"):
        return f"embedding.{chosen.provider}_key is empty: {provider.title} wants a key."
    return ""


def _key(chosen: EmbeddingSettings | LlmSettings, section: str) -> str:
    """The key of the provider. Raises SettingsError."""
    key: str = getattr(chosen, f"{chosen.provider}_key").strip()
    if not key.isascii() or not key.isprintable():
        raise SettingsError(
            f"{section}.{chosen.provider}_key holds characters that no key has.", advice="Copy it anew."
        )
    return key


def classifier_of(settings: Settings, models: LocalModelRegistry) -> Classifier:
    """The classifier of contradictions. Nothing is loaded yet; a named model that isn't installed says so when it is first used."""
    rules, chosen = RuleClassifier(), settings.nli
    if chosen.model == "none":
        return rules
    installed = (card.name for card in models.classifiers() if card.installed)
    name = chosen.model if chosen.model != "auto" else next(installed, None)
    if name is None:
        return rules
    from mindhold.providers.nli import OnnxClassifier

    return LayeredClassifier(rules, OnnxClassifier(settings.models_dir, name, threads=chosen.threads))


PROGRAMS_FOLDER = "programs"  # in the home folder: the working folder of claude_cli and gemini_cli
BY_PROGRAM = ("claude_cli", "gemini_cli")


def language_model(settings: Settings) -> FallbackModel | None:
    """The configured language model with its fallbacks; None without one. An incomplete one says what is missing when it is called."""
    if settings.llm.provider == "none":
        return None
    own: dict[str, OwnModel] = {}
    levels: list[ModelLevel] = []
    for chosen, first in _choices(settings.llm):
        model, tariff, missing = _model(chosen, settings.home, first=first)
        if model.name not in own:  # a model that is named twice is called once
            own[model.name] = model
            levels.append(ModelLevel(model, tariff, missing))
    return FallbackModel(levels, own=tuple(own.values()))


def _choices(chosen: LlmSettings) -> Iterator[tuple[LlmSettings, bool]]:
    """The settings of each level, and whether it is the first. llm.command goes to the first level that is a program."""
    yield chosen, True
    command = "" if chosen.provider in BY_PROGRAM else chosen.command
    for choice in fallbacks(chosen.fallback):
        level = replace(
            chosen,
            provider=choice.provider,
            model=choice.model or "auto",
            base_url=choice.address,
            command=command if choice.provider in BY_PROGRAM else "",
        )
        if not _is_keys_own(chosen, choice):
            level = replace(level, anthropic_key="", openai_key="", compatible_key="")
        yield level, False
        if choice.provider in BY_PROGRAM:
            command = ""


def _is_keys_own(chosen: LlmSettings, choice: ModelChoice) -> bool:
    """Whether the key of its provider may be sent to the fallback's address.

    It may go to the provider's usual address, to llm.base_url if that is the same provider's, and for a provider without a
    usual address to the first one that the fallbacks name.
    """
    if not choice.address or choice.provider in BY_PROGRAM:
        return True
    from mindhold.providers.llm.services import PROVIDERS

    usual = PROVIDERS[choice.provider].address
    addresses = [usual, chosen.base_url if chosen.provider == choice.provider else ""]
    if not any(addresses):
        named = (other.address for other in fallbacks(chosen.fallback) if other.provider == choice.provider)
        addresses = [next(filter(None, named), "")]
    return origin_of(choice.address) in [origin_of(address) for address in addresses if address]


def _model(chosen: LlmSettings, home: Path, *, first: bool) -> tuple[OwnModel, ModelPrice | None, str]:
    from mindhold.providers.llm.services import RetryModel, UnavailableModel

    try:
        is_program = chosen.provider in BY_PROGRAM
        name, transport = _by_program(chosen, home) if is_program else _by_service(chosen)
    except (SettingsError, ModelError) as error:
        fault = error if isinstance(error, ModelError) else ModelError(error.message, advice=error.advice)
        if not first:
            fault = type(fault)(f"llm.fallback, {chosen.provider}: {fault.message}", advice=fault.advice)
        return UnavailableModel(chosen.provider, fault), FREE, fault.message
    model = RetryModel(
        f"{chosen.provider}:{name}",
        transport,
        wait_seconds=chosen.wait_seconds,
        most_output=chosen.most_output,
    )
    return model, _price(chosen, name, first=first), ""


def _price(chosen: LlmSettings, model: str, *, first: bool) -> ModelPrice | None:
    """The configured price, else the list price. A fallback has its list price, and the configured one only without that."""
    known = _known_price(chosen, model)
    if known is not None and not first:
        return known
    if known is None and min(chosen.price_in, chosen.price_out) < 0:
        return None  # half a price is no price
    usual = known or FREE
    return ModelPrice(
        chosen.price_in if chosen.price_in >= 0 else usual.sent,
        chosen.price_out if chosen.price_out >= 0 else usual.answered,
    )


def _known_price(chosen: LlmSettings, model: str) -> ModelPrice | None:
    """The list price. Programs have their own subscription, and models on this machine are free."""
    if chosen.provider in BY_PROGRAM:
        return FREE
    from mindhold.providers.llm.services import list_price

    if chosen.base_url and is_service_here(host_of(chosen.base_url.strip())):
        return FREE
    return list_price(chosen.provider, model)


def _by_program(chosen: LlmSettings, home: Path) -> tuple[str, ModelTransport]:
    from mindhold.providers.llm.programs import PROGRAMS, ProgramTransport, environment

    program = PROGRAMS[chosen.provider]
    model = program.usual if chosen.model == "auto" else chosen.model
    if model.startswith("-"):
        raise SettingsError("llm.model is no model's name.", advice="Correct it.")
    key = chosen.gemini_key.strip() if chosen.provider == "gemini_cli" else ""
    return model, ProgramTransport(
        program,
        model=model,
        command=chosen.command or program.command,
        folder=home / PROGRAMS_FOLDER,
        environ=environment(program, child_environment(), key=key),
    )


def _by_service(chosen: LlmSettings) -> tuple[str, ModelTransport]:
    from mindhold.providers.llm.services import PROVIDERS, ServiceTransport

    provider = PROVIDERS[chosen.provider]
    base_url = chosen.base_url or provider.address
    if not base_url:
        raise SettingsError(
            "llm.base_url is empty: it says where the service is.",
            advice="Such as http://localhost:11434/v1; in llm.fallback compatible:MODEL@ADDRESS.",
        )
    model = provider.usual if chosen.model == "auto" else chosen.model
    if not model:
        raise ModelMissing("llm.model is auto: name the model of the service.", advice="Set llm.model.")
    path = provider.api.path
    if path.startswith("/v1/"):  # its usual base has no version; one that has is meant the same
        base_url = base_url.strip().rstrip("/").removesuffix(path).removesuffix("/v1")
    address = endpoint(base_url, plain_http=chosen.plain_http, path=path, section="llm")
    key = _key(chosen, "llm")
    if provider.address and not key and not is_service_here(host_of(address)):
        setting = f"llm.{chosen.provider}_key"
        if origin_of(address) != origin_of(provider.address):
            raise ModelDenied(
                f"There is no key for {host_of(address)}: {setting} is empty, or that of another address.",
                advice="Make it llm.base_url, or ask it as compatible, with llm.compatible_key.",
            )
        raise ModelDenied(f"{setting} is empty: {provider.title} wants a key.", advice="Set it.")
    return model, ServiceTransport(provider, model=model, address=address, key=key)


RLM_FOLDER = "rlm"  # in the home folder: the files that are handed to the server while it runs
SCRIPTS = ("rlm-mcp-server", "rlm-server")  # the names of the script in its project
MODEL_VARIABLE = "ANTHROPIC_MODEL"  # names Claude Code's model, which a server's SDK starts


def rlm_server(settings: Settings) -> RlmServer | None:
    """The configured RLM server; None without one."""
    chosen = settings.rlm
    if not chosen.command.strip() and not chosen.server_path.strip():
        return None
    from mindhold.providers.rlm import McpRlm

    command, folder, advice = start_command(chosen)
    return McpRlm(
        command,
        cwd=folder,
        start_seconds=chosen.start_seconds,
        call_seconds=chosen.timeout_seconds,
        tries=chosen.tries,
        environ=child_environment() | _model_variable(chosen),
        work_dir=settings.home / RLM_FOLDER,
        advice=advice,
    )


def _model_variable(chosen: RlmSettings) -> dict[str, str]:
    """The variable that names the model: with `claude-sdk`, servers don't pass on the model that a call names."""
    named = chosen.provider == CLAUDE_SDK and chosen.model
    return {MODEL_VARIABLE: chosen.model} if named else {}


def start_command(chosen: RlmSettings) -> tuple[list[str], Path | None, str]:
    """The command, its working folder, and the advice when it fails."""
    folder = Path(chosen.server_path.strip()).expanduser() if chosen.server_path.strip() else None
    if chosen.command.strip():
        command = _parts(chosen.command)
        where = f" in {folder}" if folder else ""
        # The command's arguments may hold a key, so only the program is shown.
        return command, folder, f"Ensure that rlm.command starts it{where}; its program is {command[0]}."
    assert folder is not None
    command = ["uv", "run", _script(folder)]
    install = f"Ensure RLM is installed: uv pip install -e {folder} (rlm.server_path)."
    return command, folder, f"{install} It is started there by: {' '.join(command)}"


def _parts(command: str) -> list[str]:
    """Split a command as a shell does. On Windows a backslash is part of a path."""
    try:
        if sys.platform != "win32":
            return [
                str(Path(part).expanduser()) if part.startswith("~") else part
                for part in shlex.split(command)
            ]
        return [part.strip('"') for part in shlex.split(command, posix=False)]
    except ValueError:  # an unclosed quotation mark
        return command.split()


def _script(folder: Path) -> str:
    """The name of the server's script in the project of the folder; the usual one if there is none."""
    scripts: object = {}
    with suppress(OSError, ValueError):
        project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8")).get("project", {})
        scripts = project.get("scripts", {}) if isinstance(project, dict) else {}
    known = [name for name in SCRIPTS if isinstance(scripts, dict) and name in scripts]
    return (known or SCRIPTS)[0]


def transcripts_of(settings: Settings) -> CombinedTranscripts:
    """The transcripts of the configured agents. Claude Code's format is always known: hooks report its files."""
    claude = ClaudeTranscripts(settings.claude_dir)
    sources: dict[str, TranscriptSource] = {
        "claude": claude,
        "codex": CodexTranscripts(settings.codex_dir),
        "gemini": GeminiTranscripts(settings.gemini_dir),
    }
    if settings.cursor_dir is not None:
        sources["cursor"] = CursorTranscripts(settings.cursor_dir)
    named = set(comma_list(settings.history.agents))
    return CombinedTranscripts([source for name, source in sources.items() if name in named], claude)


async def vector_source_of(
    settings: Settings, store: Store, models: LocalModelRegistry, *, clock: Clock, new_id: NewId, cache: Cache
) -> VectorSource:
    """The source of vectors for recall. The cache shares a service's query vectors. Raises SettingsError and the store's errors."""
    chosen = settings.embedding
    if chosen.provider == "none":
        return VectorSource(None, reason="embedding.provider is none.")
    if chosen.provider == "hashing":
        return VectorSource(HashingEmbedder())
    if chosen.provider != "local":
        return await service_embedder(settings, store, clock=clock, new_id=new_id, cache=cache)
    before = await store.cursor(EMBEDDER_CURSOR) or ""
    if chosen.model == "auto":
        name = _usual_model(models, before, language=await store.cursor(LANGUAGE_CURSOR))
    else:
        known = find_known_model(chosen.model)
        name = known.name if known else chosen.model
    if name is None:
        return VectorSource(None, reason="No model is here yet: `mindhold models pull` fetches one.")
    precision = chosen.precision if chosen.precision != "auto" else _usual_precision(models, name, before)
    if name == MULTILINGUAL_E5.name and precision in _precisions(models, MINILM.name):
        name = f"{MINILM.name}{BETWEEN_MODELS}{name}"
    embedder = local_embedder(
        settings.models_dir, name, threads=chosen.threads, device=chosen.device, precision=precision
    )
    return VectorSource(with_cache(embedder, chosen.cache_size))


def _usual_model(models: LocalModelRegistry, before: str, *, language: str | None) -> str | None:
    """The model that made the stored vectors if it is installed, else the best installed one.

    The multilingual one takes the place of an English one if most of what is stored isn't English. It stays then.
    """
    installed = {card.name: card for card in models.installed()}
    name = models_in(before)[-1]
    if name not in installed:
        name = next(iter(installed), "")
    multilingual = next((card.name for card in installed.values() if card.alias == MULTILINGUAL), None)
    if multilingual and language == OTHER and installed[name].languages == "English":
        return multilingual
    return name or None


def _usual_precision(models: LocalModelRegistry, name: str, before: str) -> str:
    """The precision of the stored vectors if it is installed, else int8, else the one that is."""
    installed = _precisions(models, name) or ["int8"]
    used = before.rpartition("/")[2] if models_in(before)[-1] == name else "int8"
    return next(precision for precision in (used, "int8", installed[0]) if precision in installed)


def _precisions(models: LocalModelRegistry, name: str) -> list[str]:
    """The precisions in which the model is installed."""
    return next((card.precision.split(", ") for card in models.installed() if card.name == name), [])
