"""The local model follows the language of what is stored, and recall goes on while vectors are made anew."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from front_door import Open, recall, run, stored

from mindhold.app.application import App
from mindhold.jobs.queue import RUN_JOBS
from mindhold.lifecycle.status import DOCTOR, STATUS
from mindhold.memories.embedding import LIST_MODELS, embed_missing
from mindhold.memories.remember import REMEMBER_MANY
from mindhold.model.query import Filter
from mindhold.providers.model_pull import PullOptions, pull

pytestmark = pytest.mark.xdist_group("model")

LOCAL = {"embedding.provider": "local", "embedding.threads": 1}
ENGLISH_ALONE, BOTH = ["all-MiniLM-L6-v2"], ["all-MiniLM-L6-v2", "multilingual-e5-small"]
MINILM, PAIR = "all-MiniLM-L6-v2/int8", "all-MiniLM-L6-v2+multilingual-e5-small/int8"
PULL_IT = "`mindhold models pull multilingual`"

KOREAN = [
    "주문 서비스는 PostgreSQL을 사용하기로 했다.",
    "우리는 매주 금요일에 스테이징 서버에 배포한다.",
    "내 딸은 땅콩 알레르기가 있다.",
    "사무실은 오월에 사층으로 이사했다.",
    "우리 고양이의 이름은 나비이다.",
    "회의는 목요일 세 시로 옮겨졌다.",
    "프린터에 종이가 또 떨어졌다.",
    "할머니는 과수원 뒤에서 벌을 키우신다.",
    "새 전화기는 전보다 두 배 빨리 충전된다.",
    "박물관에서 로마 동전을 전시한다.",
    "서리가 내리기 전에 울타리를 칠해야 한다.",
    "법원은 월요일에 항소를 기각했다.",
]
ENGLISH = [f"The {thing} of the team is kept in the {place}." for thing in ("key", "map", "flag", "drill")
           for place in ("drawer", "cellar", "attic", "garage", "kitchen", "hall")]  # fmt: skip


@pytest.fixture(scope="session")
def multilingual(pulled: Path) -> Path:
    pull("multilingual", PullOptions(pulled))
    return pulled / "multilingual-e5-small"


@pytest.fixture
def installed(multilingual: Path, models_dir: Path) -> Path:
    """The models folder of this home, with both models."""
    shutil.copytree(multilingual, models_dir / multilingual.name, copy_function=os.link)
    return models_dir


async def store_all(app: App, texts: Sequence[str]) -> None:
    await run(app, REMEMBER_MANY, items=[{"content": text} for text in texts])


async def active_models(app: App) -> list[str]:
    return [model.name for model in (await run(app, LIST_MODELS)).models if model.active]


async def test_it_is_suggested_then_chosen_when_most_is_not_english(
    opened: Open, models_dir: Path, multilingual: Path
) -> None:
    async with opened(**LOCAL) as app:
        await store_all(app, [*KOREAN, *ENGLISH[:4]])
        assert PULL_IT in (await run(app, STATUS)).notice
        doctor = await run(app, DOCTOR)
        assert doctor.healthy
        assert [PULL_IT in finding.detail for finding in doctor.findings if finding.name == "language"] == [
            True
        ]
        await run(app, RUN_JOBS)
        assert await active_models(app) == ENGLISH_ALONE
    shutil.copytree(multilingual, models_dir / multilingual.name, copy_function=os.link)
    async with opened(**LOCAL) as app:
        assert await active_models(app) == BOTH
        assert (await run(app, STATUS)).notice == ""
        await run(app, RUN_JOBS)
        answer = await recall(app, "which food is dangerous for my daughter?")
        assert answer.hits[0].content == KOREAN[2]


async def test_what_is_english_stays_with_the_english_model(opened: Open, installed: Path) -> None:
    async with opened(**LOCAL) as app:
        await store_all(app, [*ENGLISH, *KOREAN[:5]])
        await run(app, RUN_JOBS)
    async with opened(**LOCAL) as app:
        assert await active_models(app) == ENGLISH_ALONE
        assert (await run(app, STATUS)).notice == ""


async def test_it_does_not_go_back_and_forth(
    opened: Open, installed: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(**LOCAL) as app:
        await store_all(app, KOREAN)
        await run(app, RUN_JOBS)
        assert "from the next start on" in caplog.text
        assert "from the next start on" in (await run(app, STATUS)).notice
    for texts in (ENGLISH[:12], ENGLISH[12:]):  # as much of each, then mostly English
        async with opened(**LOCAL) as app:
            assert await active_models(app) == BOTH
            await store_all(app, texts)
            await run(app, RUN_JOBS)
    async with opened(**LOCAL) as app:
        assert await active_models(app) == BOTH


async def test_a_model_that_was_named_is_not_questioned(opened: Open, installed: Path) -> None:
    async with opened(**LOCAL, **{"embedding.model": "all-MiniLM-L6-v2"}) as app:
        await store_all(app, KOREAN)
        await run(app, RUN_JOBS)
        assert (await run(app, STATUS)).notice == ""
    async with opened(**LOCAL, **{"embedding.model": "all-MiniLM-L6-v2"}) as app:
        assert await active_models(app) == ENGLISH_ALONE
    async with opened(**LOCAL, **{"embedding.model": "multilingual"}) as app:
        assert await active_models(app) == BOTH


async def test_a_few_texts_decide_nothing(opened: Open, models_dir: Path) -> None:
    async with opened(**LOCAL) as app:
        await store_all(app, KOREAN[:5])
        assert (await run(app, STATUS)).notice == ""


async def test_recall_goes_on_while_vectors_are_made_anew(opened: Open, installed: Path) -> None:
    fillers = [f"Row {number} of the ledger lists {number * 7} crates of bolts." for number in range(100)]
    async with opened(**LOCAL) as app:
        first = await stored(app, "My daughter is allergic to peanuts.")
        await store_all(app, fillers)
        last = await stored(app, "Our cat is called Schrödinger.")
    async with opened(**LOCAL, **{"embedding.model": "multilingual"}) as app:
        answer = await recall(app, "allergic to peanuts")
        assert [hit.id for hit in answer.hits][:1] == [first]  # by its words
        assert "102 of 102" in answer.notice
        batches: list[int] = []
        await embed_missing(app.engine, progress=batches.append, enough=lambda: bool(batches))
        by_model = await app.engine.store.tally(Filter(), "embedded_by")
        assert 0 < by_model[PAIR] < 102
        assert by_model[PAIR] + by_model[MINILM] == 102
        for words, memory_id in (("allergic to peanuts", first), ("cat called Schrödinger", last)):
            answer = await recall(app, words)
            assert [hit.id for hit in answer.hits][:1] == [memory_id], words
            assert f"{by_model[MINILM]} of 102" in answer.notice
        await run(app, RUN_JOBS)
        answer = await recall(app, "what food must my child avoid?")
        assert [hit.id for hit in answer.hits][:1] == [first]
        assert answer.notice == ""


async def test_a_process_with_the_old_model_leaves_new_vectors_alone(opened: Open, installed: Path) -> None:
    async with opened(**LOCAL, **{"embedding.model": "all-MiniLM-L6-v2"}) as old:
        await store_all(old, KOREAN)
        async with opened(**LOCAL, **{"embedding.model": "multilingual"}) as new:
            await run(new, RUN_JOBS)
            assert await new.engine.store.tally(Filter(), "embedded_by") == {PAIR: len(KOREAN)}
            assert await embed_missing(old.engine) == 0
            assert await new.engine.store.tally(Filter(), "embedded_by") == {PAIR: len(KOREAN)}
