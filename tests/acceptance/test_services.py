"""A service embeds what is remembered: stored, recalled, paid for, refused, adopted, away and back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from dwellings import houses_at, opened_at, store_at
from front_door import Open, at, everything, found, recall, remember, run, stored

from mindhold.app.application import App, open_app
from mindhold.jobs.queue import RUN_JOBS
from mindhold.lifecycle.status import DOCTOR, STATUS
from mindhold.memories.embedding import ADOPT_MODEL, EMBED_MISSING, EMBEDDER_CURSOR
from mindhold.memories.model_budget import LEDGER_NAMESPACE
from mindhold.memories.stats import STATS
from mindhold.model.errors import SettingsError, StoreAway
from mindhold.model.tokens import count_tokens
from mindhold.ports.backend import StoreRegistry
from mindhold.ports.embedder import Matrix
from mindhold.projects.projects import CREATE_PROJECT
from mindhold.providers.embedding.base import HashingEmbedder
from mindhold.settings.loader import LoadedSettings, load_settings
from mindhold.stores.registry import OpenStoreRegistry, opened_store
from support.paid_services import HANG, EmbeddingServer, ServiceFault, failing

KEY = "sk-a-key-that-nobody-must-see"
SMALL = "openai:text-embedding-3-small/1536"
FERRY = "The ferry to Oslo leaves at nine."


def hashed(texts: Sequence[str], length: int) -> Matrix:
    return HashingEmbedder(length).embed_now(texts)


@pytest.fixture
def server() -> Iterator[EmbeddingServer]:
    with EmbeddingServer(hashed, key=KEY) as server:
        yield server


@pytest.fixture
def served(opened: Open, server: EmbeddingServer) -> Open:
    """Mindhold with OpenAI's protocol spoken on this machine."""
    usual = {
        "embedding.provider": "openai",
        "embedding.openai_key": KEY,
        "embedding.base_url": server.url,
        "embedding.wait_seconds": 3,
    }
    return lambda **changes: opened(**(usual | changes))


async def adopted(app: App) -> int:
    """Adopt, and let the job run; how many memories have a vector of the model then."""
    await run(app, ADOPT_MODEL)
    await run(app, RUN_JOBS)
    return (await run(app, STATUS)).embedded


class TestAtWork:
    """All is well."""

    @pytest.mark.parametrize(
        ("changes", "name"),
        [
            ({}, SMALL),
            (
                {"embedding.model": "text-embedding-3-large", "embedding.dimensions": 1024},
                "openai:text-embedding-3-large/1024",
            ),
            (
                {
                    "embedding.provider": "voyage",
                    "embedding.voyage_key": KEY,
                    "embedding.dimensions": 512,
                },
                "voyage:voyage-3-large/512",
            ),
            (
                {
                    "embedding.provider": "compatible",
                    "embedding.compatible_key": KEY,
                    "embedding.model": "nomic-embed-text",
                },
                "compatible:nomic-embed-text",
            ),
        ],
    )
    async def test_store_and_recall(self, served: Open, changes: dict[str, Any], name: str) -> None:
        async with served(**changes) as app:
            ferry = await stored(app, FERRY)
            await stored(app, "Bread needs an hour in the oven.")
            answer = await recall(app, "When does the ferry leave for Oslo?")
            assert (answer.hits[0].id, answer.notice) == (ferry, "")
            assert answer.rung == f"full text + {name}"
            status = await run(app, STATUS)
            assert (status.model, status.embedded, status.memories) == (name, 2, 2)
            assert (await run(app, DOCTOR)).healthy

    async def test_a_second_start_asks_nothing_until_there_is_something_to_ask(
        self, served: Open, server: EmbeddingServer
    ) -> None:
        async with served() as app:
            await stored(app, FERRY)
        count = len(server.asked)
        server.stop()
        async with served() as app:
            status = await run(app, STATUS)
            assert (status.notice, status.embedded) == ("", 1)
            app.warm()
            server.start()
            await recall(app, "Oslo")
        assert len(server.asked) == count + 1, "the model was measured by the first"

    async def test_secrets_stay_here(self, served: Open, server: EmbeddingServer) -> None:
        token = "ghp_" + "a1B2" * 9
        async with served() as app:
            await remember(app, f"The deploy token is {token} and expires in May.")
            await recall(app, f"what is {token} for?")
        assert any("deploy token" in text for text in server.texts)
        assert token not in " ".join(server.texts)

    async def test_a_key_alone_changes_nothing(self, home: Any, server: EmbeddingServer) -> None:
        environ = {"OPENAI_API_KEY": KEY, "VOYAGE_API_KEY": KEY}
        loaded = load_settings({"home": home}, environ=environ)
        assert loaded.settings.embedding.provider == "local"
        assert loaded.settings.embedding.openai_key == KEY
        assert KEY not in str([info.value for info in loaded])


class TestLedger:
    """What it costs."""

    async def test_every_call_is_counted_with_its_tokens_and_dollars(
        self, served: Open, server: EmbeddingServer
    ) -> None:
        async with served(**{"embedding.price": 2.0}) as app:
            await stored(app, FERRY)
            server.meet(failing(500))
            await recall(app, "Oslo")
            spent = (await run(app, STATS)).services_today
            tokens = sum(map(count_tokens, server.texts)) - count_tokens("Oslo")
            assert (spent.calls, spent.failed, spent.tokens) == (4, 1, tokens)
            assert spent.dollars == pytest.approx(tokens * 2 / 1e6, abs=1e-6)
            status = await run(app, STATUS)
            assert (status.service_calls, status.service_tokens) == (4, tokens)
            assert (await run(app, STATS)).models_today.calls == 0
            await recall(app, "Oslo")
            assert (await run(app, STATUS)).service_calls == 4, "asked twice, paid once"
            tomorrow = at(app, app.engine.clock() + timedelta(days=1))
            assert (await run(tomorrow, STATUS)).service_calls == 0
        async with served() as again:
            await recall(again, "a question of another process")
            assert (await run(again, STATUS)).service_calls == 5

    async def test_a_line_a_process_and_hour_not_a_line_a_call(self, served: Open) -> None:
        async with served() as app:
            for number in range(5):
                await recall(app, f"question {number}")
            now = app.engine.clock()
            lines = await app.engine.store.entries(f"{LEDGER_NAMESPACE}{now:%Y-%m-%d}", now=now)
            assert 1 <= len(lines) <= 2
            assert sum(line.value["calls"] for line in lines) == 6

    async def test_a_spent_day_is_the_lexical_rung_said_aloud(
        self, served: Open, server: EmbeddingServer
    ) -> None:
        async with served(**{"embedding.daily_tokens": 500}) as app:
            ids = [
                await stored(app, f"{FERRY} Also on day {number}. {'Bring tea. ' * 8}") for number in range(9)
            ]
            answer = await recall(app, "ferry to Oslo")
            assert set(ids) & {hit.id for hit in answer.hits}
            assert "500 tokens" in answer.notice
            assert "embedding.daily_tokens" in answer.notice
            spent = (await run(app, STATS)).services_today
            assert 300 < spent.tokens <= 500
            assert sum(map(count_tokens, server.texts)) == spent.tokens
        async with served() as app:
            await run(app, RUN_JOBS)
            assert (await run(app, STATUS)).embedded == 9


class TestAdoption:
    """A service is not sent what others embedded unless the person agrees."""

    async def test_another_model_is_refused_with_the_command_that_fixes_it(
        self, opened: Open, served: Open, server: EmbeddingServer
    ) -> None:
        async with opened() as app:
            ferry = await stored(app, FERRY)
        async with served() as app:
            for notice in (
                (await run(app, STATUS)).notice,
                (await recall(app, "ferry to Oslo")).notice,
                (await remember(app, "The kettle is in the second cupboard.")).notice,
                (await run(app, EMBED_MISSING)).notice,
            ):
                assert "hashing-256" in notice
                assert SMALL in notice
                assert "mindhold models adopt" in notice
            assert await found(app, "ferry to Oslo") == [ferry]
            ran = await run(app, RUN_JOBS)
            assert not any(job.error for job in ran.ran)
            examined = await run(app, DOCTOR)
            assert not examined.healthy
            assert any("mindhold models adopt" in finding.advice for finding in examined.findings)
            assert server.asked == []

    async def test_adopting_tells_the_cost_and_mends_it(
        self, opened: Open, served: Open, server: EmbeddingServer
    ) -> None:
        async with opened() as app:
            for number in range(5):
                await stored(app, f"Crate {number} holds {number * 7} bolts.")
            tokens = sum(memory.tokens for memory in await everything(app))
        async with served() as app:
            quote = await run(app, ADOPT_MODEL, preview=True)
            assert (quote.model, quote.before, quote.queued) == (SMALL, "hashing-256", False)
            assert (quote.memories, quote.tokens) == (5, tokens)
            assert quote.dollars == pytest.approx(tokens * 0.02 / 1e6, abs=1e-6)
            assert server.asked == []
            assert await adopted(app) == 5
            assert (await recall(app, "How many bolts are in crate 3?")).notice == ""
        async with served() as app:
            assert (await run(app, STATUS)).notice == ""
            assert (await run(app, ADOPT_MODEL, preview=True)).memories == 0

    async def test_another_process_sees_it_without_a_restart(self, opened: Open, served: Open) -> None:
        async with opened() as app:
            await stored(app, FERRY)
        async with served() as server_process, served() as command:
            assert "adopt" in (await recall(server_process, "ferry to Oslo")).notice
            assert await adopted(command) == 1
            assert (await recall(server_process, "ferry to Oslo")).notice == ""

    async def test_another_length_is_another_model(self, served: Open, server: EmbeddingServer) -> None:
        async with served() as app:
            await stored(app, FERRY)
        count = len(server.asked)
        async with served(**{"embedding.dimensions": 256}) as app:
            notice = (await recall(app, "ferry to Oslo")).notice
            assert "1536" in notice
            assert "/256" in notice
            assert len(server.asked) == count
            assert await adopted(app) == 1

    async def test_texts_without_vectors_are_not_sent_unasked_either(
        self, opened: Open, served: Open, server: EmbeddingServer
    ) -> None:
        async with opened(**{"embedding.provider": "none"}) as app:
            await stored(app, FERRY)
        async with served() as app:
            assert "no vectors" in (await run(app, STATUS)).notice
            await run(app, RUN_JOBS)
            assert server.asked == []

    async def test_an_empty_store_needs_no_adoption(self, opened: Open, served: Open) -> None:
        async with opened() as app:
            assert await app.engine.store.cursor(EMBEDDER_CURSOR) == "hashing-256"
        async with served() as app:
            await stored(app, FERRY)
            assert (await run(app, STATUS)).embedded == 1

    async def test_back_to_a_local_model_is_automatic(self, opened: Open, served: Open) -> None:
        async with served() as app:
            await stored(app, FERRY)
        async with opened() as app:
            await run(app, RUN_JOBS)
            assert (await run(app, STATUS)).embedded == 1

    async def test_a_model_that_takes_over_meanwhile_shuts_it_out_again(
        self, opened: Open, served: Open, server: EmbeddingServer
    ) -> None:
        async with served(**{"embedding.cache_size": 0}) as process:
            await stored(process, FERRY)
            async with opened() as other:  # with other settings
                await run(other, RUN_JOBS)
            count = len(server.asked)
            assert "mindhold models adopt" in (await run(process, EMBED_MISSING)).notice
            assert "mindhold models adopt" in (await recall(process, "ferry to Oslo")).notice
            assert len(server.asked) == count
            assert await adopted(process) == 1


class TestOtherStores:
    """Projects that live elsewhere: what is there is not sent unasked either."""

    @pytest.fixture
    def addresses(self, tmp_path: Path) -> dict[str, str]:
        return {mode: str(tmp_path / f"{mode}.db") for mode in ("local", "postgres")}

    @pytest.fixture
    def settings(self, home: Path, server: EmbeddingServer) -> LoadedSettings:
        given = {
            "home": home,
            "time_zone": "UTC",
            "embedding.provider": "openai",
            "embedding.openai_key": KEY,
            "embedding.base_url": server.url,
            "embedding.wait_seconds": 3,
        }
        return load_settings(given, environ={})

    async def test_a_store_that_is_away_keeps_the_gate_closed(
        self, home: Path, addresses: dict[str, str], settings: LoadedSettings, server: EmbeddingServer
    ) -> None:
        async with opened_at(home, addresses) as app:
            await run(app, CREATE_PROJECT, name="shop", storage_mode="postgres")
            await stored(app, FERRY, scope="shop")
        async with open_app(settings, store_registry=_without_postgres(addresses)) as app:
            assert "can't be told" in (await remember(app, "The kettle is in the cupboard.")).notice
            with pytest.raises(StoreAway):
                await run(app, ADOPT_MODEL)
        async with open_app(settings, store_registry=houses_at(addresses)) as app:
            await run(app, RUN_JOBS)
            assert server.asked == []
            assert await adopted(app) == 2

    async def test_a_shared_project_that_is_joined_is_not_sent(
        self, home: Path, addresses: dict[str, str], settings: LoadedSettings, server: EmbeddingServer
    ) -> None:
        theirs = {**addresses, "local": str(home.parent / "theirs.db")}
        async with opened_at(home.parent / "theirs", theirs) as app:
            await run(app, CREATE_PROJECT, name="shop", storage_mode="postgres")
            for number in range(70):  # more than a batch
                await stored(app, f"Crate {number} holds {number * 7} bolts.", scope="shop")
        async with open_app(settings, store_registry=houses_at(addresses)) as app:
            await run(app, CREATE_PROJECT, name="shop", storage_mode="postgres")
            server.meet(failing(401))
            assert (await remember(app, FERRY, scope="shop")).notice
        async with open_app(settings, store_registry=houses_at(addresses)) as app:
            await run(app, RUN_JOBS)
            assert FERRY in server.texts, "what was stored here is"
            assert not [text for text in server.texts if "Crate" in text]
            assert (await run(app, ADOPT_MODEL, preview=True)).memories == 70
            assert await adopted(app) == 71


class TestAway:
    """The service fails; Mindhold doesn't."""

    @pytest.mark.parametrize("fault", [None, HANG, failing(500), failing(401)])
    async def test_lexical_with_a_notice_and_caught_up_later(
        self, served: Open, server: EmbeddingServer, fault: ServiceFault | None
    ) -> None:
        async with served() as app:
            await stored(app, "Bread needs an hour in the oven.")
            if fault is None:
                server.stop()
            server.always(fault)
            ferry = await remember(app, FERRY)
            assert ferry.created
            assert "OpenAI" in ferry.notice
            count = len(server.asked)
            for _ in range(3):
                answer = await recall(app, "ferry to Oslo")
                assert [hit.id for hit in answer.hits] == [ferry.id]
                assert answer.notice.startswith("Recalled by full text only. OpenAI")
                assert KEY not in answer.notice
            assert len(server.asked) == count, "a dead service is left alone for a while"
            assert (await run(app, STATUS)).rung == "full text"
        server.always(None)
        if not server.running:
            server.start()
        async with served() as app:
            await run(app, RUN_JOBS)
            assert (await run(app, STATUS)).embedded == 2
            assert (await recall(app, "ferry to Oslo")).notice == ""

    @pytest.mark.parametrize(
        ("variable", "value"),
        [
            ("ALL_PROXY", "socks9://someone:swordfish@127.0.0.1:9"),
            ("SSL_CERT_FILE", "no such file.pem"),
        ],
    )
    async def test_what_the_environment_says_about_networks_may_be_wrong(
        self, served: Open, monkeypatch: pytest.MonkeyPatch, variable: str, value: str
    ) -> None:
        monkeypatch.setenv(variable, value)
        async with served(**{"embedding.base_url": "https://localhost.example/v1"}) as app:
            app.warm()
            answer = await remember(app, FERRY)
            assert answer.created
            assert variable in answer.notice
            assert "swordfish" not in answer.notice
            assert [hit.id for hit in (await recall(app, "ferry to Oslo")).hits] == [answer.id]

    async def test_a_service_with_other_vectors_than_it_should_have(
        self, served: Open, server: EmbeddingServer
    ) -> None:
        async with served() as app:
            await stored(app, FERRY)
            server.always(ServiceFault(length=768))
            answer = await recall(app, "ferry to Oslo")
            assert "768" in answer.notice
            assert "mindhold models adopt" in answer.notice
            assert len(answer.hits) == 1


class TestSettings:
    """What can't work is said before anything is sent."""

    @pytest.mark.parametrize(
        ("changes", "words"),
        [
            ({"embedding.openai_key": "", "embedding.base_url": ""}, "embedding.openai_key is empty"),
            ({"embedding.provider": "compatible", "embedding.base_url": ""}, "embedding.base_url is empty"),
            ({"embedding.provider": "compatible"}, "embedding.model is auto"),
        ],
    )
    async def test_what_is_missing(self, served: Open, changes: dict[str, Any], words: str) -> None:
        async with served(**changes) as app:
            assert words in (await remember(app, FERRY)).notice
            assert words in (await recall(app, "ferry to Oslo")).notice

    @pytest.mark.parametrize(
        ("changes", "words"),
        [
            ({"embedding.base_url": "http://10.0.0.5/v1"}, "plain http"),
            ({"embedding.base_url": "nowhere"}, "no address"),
            ({"embedding.base_url": "https://exam\u200bple.com/v1"}, "no address has"),
            ({"embedding.dimensions": 3072}, "at most 1,536"),
            ({"embedding.openai_key": "sk-\u200bcopied"}, "characters that no key has"),
        ],
    )
    async def test_what_is_wrong(
        self, served: Open, changes: dict[str, Any], words: str, load: Callable[..., Any]
    ) -> None:
        with pytest.raises(SettingsError, match=words):
            async with served(**changes):
                pass

    async def test_a_service_on_this_machine_needs_no_key(self, opened: Open) -> None:
        with EmbeddingServer(hashed, dimensions=768) as server:
            changes = {
                "embedding.provider": "compatible",
                "embedding.base_url": server.url,
                "embedding.model": "nomic-embed-text",
            }
            async with opened(**changes) as app:
                await stored(app, FERRY)
                assert (await run(app, STATUS)).embedded == 1
                assert (await run(app, STATS)).services_today.dollars == 0
            assert {asked.key for asked in server.asked} == {""}


def _without_postgres(addresses: dict[str, str]) -> StoreRegistry:
    def away() -> Any:
        raise StoreAway("It is away.")

    return OpenStoreRegistry(
        "local", {"local": lambda: opened_store(store_at(addresses["local"])), "postgres": away}
    )
