"""The ladder of language models: who stands on it by the settings, what each costs, and what is said where none answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mindhold.app.providers import language_model
from mindhold.model.errors import ModelAway, ModelDenied, ModelError
from mindhold.ports.llm import FREE, FallbackModel, ModelLevel, ModelPrice, levels_of
from mindhold.providers.llm.services import list_price
from mindhold.settings.loader import load_settings
from mindhold.settings.schema import Settings
from support.paid_services import LanguageServer


class Model:
    """Answers with its name, or fails."""

    def __init__(self, name: str, error: ModelError | None = None) -> None:
        self.name = name
        self._error = error

    async def complete(self, prompt: str, *, system: str, most_tokens: int) -> str:
        if self._error is not None:
            raise self._error
        return self.name


def settings_of(home: Path, **chosen: Any) -> Settings:
    given = {f"llm.{name}": value for name, value in chosen.items()}
    return load_settings({"home": home} | given, environ={}).settings


def rungs(home: Path, **chosen: Any) -> tuple[ModelLevel, ...]:
    ladder = language_model(settings_of(home, **chosen))
    return ladder.rungs if ladder else ()


def names(home: Path, **chosen: Any) -> list[str]:
    return [rung.model.name for rung in rungs(home, **chosen)]


async def asked(*models: Model) -> str:
    return await FallbackModel([ModelLevel(model) for model in models]).complete(
        "Hello", system="", most_tokens=10
    )


class TestAsking:
    async def test_the_first_that_answers(self) -> None:
        away = ModelAway("It is away.")
        assert await asked(Model("one"), Model("two")) == "one"
        assert await asked(Model("one", away), Model("two", away), Model("three")) == "three"

    async def test_each_failure_is_told(self) -> None:
        with pytest.raises(ModelDenied) as failed:
            await asked(
                Model("one", ModelDenied("No key.")), Model("two", ModelAway("Away.", advice="Wait."))
            )
        assert str(failed.value) == "No language model answered. one: No key. two: Away. Wait."

    async def test_the_same_failure_is_told_once(self) -> None:
        with pytest.raises(ModelAway, match=r"\AAway\.\Z"):
            await asked(Model("one", ModelAway("Away.")), Model("two", ModelAway("Away.")))

    def test_a_model_of_another_kind_stands_alone_and_is_free(self) -> None:
        [rung] = levels_of(Model("the client's model"))
        assert rung.tariff is FREE


class TestChoice:
    def test_without_a_provider_nobody_is_asked(self, tmp_path: Path) -> None:
        assert names(tmp_path, fallback="claude_cli, gemini_cli") == []

    def test_in_order_and_each_once(self, tmp_path: Path) -> None:
        ladder = "gemini_cli, claude_cli:haiku, compatible:qwen3:8b@http://localhost:11434/v1"
        assert names(tmp_path, provider="claude_cli", fallback=ladder) == [
            "claude_cli:haiku",
            "gemini_cli:gemini-2.5-flash",
            "compatible:qwen3:8b",
        ]

    def test_model_and_address_are_the_providers_own(self, tmp_path: Path) -> None:
        chosen = {"model": "local", "base_url": "http://localhost:9/v1", "anthropic_key": "k"}
        found = rungs(tmp_path, provider="compatible", fallback="anthropic, compatible", **chosen)
        assert [rung.model.name for rung in found] == [
            "compatible:local",
            "anthropic:claude-haiku-4-5",
            "compatible",
        ]
        assert [bool(rung.missing) for rung in found] == [False, False, True]
        assert "llm.fallback, compatible: llm.base_url is empty" in found[2].missing

    @pytest.mark.parametrize(
        ("chosen", "given"),
        [
            ({"provider": "compatible", "base_url": "http://127.0.0.1:9/v1", "model": "m"}, ""),
            ({"provider": "claude_cli"}, "k"),  # it can be meant for nobody else
        ],
    )
    async def test_a_key_goes_to_nobody_but_whom_it_was_set_for(
        self, tmp_path: Path, chosen: dict[str, Any], given: str
    ) -> None:
        with LanguageServer(lambda _system, _prompt: "Hello") as server:
            fallback = f"compatible:other@{server.url}/v1"
            given_all = {**chosen, "compatible_key": "k", "fallback": fallback}
            ladder = language_model(settings_of(tmp_path, **given_all))
            assert ladder is not None
            model = ladder.rungs[1].model
            assert await model.complete("Hello", system="", most_tokens=10) == "Hello"
            await ladder.close()
            assert [asked.key for asked in server.asked] == [given]

    def test_a_fallback_elsewhere_says_that_it_has_no_key(self, tmp_path: Path) -> None:
        elsewhere = "anthropic:a@https://other.example, anthropic:b@https://api.anthropic.com"
        found = rungs(tmp_path, provider="claude_cli", fallback=elsewhere, anthropic_key="k")
        assert "There is no key for other.example" in found[1].missing
        assert found[2].missing == ""

    async def test_all_are_closed(self, tmp_path: Path) -> None:
        settings = load_settings(
            {"home": tmp_path, "llm.provider": "openai", "llm.fallback": "claude_cli"}, environ={}
        ).settings
        ladder = language_model(settings)
        assert ladder is not None
        await ladder.close()
        await ladder.close()


class TestPrices:
    @pytest.mark.parametrize(
        ("provider", "model", "price"),
        [
            ("anthropic", "claude-haiku-4-5", ModelPrice(1.0, 5.0)),
            ("anthropic", "claude-haiku-4-5-20251001", ModelPrice(1.0, 5.0)),
            ("openai", "gpt-4.1-mini", ModelPrice(0.4, 1.6)),
            ("openai", "gpt-4.1-mini-2025-04-14", ModelPrice(0.4, 1.6)),
            ("openai", "gpt-5-pro", None),
            ("openai", "claude-haiku-4-5", None),
            ("anthropic", "claude-of-tomorrow", None),
            ("compatible", "gpt-4.1-mini", None),
        ],
    )
    def test_the_list(self, provider: str, model: str, price: ModelPrice | None) -> None:
        assert list_price(provider, model) == price

    def test_the_usual_models_have_one(self, tmp_path: Path) -> None:
        for provider in ("anthropic", "openai"):
            [rung] = rungs(tmp_path, provider=provider, **{f"{provider}_key": "k"})
            assert rung.tariff is not None
            assert rung.tariff.dollars(1_000_000, 1_000_000) > 0

    @pytest.mark.parametrize(
        ("chosen", "price"),
        [
            ({"provider": "claude_cli"}, FREE),
            ({"provider": "gemini_cli"}, FREE),
            ({"provider": "compatible", "model": "m", "base_url": "http://127.0.0.1:9/v1"}, FREE),
            ({"provider": "compatible", "model": "m", "base_url": "https://example.org/v1"}, None),
            (
                {
                    "provider": "compatible",
                    "model": "m",
                    "base_url": "https://example.org/v1",
                    "price_in": 1.0,
                },
                None,
            ),
            (
                {
                    "provider": "compatible",
                    "model": "m",
                    "base_url": "https://example.org/v1",
                    "price_in": 1.0,
                    "price_out": 2.0,
                },
                ModelPrice(1.0, 2.0),
            ),
            ({"provider": "anthropic", "anthropic_key": "k", "price_out": 7.0}, ModelPrice(1.0, 7.0)),
            ({"provider": "claude_cli", "price_in": 3.0}, ModelPrice(3.0, 0.0)),
        ],
    )
    def test_what_the_person_says_else_what_is_known(
        self, tmp_path: Path, chosen: dict[str, Any], price: ModelPrice | None
    ) -> None:
        [rung] = rungs(tmp_path, **chosen)
        assert rung.tariff == price

    def test_a_price_holds_for_fallbacks_that_have_none(self, tmp_path: Path) -> None:
        found = rungs(
            tmp_path,
            provider="openai",
            openai_key="k",
            anthropic_key="k",
            price_in=1.0,
            price_out=2.0,
            fallback="anthropic, claude_cli, compatible:m@https://example.org/v1",
        )
        assert [rung.tariff for rung in found] == [
            ModelPrice(1.0, 2.0),
            ModelPrice(1.0, 5.0),
            FREE,
            ModelPrice(1.0, 2.0),
        ]
