"""Which language model the settings ask for: settings in, a model out. Nothing is asked from here."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from recollect.model.errors import ModelDenied, ModelError, ModelMissing, SettingsError
from recollect.ports.llm import OwnModel
from recollect.settings import surroundings
from recollect.settings.declared import Settings
from recollect.settings.llm import LlmSettings

if TYPE_CHECKING:
    from recollect.providers.llm.patient import Way

FOLDER = "programs"  # in the home folder: where the programs that are asked run


def language_model(settings: Settings) -> OwnModel | None:
    """None unless the person chose one; one that says what is missing where something is."""
    chosen = settings.llm
    if chosen.provider == "none":
        return None
    from recollect.providers.llm.patient import PatientModel, Unready  # for those who use one

    try:
        name, way = _way(chosen, settings.home)
    except SettingsError as error:
        return Unready(chosen.provider, ModelError(error.message, advice=error.advice))
    except ModelError as error:
        return Unready(chosen.provider, error)
    return PatientModel(
        f"{chosen.provider}:{name}", way, wait_seconds=chosen.wait_seconds, most_output=chosen.most_output
    )


def _way(chosen: LlmSettings, home: Path) -> tuple[str, Way]:
    """The model's name, and the way to it. Raises SettingsError, ModelError for what is missing."""
    if chosen.provider in ("claude_cli", "gemini_cli"):
        return _by_program(chosen, home)
    return _by_service(chosen)


def _by_program(chosen: LlmSettings, home: Path) -> tuple[str, Way]:
    from recollect.providers.llm.cli import ByProgram
    from recollect.providers.llm.programs import PROGRAMS, environment

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
    from recollect.providers.llm.protocols import PROVIDERS
    from recollect.providers.llm.services import ByService
    from recollect.providers.remote.address import endpoint, host_of, is_loopback

    provider = PROVIDERS[chosen.provider]
    base_url = chosen.base_url or provider.address
    if not base_url:
        raise SettingsError(
            "llm.base_url is empty: it says where the service is.",
            advice="Such as http://localhost:11434/v1.",
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
        raise ModelDenied(
            f"llm.{chosen.provider}_key is empty: {provider.title} wants a key.", advice="Set it."
        )
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
