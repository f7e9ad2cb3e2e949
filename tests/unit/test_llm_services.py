"""Language models behind a network: two protocols over real sockets, their faults, and the key that nobody sees."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from mindhold.app.providers import language_model
from mindhold.model.errors import ModelAway, ModelBroken, ModelDenied, ModelError, ModelMissing
from mindhold.providers.llm.services import PROVIDERS, RetryModel, ServiceTransport
from mindhold.providers.remote_service import Timing, endpoint
from mindhold.settings.loader import load_settings
from support.paid_services import (
    CHAT,
    DROP,
    HANG,
    MESSAGES,
    LanguageServer,
    ServiceFault,
    TruncatedAnswer,
    failing,
    limited,
)

KEY = "sk-a-key-that-nobody-must-see"
MODELS = {"anthropic": "claude-haiku-4-5", "openai": "gpt-4.1-mini", "compatible": "qwen3"}


@dataclass
class Hours:
    """Time that passes when somebody sleeps, and when it is told to."""

    now: float = 1_000.0
    slept: list[float] = field(default_factory=list)

    @property
    def timing(self) -> Timing:
        return Timing(now=lambda: self.now, sleep=self._sleep, jitter=lambda: 0.5)

    async def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds
        await asyncio.sleep(0)


@pytest.fixture
def server() -> Iterator[LanguageServer]:
    with LanguageServer(lambda _system, prompt: f"You said {prompt}", key=KEY) as server:
        yield server


@pytest.fixture
def hours() -> Hours:
    return Hours()


Make = Callable[..., RetryModel]


@pytest.fixture
async def make(server: LanguageServer, hours: Hours) -> AsyncIterator[Make]:
    made: list[RetryModel] = []

    def model(provider: str = "anthropic", *, key: str = KEY, wait: float = 30.0) -> RetryModel:
        chosen = PROVIDERS[provider]
        base = server.url if provider == "anthropic" else f"{server.url}/v1"
        address = endpoint(base, plain_http=False, path=chosen.api.path, section="llm")
        way = ServiceTransport(chosen, model=MODELS[provider], address=address, key=key)
        made.append(RetryModel(provider, way, wait_seconds=wait, most_output=500, timing=hours.timing))
        return made[-1]

    yield model
    for one in made:
        await one.close()


async def asked(model: RetryModel, prompt: str = "hello", most_tokens: int = 100) -> str:
    return await model.complete(prompt, system="You repeat.", most_tokens=most_tokens)


@pytest.fixture(params=MODELS)
def model(request: pytest.FixtureRequest, make: Make) -> RetryModel:
    """Each provider's."""
    return make(request.param)


class TestAnswers:
    async def test_it_answers(self, model: RetryModel, server: LanguageServer) -> None:
        assert await asked(model, "안녕 <b>\n\ud800") == "You said 안녕 <b>\n�"
        [request] = server.asked
        assert (request.system, request.key) == ("You repeat.", KEY)
        assert request.body["model"] == MODELS[model.name]

    async def test_each_protocol_in_its_own_words(self, make: Make, server: LanguageServer) -> None:
        for provider in MODELS:
            await asked(make(provider))
        by_anthropic, by_openai, by_others = server.asked
        assert (by_anthropic.path, by_anthropic.headers["x-api-key"]) == (MESSAGES, KEY)
        assert by_anthropic.headers["anthropic-version"] == "2023-06-01"
        assert "authorization" not in by_anthropic.headers
        assert (by_openai.path, by_openai.body["max_completion_tokens"]) == (CHAT, 100)
        assert by_others.body["max_tokens"] == 100
        assert by_others.body["temperature"] == 0

    async def test_an_answer_is_never_longer_than_allowed(self, make: Make, server: LanguageServer) -> None:
        await asked(make(), most_tokens=5_000)
        assert server.asked[0].body["max_tokens"] == 500

    @pytest.mark.parametrize("reason", ["max_tokens", "length", "refusal", "content_filter", "tool_use"])
    async def test_a_cut_answer_is_none(self, model: RetryModel, server: LanguageServer, reason: str) -> None:
        server.meet(TruncatedAnswer(reason))
        with pytest.raises(ModelError, match="gave no answer") as failed:
            await asked(model)
        assert "beg" not in str(failed.value)
        assert await asked(model) == "You said hello", "one bad answer says nothing about the next"

    async def test_an_empty_answer_is_none(self, model: RetryModel, server: LanguageServer) -> None:
        server.meet(TruncatedAnswer("", text=" \n"))
        with pytest.raises(ModelError, match="empty answer"):
            await asked(model)

    @pytest.mark.parametrize(
        "body",
        [
            b"",
            b"<html>hello</html>",
            b"[]",
            b"null",
            b"{}",
            b"[" * 100_000,
            b'{"content": "text", "choices": "text", "stop_reason": "end_turn"}',
            b'{"content": [{"type": "text", "text": 5}], "choices": [5], "stop_reason": "end_turn"}',
            b'{"content": [{"type": "text"}], "choices": [{"message": {"content": 5}}], "stop_reason": "end_turn"}',
            b'{"content": null, "choices": []}',
            b"\xff\xfe\xfa",
        ],
    )
    async def test_what_is_no_answer_at_all(
        self, model: RetryModel, server: LanguageServer, body: bytes
    ) -> None:
        server.meet(ServiceFault(200, body=body))
        with pytest.raises(ModelError):
            await asked(model)

    async def test_an_endless_answer_ends(self, make: Make, server: LanguageServer) -> None:
        server.meet(ServiceFault(200, body=b" " * (5 * 1024 * 1024)))
        with pytest.raises(ModelBroken, match="without end"):
            await asked(make())


class TestFaults:
    async def test_what_passes_is_tried_again(
        self, model: RetryModel, server: LanguageServer, hours: Hours
    ) -> None:
        server.meet(failing(500), failing(529))
        assert await asked(model) == "You said hello"
        assert hours.slept == [0.375, 0.75]

    async def test_a_limit_is_respected(
        self, model: RetryModel, server: LanguageServer, hours: Hours
    ) -> None:
        server.meet(limited("8"))
        assert await asked(model) == "You said hello"
        assert hours.slept == [9.0]

    async def test_a_limit_beyond_the_patience_is_not_waited_for(
        self, model: RetryModel, server: LanguageServer, hours: Hours
    ) -> None:
        server.meet(limited("120"))
        with pytest.raises(ModelAway, match="no more calls"):
            await asked(model)
        hours.now += 119
        with pytest.raises(ModelAway):
            await asked(model)
        assert (hours.slept, len(server.asked)) == ([], 1)
        hours.now += 2
        assert await asked(model) == "You said hello"

    @pytest.mark.parametrize("fault", [failing(500), DROP, limited()])
    async def test_a_dead_service_costs_its_wait_once(
        self, model: RetryModel, server: LanguageServer, hours: Hours, fault: ServiceFault
    ) -> None:
        server.always(fault)
        for _ in range(10):
            with pytest.raises(ModelAway):
                await asked(model)
        assert len(server.asked) == 3
        hours.now += 5
        with pytest.raises(ModelAway):
            await asked(model)
        assert len(server.asked) == 4, "one tries whether it is back"
        server.always(None)
        hours.now += 10
        assert await asked(model) == "You said hello"

    async def test_silence_is_not_waited_for_without_end(self, make: Make, server: LanguageServer) -> None:
        server.meet(HANG)
        with pytest.raises(ModelAway, match="didn't answer"):
            await asked(make(wait=0.2))

    async def test_nobody_there(self, model: RetryModel, server: LanguageServer) -> None:
        server.stop()
        with pytest.raises(ModelAway, match="can't be reached"):
            await asked(model)

    @pytest.mark.parametrize("status", [401, 402, 403])
    async def test_a_refused_key(self, make: Make, server: LanguageServer, status: int) -> None:
        server.always(failing(status, message=f"Incorrect API key provided: {KEY}"))
        model = make()
        for _ in range(3):
            with pytest.raises(ModelDenied) as failed:
                await asked(model)
            assert KEY not in str(failed.value)
        assert len(server.asked) == 1

    async def test_a_missing_model(self, make: Make, server: LanguageServer) -> None:
        server.meet(failing(404))
        with pytest.raises(ModelMissing, match="claude-haiku-4-5"):
            await asked(make())

    async def test_one_refused_call_says_nothing_about_the_next(
        self, make: Make, server: LanguageServer
    ) -> None:
        server.meet(failing(400, message="prompt is too long"))
        model = make()
        with pytest.raises(ModelBroken, match="prompt is too long"):
            await asked(model)
        assert await asked(model) == "You said hello"

    async def test_redirects_are_not_followed(self, make: Make, server: LanguageServer) -> None:
        server.meet(ServiceFault(302, {"Location": "http://127.0.0.1:9/"}))
        with pytest.raises(ModelBroken, match="elsewhere"):
            await asked(make())


async def test_the_key_is_nowhere(
    make: Make, server: LanguageServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    told: list[str] = []
    for fault in (failing(400, message=f"bad {KEY}"), failing(500, message=KEY), failing(401, message=KEY)):
        model = make()
        server.always(fault)
        with pytest.raises(ModelError) as failed:
            await asked(model)
        told += [repr(model), str(failed.value), repr(failed.value), str(vars(failed.value))]
    assert KEY not in "".join(told) + caplog.text


class TestChoice:
    """From settings."""

    def chosen(self, home: Path, **changes: Any) -> Any:
        given = {f"llm.{name}": value for name, value in changes.items()}
        return language_model(load_settings({"home": home} | given, environ={}).settings)

    def test_nobody_is_asked_unless_chosen(self, tmp_path: Path) -> None:
        assert self.chosen(tmp_path) is None
        keys = {"ANTHROPIC_API_KEY": "a", "OPENAI_API_KEY": "b", "GEMINI_API_KEY": "c"}
        loaded = load_settings({"home": tmp_path}, environ=keys).settings
        assert language_model(loaded) is None, "a key alone chooses nothing"
        assert (loaded.llm.anthropic_key, loaded.llm.openai_key, loaded.llm.gemini_key) == ("a", "b", "c")
        assert "'a'" not in repr(loaded)

    @pytest.mark.parametrize(
        ("provider", "version"),
        [("anthropic", ""), ("anthropic", "/v1"), ("anthropic", "/v1/messages"), ("openai", "/v1/")],
    )
    async def test_an_address_of_ones_own(
        self, tmp_path: Path, server: LanguageServer, provider: str, version: str
    ) -> None:
        model = self.chosen(
            tmp_path, provider=provider, base_url=server.url + version, **{f"{provider}_key": f" {KEY}\n"}
        )
        assert await asked(model) == "You said hello"
        assert model.name == f"{provider}:{MODELS[provider]}"
        await model.close()

    async def test_a_named_model(self, tmp_path: Path, server: LanguageServer) -> None:
        model = self.chosen(
            tmp_path,
            provider="compatible",
            model="qwen3",
            base_url=f"{server.url}/v1",
            compatible_key=KEY,
        )
        await asked(model)
        assert (model.name, server.asked[0].body["model"]) == ("compatible:qwen3", "qwen3")
        await model.close()

    @pytest.mark.parametrize(
        ("changes", "said"),
        [
            ({"provider": "anthropic"}, "anthropic_key is empty"),
            ({"provider": "openai"}, "openai_key is empty"),
            ({"provider": "compatible", "model": "any"}, "base_url is empty"),
            ({"provider": "compatible", "base_url": "http://localhost:9/v1"}, "llm.model is auto"),
            ({"provider": "openai", "base_url": "http://example.org/v1"}, "plain http"),
            ({"provider": "openai", "base_url": "ftp://example.org"}, "llm.base_url is no address"),
            ({"provider": "anthropic", "anthropic_key": "kéy"}, "characters that no key has"),
            ({"provider": "claude_cli", "model": "--mcp-config"}, "no model's name"),
        ],
    )
    async def test_what_is_missing_is_said_when_it_is_asked(
        self, tmp_path: Path, changes: dict[str, Any], said: str
    ) -> None:
        model = self.chosen(tmp_path, **changes)
        for _ in range(2):
            with pytest.raises(ModelError, match=said):
                await asked(model)
        await model.close()

    def test_plain_http_by_consent(self, tmp_path: Path) -> None:
        chosen = {"provider": "openai", "openai_key": KEY, "base_url": "http://192.0.2.1/v1"}
        assert self.chosen(tmp_path, **chosen).name == "openai", "it can't be asked"
        assert self.chosen(tmp_path, **chosen, plain_http=True).name == "openai:gpt-4.1-mini"


def test_a_whole_answer_is_read_block_by_block() -> None:
    blocks = [
        {"type": "thinking", "thinking": "hm"},
        {"type": "text", "text": "one "},
        {"type": "text", "text": "two"},
    ]
    document = {"content": blocks, "stop_reason": "end_turn"}
    assert PROVIDERS["anthropic"].api.read(json.loads(json.dumps(document))) == "one two"
