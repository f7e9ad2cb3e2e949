"""The embedding services that are known here: where they are, how they want to be asked, what their models take.

Limits and prices are what the services published; a setting overrides each that may have changed since.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mindhold.model.errors import SettingsError


@dataclass(frozen=True, slots=True)
class Dialect:
    """What a request says beside its model and its texts."""

    size: str = "dimensions"  # the field that asks for a length
    always: Mapping[str, Any] = field(default_factory=dict)
    text: Mapping[str, Any] = field(default_factory=dict)
    question: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ServiceModel:
    """One model. Tokens are counted by cl100k_base, with room for services that count otherwise."""

    dimensions: int = 0  # its own; 0 is unknown until the first call
    sizes: tuple[int, ...] = ()  # lengths that may be asked for; none: any up to its own
    window: int = 400  # most tokens of one text
    batch_tokens: int = 16_000
    price: float | None = None  # dollars a million tokens


@dataclass(frozen=True, slots=True)
class Provider:
    """A service, or a kind of service."""

    title: str
    address: str  # empty where the person must say it
    usual: str  # model; empty where the person must name it
    dialect: Dialect
    most_texts: int
    models: Mapping[str, ServiceModel] = field(default_factory=dict)
    other: ServiceModel = field(default_factory=ServiceModel)

    def model(self, name: str) -> ServiceModel:
        """What is known of a model; of one unheard of, what is safe."""
        return self.models.get(name, self.other)


def _openai(dimensions: int, price: float, *, sizes: tuple[int, ...] = ()) -> ServiceModel:
    return ServiceModel(dimensions, sizes=sizes, window=8_000, batch_tokens=280_000, price=price)


def _voyage(batch_tokens: int, price: float) -> ServiceModel:
    sizes = (256, 512, 1024, 2048)
    return ServiceModel(1024, sizes=sizes, window=16_000, batch_tokens=batch_tokens, price=price)


OPENAI = Provider(
    title="OpenAI",
    address="https://api.openai.com/v1",
    usual="text-embedding-3-small",
    dialect=Dialect(always={"encoding_format": "base64"}),
    most_texts=2_048,
    models={
        "text-embedding-3-small": _openai(1536, 0.02),
        "text-embedding-3-large": _openai(3072, 0.13),
        "text-embedding-ada-002": _openai(1536, 0.10, sizes=(1536,)),
    },
    other=ServiceModel(window=8_000, batch_tokens=280_000),
)

VOYAGE = Provider(
    title="Voyage",
    address="https://api.voyageai.com/v1",
    usual="voyage-3-large",
    dialect=Dialect(
        size="output_dimension",
        always={"encoding_format": "base64"},
        text={"input_type": "document"},
        question={"input_type": "query"},
    ),
    most_texts=1_000,
    models={
        "voyage-3-large": _voyage(75_000, 0.18),
        "voyage-3.5": _voyage(200_000, 0.06),
        "voyage-3.5-lite": _voyage(600_000, 0.02),
        "voyage-code-3": _voyage(75_000, 0.18),
        "voyage-4-large": _voyage(75_000, 0.12),
        "voyage-4": _voyage(200_000, 0.06),
        "voyage-4-lite": _voyage(600_000, 0.02),
    },
    other=ServiceModel(window=2_500, batch_tokens=75_000),
)

COMPATIBLE = Provider(
    title="The embedding service",
    address="",
    usual="",
    dialect=Dialect(),
    most_texts=2_048,
    other=ServiceModel(),  # it may be paid or not
)

PROVIDERS: Mapping[str, Provider] = {"openai": OPENAI, "voyage": VOYAGE, "compatible": COMPATIBLE}


def checked_size(model: ServiceModel, name: str, wanted: int) -> int:
    """The length to ask for; 0 leaves it to the service. Raises SettingsError where the model has no such length."""
    if not wanted or not model.dimensions or wanted == model.dimensions:
        return 0 if wanted == model.dimensions else wanted
    offered = model.sizes or (model.dimensions,)
    if wanted not in offered if model.sizes else wanted > model.dimensions:
        named = ", ".join(f"{size:,}" for size in offered) if model.sizes else f"at most {model.dimensions:,}"
        raise SettingsError(
            f"embedding.dimensions is {wanted:,}, and vectors of {name} have {named}.",
            advice="Correct it; 0 takes the model's own.",
        )
    return wanted
