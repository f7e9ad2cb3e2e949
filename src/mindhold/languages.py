"""Which language models the settings ask for: settings in, a ladder of models out. Nothing is asked from here."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from mindhold.model.errors import ModelDenied, ModelError, ModelMissing, SettingsError
from mindhold.ports.ladder import FREE, Ladder, Rung, Tariff
from mindhold.ports.llm import OwnModel
from mindhold.settings import surroundings
from mindhold.settings.declared import Settings
from mindhold.settings.llm import Choice, LlmSettings, fallbacks, origin_of

if TYPE_CHECKING:
    from mindhold.providers.llm.patient import Way

FOLDER = "programs"  # in the home folder: where the programs that are asked run
BY_PROGRAM = ("claude_cli", "gemini_cli")


def language_model(settings: Settings) -> Ladder | None:
    """None unless the person chose one; those that something is missing of say what when they are asked."""
    if settings.llm.provider == "none":
        return None
    own: dict[str, OwnModel] = {}
    rungs: list[Rung] = []
    for chosen, first in _choices(settings.llm):
        model, tariff, missing = _model(chosen, settings.home, first=first)
        if model.name not in own:  # named twice, it is asked once
            own[model.name] = model
            rungs.append(Rung(model, tariff, missing))
    return Ladder(rungs, own=tuple(own.values()))


def _choices(chosen: LlmSettings) -> Iterator[tuple[LlmSettings, bool]]:
    """The settings as each rung has them: model, address and price are the first's; the program goes to the first that is one."""
    yield chosen, True
    command = "" if chosen.provider in BY_PROGRAM else chosen.command
    for choice in fallbacks(chosen.fallback):
        rung = replace(
            chosen,
            provider=choice.provider,
            model=choice.model or "auto",
            base_url=choice.address,
            command=command if choice.provider in BY_PROGRAM else "",
        )
        if not _is_keys_own(chosen, choice):
            rung = replace(rung, anthropic_key="", openai_key="", compatible_key="")
        yield rung, False
        if choice.provider in BY_PROGRAM:
            command = ""


def _is_keys_own(chosen: LlmSettings, choice: Choice) -> bool:
    """Whether the fallback is where the key of its provider belongs: its usual place, that of llm.base_url where that is the
    provider's, or, of a provider that has none, the first that the fallbacks name."""
    if not choice.address or choice.provider in BY_PROGRAM:
        return True
    from mindhold.providers.llm.protocols import PROVIDERS

    usual = PROVIDERS[choice.provider].address
    places = [usual, chosen.base_url if chosen.provider == choice.provider else ""]
    if not any(places):
        named = (one.address for one in fallbacks(chosen.fallback) if one.provider == choice.provider)
        places = [next(filter(None, named), "")]
    return origin_of(choice.address) in [origin_of(place) for place in places if place]


def _model(chosen: LlmSettings, home: Path, *, first: bool) -> tuple[OwnModel, Tariff | None, str]:
    from mindhold.providers.llm.patient import PatientModel, Unready  # for those who use one

    try:
        name, way = _way(chosen, home)
    except (SettingsError, ModelError) as error:
        told = error if isinstance(error, ModelError) else ModelError(error.message, advice=error.advice)
        if not first:
            told = type(told)(f"llm.fallback, {chosen.provider}: {told.message}", advice=told.advice)
        return Unready(chosen.provider, told), FREE, told.message
    model = PatientModel(
        f"{chosen.provider}:{name}", way, wait_seconds=chosen.wait_seconds, most_output=chosen.most_output
    )
    return model, _tariff(chosen, name, first=first), ""


def _tariff(chosen: LlmSettings, model: str, *, first: bool) -> Tariff | None:
    """What the person says it costs, else what is known. That holds for the first, and where nothing is known."""
    known = _known_price(chosen, model)
    if known is not None and not first:
        return known
    if known is None and min(chosen.price_in, chosen.price_out) < 0:
        return None  # half of a price is none
    usual = known or FREE
    return Tariff(
        chosen.price_in if chosen.price_in >= 0 else usual.sent,
        chosen.price_out if chosen.price_out >= 0 else usual.answered,
    )


def _known_price(chosen: LlmSettings, model: str) -> Tariff | None:
    """A program has a subscription of its own, and what runs on this machine costs nothing."""
    if chosen.provider in BY_PROGRAM:
        return FREE
    from mindhold.providers.llm.prices import list_price
    from mindhold.providers.remote.address import host_of, is_loopback

    if chosen.base_url and is_loopback(host_of(chosen.base_url.strip())):
        return FREE
    return list_price(chosen.provider, model)


def _way(chosen: LlmSettings, home: Path) -> tuple[str, Way]:
    """The model's name, and the way to it. Raises SettingsError, ModelError for what is missing."""
    if chosen.provider in BY_PROGRAM:
        return _by_program(chosen, home)
    return _by_service(chosen)


def _by_program(chosen: LlmSettings, home: Path) -> tuple[str, Way]:
    from mindhold.providers.llm.cli import ByProgram
    from mindhold.providers.llm.programs import PROGRAMS, environment

    program = PROGRAMS[chosen.provider]
    model = program.usual if chosen.model == "auto" else chosen.model
    if model.startswith("-"):
        raise SettingsError("llm.model is no model's name.", advice="Correct it.")
    key = chosen.gemini_key.strip() if chosen.provider == "gemini_cli" else ""
    return model, ByProgram(
        program,
        model=model,
        command=chosen.command,
        folder=home / FOLDER,
        environ=environment(program, surroundings(), key=key),
    )


def _by_service(chosen: LlmSettings) -> tuple[str, Way]:
    from mindhold.providers.llm.protocols import PROVIDERS
    from mindhold.providers.llm.services import ByService
    from mindhold.providers.remote.address import endpoint, host_of, is_loopback

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
    path = provider.protocol.path
    if path.startswith("/v1/"):  # its usual base has no version; one that has is meant the same
        base_url = base_url.strip().rstrip("/").removesuffix(path).removesuffix("/v1")
    address = endpoint(base_url, plain_http=chosen.plain_http, path=path, section="llm")
    key = _key(chosen)
    if provider.address and not key and not is_loopback(host_of(address)):
        setting = f"llm.{chosen.provider}_key"
        if origin_of(address) != origin_of(provider.address):
            raise ModelDenied(
                f"There is no key for {host_of(address)}: {setting} is empty, or that of another address.",
                advice="Make it llm.base_url, or ask it as compatible, with llm.compatible_key.",
            )
        raise ModelDenied(f"{setting} is empty: {provider.title} wants a key.", advice="Set it.")
    return model, ByService(provider, model=model, address=address, key=key)


def _key(chosen: LlmSettings) -> str:
    keys = {
        "anthropic": chosen.anthropic_key,
        "openai": chosen.openai_key,
        "compatible": chosen.compatible_key,
    }
    key = keys[chosen.provider].strip()
    if not key.isascii() or not key.isprintable():
        raise SettingsError(
            f"llm.{chosen.provider}_key holds characters that no key has.", advice="Copy it anew."
        )
    return key
