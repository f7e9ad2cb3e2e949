"""Embedders behind a network, against the contract and against a service that fails in every way."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import numpy as np
import pytest

from mindhold.model.errors import (
    ModelAway,
    ModelBroken,
    ModelDenied,
    ModelError,
    ModelMismatch,
    ModelMissing,
    SettingsError,
)
from mindhold.model.tokens import count_tokens
from mindhold.ports.embedder import Matrix, ServiceModelTraits, Usage
from mindhold.providers.embedding.base import (
    UNRELATED_QUESTIONS,
    UNRELATED_STATEMENTS,
    HashingEmbedder,
    measure_unrelated,
)
from mindhold.providers.embedding.services import (
    PROVIDERS,
    BatchLimits,
    Service,
    ServiceEmbedder,
    pack_batches,
    parse_reply,
    requested_size,
    split_text,
)
from mindhold.providers.remote_service import Timing, endpoint, retry_after
from mindhold.testing.providers_contract import EmbedderContract
from support.paid_services import DROP, HANG, EmbeddingServer, ServiceFault, failing, limited

KEY = "sk-a-key-that-nobody-must-see"
NO_ONE = "http://127.0.0.1:9/v1"


def hashed(texts: Sequence[str], length: int) -> Matrix:
    return HashingEmbedder(length).embed_now(texts)


@dataclass
class Notebook:
    """A book in memory."""

    kept: ServiceModelTraits | None = None
    used: list[Usage] = field(default_factory=list)
    most: int = 0  # tokens in all; 0 is no cap

    async def traits(self) -> ServiceModelTraits | None:
        return self.kept

    async def keep_traits(self, traits: ServiceModelTraits) -> None:
        self.kept = traits

    async def reserve(self, tokens: int) -> None:
        if self.most and sum(used.tokens for used in self.used) + tokens > self.most:
            raise ModelAway("The day's tokens are spent.")

    async def settle(self, used: Usage, *, reserved: int) -> None:
        if used.calls:
            self.used.append(used)


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


def place(base: str, *, plain_http: bool) -> str:
    return endpoint(base, plain_http=plain_http, path="/embeddings", section="embedding")


def service(base: str, provider: str = "openai", **changes: Any) -> Service:
    known = PROVIDERS[provider]
    model = changes.pop("model", known.usual or "nomic-embed-text")
    made = Service(
        provider=provider,
        title=known.title,
        model=model,
        address=place(base, plain_http=False),
        request_format=known.request_format,
        key=KEY,
        dimensions=known.model(model).dimensions,
    )
    return replace(made, **changes)


@pytest.fixture
def server() -> Iterator[EmbeddingServer]:
    with EmbeddingServer(hashed, key=KEY) as server:
        yield server


@pytest.fixture
def hours() -> Hours:
    return Hours()


@pytest.fixture
def book() -> Notebook:
    """One in which the model was measured already."""
    return Notebook(ServiceModelTraits(1536, HashingEmbedder().unrelated))


@pytest.fixture
async def embedder(server: EmbeddingServer, book: Notebook, hours: Hours) -> Any:
    made = ServiceEmbedder(service(server.url), book, timing=hours.timing)
    yield made
    await made.close()


class ServiceContract(EmbedderContract):
    semantic = False
    provider: str
    size = 0

    @pytest.fixture
    async def embedder(self, server: EmbeddingServer) -> Any:
        length = self.size or PROVIDERS[self.provider].model(PROVIDERS[self.provider].usual).dimensions
        chosen = service(server.url, self.provider, size=self.size)
        made = ServiceEmbedder(replace(chosen, dimensions=length), Notebook())
        yield made
        await made.close()


class TestOpenAI(ServiceContract):
    provider = "openai"


class TestOpenAIShortened(ServiceContract):
    provider = "openai"
    size = 256


class TestVoyage(ServiceContract):
    provider = "voyage"
    size = 1024


class TestCompatible(ServiceContract):
    provider = "compatible"
    size = 512


class TestRequests:
    """What is sent."""

    async def test_openai(self, server: EmbeddingServer, book: Notebook) -> None:
        made = ServiceEmbedder(service(server.url, size=512), replace(book, kept=None))
        await made.embed(["a text"])
        assert made.name == "openai:text-embedding-3-small/512"
        assert server.asked[-1].body == {
            "model": "text-embedding-3-small",
            "input": ["a text"],
            "dimensions": 512,
            "encoding_format": "base64",
        }
        await made.close()

    async def test_voyage_tells_questions_from_texts(self, server: EmbeddingServer) -> None:
        made = ServiceEmbedder(service(server.url, "voyage", size=1024, dimensions=1024), Notebook())
        await made.embed(["a text"])
        assert server.asked[-1].body["input_type"] == "document"
        await made.embed_query("a question")
        body = server.asked[-1].body
        assert (body["model"], body["input_type"], body["output_dimension"]) == (
            "voyage-3-large",
            "query",
            1024,
        )
        await made.close()

    async def test_a_compatible_one_is_told_no_more_than_it_must(self, server: EmbeddingServer) -> None:
        made = ServiceEmbedder(service(server.url, "compatible"), Notebook())
        with pytest.raises(ModelAway):
            _ = made.dimensions
        await made.embed(["a text"])
        assert (made.dimensions, made.name) == (1536, "compatible:nomic-embed-text")
        assert server.asked[-1].body == {"model": "nomic-embed-text", "input": ["a text"]}
        await made.close()

    async def test_batches_are_bounded_both_ways_and_keep_the_order(
        self, server: EmbeddingServer, book: Notebook
    ) -> None:
        bounds = BatchLimits(batch=4, batch_tokens=60, window=50)
        made = ServiceEmbedder(service(server.url), book, limits=bounds)
        texts = [f"note {number} " * (1 + 7 * (number % 3)) for number in range(20)]
        vectors = await made.embed(texts)
        np.testing.assert_allclose(vectors, hashed(texts, 1536), atol=1e-6)
        for asked in server.asked:
            assert len(asked.texts) <= 4
            assert sum(map(count_tokens, asked.texts)) <= 60
        assert server.texts == texts
        await made.close()

    async def test_blank_and_broken_texts_are_sendable(self, embedder: ServiceEmbedder) -> None:
        vectors = await embedder.embed(["", "  \n", "half \ud83d of a pair"])
        assert vectors.shape == (3, 1536)

    def test_long_texts_go_in_windows_that_cover_them(self) -> None:
        plain = " ".join(f"word{number}" for number in range(600))
        dense = "".join(chr(0x4E00 + 7 * number) for number in range(1_500))
        text = f"{plain} {dense}"
        windows = split_text(text, 100)
        assert all(count_tokens(one.text) == one.tokens <= 100 for one in windows)
        place = 0
        for one in windows:
            start = text.index(one.text)
            assert start <= place, "a gap"
            place = start + len(one.text)
        assert place == len(text)

    def test_a_text_larger_than_a_batch_goes_alone(self) -> None:
        flat = [piece for text in ("one", "two " * 50, "three") for piece in split_text(text, 100)]
        assert [len(batch) for batch in pack_batches(flat, most=10, most_tokens=20)] == [1, 1, 1]


class TestMeasuring:
    """The first call."""

    async def test_is_done_once_and_kept(self, server: EmbeddingServer) -> None:
        book = Notebook()
        first = ServiceEmbedder(service(server.url), book)
        await first.embed(["a text"])
        assert len(server.asked) == 2
        assert book.kept is not None
        assert book.kept.dimensions == 1536
        assert first.unrelated == book.kept.unrelated
        expected = measure_unrelated(hashed(UNRELATED_QUESTIONS, 1536), hashed(UNRELATED_STATEMENTS, 1536))
        assert first.unrelated.mean == pytest.approx(expected.mean, abs=1e-5)
        assert first.unrelated.deviation == pytest.approx(expected.deviation, abs=1e-5)
        second = ServiceEmbedder(service(server.url), book)
        await second.load_traits()
        assert second.unrelated == first.unrelated
        await asyncio.gather(second.embed(["another"]), second.embed_query("a third"))
        assert len(server.asked) == 4
        for made in (first, second):
            await made.close()

    async def test_nothing_is_asked_before_there_is_a_text(self, server: EmbeddingServer) -> None:
        made = ServiceEmbedder(service(server.url), Notebook())
        made.load()
        await made.load_traits()
        assert (await made.embed([])).shape == (0, 1536)
        assert (made.dimensions, server.asked) == (1536, [])
        await made.close()

    @pytest.mark.parametrize("kept", [None, ServiceModelTraits(768, HashingEmbedder().unrelated)])
    async def test_another_length_is_refused_with_what_fixes_it(
        self, server: EmbeddingServer, kept: ServiceModelTraits | None, hours: Hours
    ) -> None:
        made = ServiceEmbedder(
            service(server.url, "compatible", dimensions=768), Notebook(kept), timing=hours.timing
        )
        for _ in range(3):
            with pytest.raises(ModelMismatch) as caught:
                await made.embed(["a text"])
        assert "1,536" in caught.value.message
        assert "768" in caught.value.message
        assert "embedding.dimensions 1536" in caught.value.advice
        assert "mindhold models adopt" in caught.value.advice
        assert len(server.asked) == 1, "each call costs money"
        await made.close()


class TestFaults:
    """A service that fails."""

    async def test_too_many_requests_are_tried_again_when_it_says(
        self, server: EmbeddingServer, embedder: ServiceEmbedder, book: Notebook, hours: Hours
    ) -> None:
        server.meet(limited("3"), limited("2"))
        assert (await embedder.embed(["a text"])).shape == (1, 1536)
        assert [3 <= slept <= 4 for slept in hours.slept[:1]] == [True]
        assert 2 <= hours.slept[1] <= 3
        assert book.used == [Usage(calls=3, failed=2, tokens=count_tokens("a text"))]

    async def test_to_wait_longer_than_one_is_willing_to_is_not_begun(
        self, server: EmbeddingServer, embedder: ServiceEmbedder, hours: Hours
    ) -> None:
        server.meet(limited("120"))
        for _ in range(3):
            with pytest.raises(ModelAway, match="no more calls"):
                await embedder.embed_query("a question")
        assert (len(server.asked), hours.slept) == (1, [])
        hours.now += 121
        assert (await embedder.embed_query("a question")).shape == (1, 1536)

    @pytest.mark.parametrize("fault", [failing(500), failing(503), failing(529), DROP, failing(408)])
    async def test_passing_faults_pass(
        self, server: EmbeddingServer, embedder: ServiceEmbedder, hours: Hours, fault: ServiceFault
    ) -> None:
        server.meet(fault, fault, fault)
        await embedder.embed(["a text"])
        assert len(server.asked) == 4
        assert hours.slept == sorted(hours.slept)
        assert sum(hours.slept) < 30

    async def test_a_question_gives_up_sooner(
        self, server: EmbeddingServer, embedder: ServiceEmbedder
    ) -> None:
        server.meet(failing(500), failing(500))
        with pytest.raises(ModelAway, match="HTTP 500"):
            await embedder.embed_query("a question")
        assert len(server.asked) == 2

    async def test_a_question_has_one_deadline_for_all_that_it_takes(self, hours: Hours) -> None:
        def slow(texts: Sequence[str], length: int) -> Matrix:
            hours.now += 3
            return hashed(texts, length)

        with EmbeddingServer(slow, key=KEY) as server:
            made = ServiceEmbedder(
                service(server.url, "voyage", dimensions=1536), Notebook(), timing=hours.timing
            )
            with pytest.raises(ModelAway, match="too long"):
                await made.embed_query("a question")
            assert len(server.asked) == 2, "the model is measured by then"
            assert (await made.embed_query("a question")).shape == (1, 1536)
            await made.close()

    async def test_a_dead_service_costs_a_bounded_wait_once(
        self, server: EmbeddingServer, book: Notebook, hours: Hours
    ) -> None:
        made = ServiceEmbedder(
            service(server.url), book, limits=BatchLimits(wait_seconds=0.3), timing=hours.timing
        )
        server.always(HANG)
        with pytest.raises(ModelAway, match="didn't answer"):
            await made.embed_query("a question")
        for _ in range(5):
            with pytest.raises(ModelAway):
                await made.embed_query("another")
        assert len(server.asked) == 1
        server.always(None)
        with pytest.raises(ModelAway):
            await made.embed(["a text"])
        hours.now += 6
        assert (await made.embed_query("a question")).shape == (1, 1536)
        assert len(server.asked) == 2
        await made.close()

    async def test_one_call_tries_whether_it_is_back(
        self, server: EmbeddingServer, book: Notebook, hours: Hours
    ) -> None:
        made = ServiceEmbedder(service(server.url), book, timing=hours.timing)
        server.stop()
        with pytest.raises(ModelAway, match="can't be reached"):
            await made.embed_query("a question")
        hours.now += 6
        server.start()
        server.meet(failing(500))
        outcomes = await asyncio.gather(
            *(made.embed_query(f"question {number}") for number in range(8)), return_exceptions=True
        )
        assert all(isinstance(outcome, ModelAway) for outcome in outcomes)
        assert len(server.asked) == 1
        hours.now += 6
        with pytest.raises(ModelAway):
            await made.embed_query("the hold is longer each time")
        hours.now += 6
        await made.embed_query("a question")
        await made.embed_query("and one more")
        assert len(server.asked) == 3
        await made.close()

    async def test_of_many_that_fail_at_once_the_first_counts(
        self, server: EmbeddingServer, embedder: ServiceEmbedder, hours: Hours
    ) -> None:
        server.always(failing(503))
        outcomes = await asyncio.gather(
            *(embedder.embed_query(f"question {number}") for number in range(10)), return_exceptions=True
        )
        assert all(isinstance(outcome, ModelAway) for outcome in outcomes)
        server.always(None)
        hours.now += 6
        await embedder.embed_query("a question")

    async def test_nobody_there(self, book: Notebook, hours: Hours) -> None:
        made = ServiceEmbedder(service(NO_ONE), book, timing=hours.timing)
        with pytest.raises(ModelAway) as caught:
            await made.embed(["a text"])
        assert "by itself" in caught.value.advice
        assert book.used == [Usage(calls=4, failed=4, tokens=0)]
        await made.close()

    @pytest.mark.parametrize(
        ("fault", "kind"),
        [
            (failing(401, message=f"Incorrect API key provided: {KEY}"), ModelDenied),
            (failing(403, message=KEY), ModelDenied),
            (failing(429, message="spent", code="insufficient_quota"), ModelDenied),
            (failing(404), ModelMissing),
            (ServiceFault(302, headers={"Location": NO_ONE}), ModelBroken),
            (failing(400, message=f"bad parameter with {KEY}"), ModelBroken),
            (ServiceFault(200, body=b"<html>"), ModelBroken),
            (ServiceFault(200, body=b"[" * 200_000), ModelBroken),
            (ServiceFault(400, body=b"[" * 200_000), ModelBroken),
            (ServiceFault(200, body=b'{"data": [{"embedding": [1' + b"0" * 400 + b"]}]}"), ModelBroken),
            (ServiceFault(200, body=b'{"data": [], "x": "' + KEY.encode() + b'"}'), ModelBroken),
        ],
    )
    async def test_lasting_faults_are_told_at_once_and_never_with_the_key(
        self,
        server: EmbeddingServer,
        embedder: ServiceEmbedder,
        fault: ServiceFault,
        kind: type[ModelError],
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        caplog.set_level("DEBUG")
        server.meet(fault)
        with pytest.raises(kind) as caught:
            await embedder.embed(["a text"])
        assert len(server.asked) == 1
        assert caught.value.advice
        chain: list[BaseException] = []
        error: BaseException | None = caught.value
        while error is not None:
            chain.append(error)
            error = error.__cause__ or error.__context__
        ours = [record.getMessage() for record in caplog.records if record.name.startswith("mindhold")]
        told = " ".join([*map(repr, chain), *map(str, chain), *ours, repr(service(server.url))])
        assert KEY not in told

    async def test_a_wrong_key(self, server: EmbeddingServer, book: Notebook) -> None:
        made = ServiceEmbedder(service(server.url, key="sk-another"), book)
        for _ in range(3):
            with pytest.raises(ModelDenied) as caught:
                await made.embed_query("a question")
        assert "sk-another" not in str(caught.value)
        assert len(server.asked) == 1
        await made.close()

    async def test_a_bad_text_says_nothing_about_the_next(
        self, server: EmbeddingServer, embedder: ServiceEmbedder
    ) -> None:
        server.meet(failing(400, message="this one is too long"))
        with pytest.raises(ModelBroken, match="this one is too long"):
            await embedder.embed(["a text"])
        await embedder.embed(["another"])

    async def test_a_caller_who_leaves_is_counted_and_harms_nobody(
        self, server: EmbeddingServer, embedder: ServiceEmbedder, book: Notebook
    ) -> None:
        server.meet(HANG)
        waiting = asyncio.create_task(embedder.embed(["a text"]))
        await asyncio.to_thread(server.reached.wait, 20)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert [used.calls for used in book.used] == [1]
        await embedder.embed(["another"])


class TestLimits:
    """Requests and tokens a minute."""

    async def test_requests_wait_for_their_turn(
        self, server: EmbeddingServer, book: Notebook, hours: Hours
    ) -> None:
        made = ServiceEmbedder(
            service(server.url), book, limits=BatchLimits(requests_per_minute=3), timing=hours.timing
        )
        for number in range(4):
            await made.embed([f"text {number}"])
        assert hours.slept == [pytest.approx(20)]
        hours.now += 600
        for number in range(3):
            await made.embed([f"later {number}"])
        assert len(hours.slept) == 1
        await made.close()

    async def test_tokens_too_and_whoever_would_wait_too_long_is_told(
        self, server: EmbeddingServer, book: Notebook, hours: Hours
    ) -> None:
        bounds = BatchLimits(tokens_per_minute=100, wait_seconds=30)
        made = ServiceEmbedder(service(server.url), book, limits=bounds, timing=hours.timing)
        await made.embed(["word " * 90])
        assert hours.slept == []
        with pytest.raises(ModelAway, match="limits set here"):
            await made.embed(["word " * 90])
        hours.now += 60
        await made.embed(["word " * 90])
        assert hours.slept == []
        await made.close()

    async def test_batches_are_small_enough_to_be_waited_for(
        self, server: EmbeddingServer, book: Notebook, hours: Hours
    ) -> None:
        bounds = BatchLimits(tokens_per_minute=120, wait_seconds=30)
        made = ServiceEmbedder(service(server.url), book, limits=bounds, timing=hours.timing)
        texts = [f"number {number} is a text" for number in range(60)]
        assert len(await made.embed(texts)) == 60
        assert 0 < max(hours.slept) <= 30
        assert sum(used.tokens for used in book.used) <= 120 * (1 + sum(hours.slept) / 60)
        await made.close()

    async def test_a_spent_day_is_no_fault_of_the_service(self, server: EmbeddingServer) -> None:
        book = Notebook(ServiceModelTraits(1536, HashingEmbedder().unrelated), most=5)
        made = ServiceEmbedder(service(server.url), book)
        await made.embed(["two words"])
        with pytest.raises(ModelAway, match="spent"):
            await made.embed(["far more words than there are tokens left"])
        book.most = 0
        await made.embed(["far more words than there are tokens left"])
        assert len(server.asked) == 2
        await made.close()


class TestAddresses:
    """Where texts may go."""

    @pytest.mark.parametrize(
        ("given", "expected"),
        [
            ("https://api.openai.com/v1", "https://api.openai.com/v1/embeddings"),
            ("https://example.org/v1/embeddings/", "https://example.org/v1/embeddings"),
            ("http://localhost:11434/v1/", "http://localhost:11434/v1/embeddings"),
            ("http://127.8.0.1:8000/v1", "http://127.8.0.1:8000/v1/embeddings"),
            ("http://[::1]:8000/v1", "http://[::1]:8000/v1/embeddings"),
        ],
    )
    def test_good(self, given: str, expected: str) -> None:
        assert place(given, plain_http=False) == expected

    @pytest.mark.parametrize(
        "given",
        [
            "http://10.0.0.5:8000/v1",
            "http://example.org/v1",
            "http://localhost.example.org/v1",
            "http://127.0.0.1.example.org/v1",
            "ftp://localhost/v1",
            "localhost:11434",
            "https://",
            "https://host:port/v1",
            "https://user:secret@example.org/v1",
            "https://example.org/v1?key=secret",
        ],
    )
    def test_bad(self, given: str) -> None:
        with pytest.raises(SettingsError) as caught:
            place(given, plain_http=False)
        assert "secret" not in str(caught.value)
        assert "embedding.base_url" in caught.value.message

    def test_in_the_clear_if_the_person_says_so(self) -> None:
        assert place("http://10.0.0.5/v1", plain_http=True) == "http://10.0.0.5/v1/embeddings"


class TestAnswers:
    """What services may say."""

    @pytest.mark.parametrize(
        "document",
        [
            [],
            {"data": {}},
            {"data": [{"index": 0, "embedding": [1, 2]}]},
            {"data": [{"index": 0, "embedding": [1, 2]}, {"index": 0, "embedding": [1, 2]}]},
            {"data": [{"index": 0, "embedding": [1, 2]}, {"index": 7, "embedding": [1, 2]}]},
            {"data": [{"index": 0, "embedding": [1, 2]}, {"index": 1, "embedding": [1]}]},
            {"data": [{"index": 0, "embedding": [0, 0]}, {"index": 1, "embedding": [1, 0]}]},
            {"data": [{"index": 0, "embedding": [1, None]}, {"index": 1, "embedding": [1, 0]}]},
            {"data": [{"index": 0, "embedding": [[1], [2]]}, {"index": 1, "embedding": [[1], [0]]}]},
            {"data": [{"index": 0, "embedding": "%%%"}, {"index": 1, "embedding": "AAA"}]},
            {"data": [{"index": 0}, {"index": 1}]},
            {"data": ["a", "b"]},
        ],
    )
    def test_what_is_no_answer(self, document: Any) -> None:
        with pytest.raises(ValueError, match=r"\w"):
            parse_reply(json.dumps(document).encode(), 2)

    def test_without_places_the_order_counts(self) -> None:
        reply = parse_reply(b'{"data": [{"embedding": [3, 4]}, {"embedding": [0, 2]}]}', 2)
        np.testing.assert_allclose(reply.vectors, np.array([[0.6, 0.8], [0.0, 1.0]]), atol=1e-6)
        assert reply.tokens is None

    def test_when_to_come_back(self) -> None:
        now = datetime(2026, 1, 1, tzinfo=UTC)
        later = format_datetime(now + timedelta(seconds=90), usegmt=True)
        given: list[dict[str, str]] = [
            {"retry-after": "7"},
            {"retry-after-ms": "1500"},
            {"retry-after": later},
        ]
        assert [retry_after(headers, now=now) for headers in given] == [7, 1.5, 90]
        vague: list[dict[str, str]] = [{}, {"retry-after": "soon"}, {"retry-after": "nan"}]
        assert [retry_after(headers, now=now) for headers in vague] == [None] * 3
        assert retry_after({"retry-after": "-5"}, now=now) == 0

    def test_lengths_that_a_model_has(self) -> None:
        openai, voyage = PROVIDERS["openai"], PROVIDERS["voyage"]
        assert requested_size(openai.model("text-embedding-3-small"), "m", 0) == 0
        assert requested_size(openai.model("text-embedding-3-small"), "m", 1536) == 0
        assert requested_size(openai.model("text-embedding-3-large"), "m", 1000) == 1000
        assert requested_size(voyage.model("voyage-3-large"), "m", 2048) == 2048
        assert requested_size(openai.model("unheard-of"), "m", 77) == 77
        for model, wanted in (
            (openai.model("text-embedding-3-small"), 3072),
            (openai.model("text-embedding-ada-002"), 512),
            (voyage.model("voyage-3-large"), 1000),
        ):
            with pytest.raises(SettingsError, match=r"embedding\.dimensions"):
                requested_size(model, "m", wanted)
