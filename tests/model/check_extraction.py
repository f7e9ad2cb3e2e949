"""Extraction with the true output of a small language model, which runs on this machine: `make test-model`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from front_door import Open, everything, run, stored
from talks import claude, ran, user, write

from mindhold.capture.capture import CAPTURE
from mindhold.memories.ask import ASK
from mindhold.model.prompt_markup import parse_json_answer
from support.local_model import NAME, LocalModel
from support.paid_services import LanguageServer

PACKAGES = Path(__file__).resolve().parents[2] / ".cache" / "model"
WISH = "From now on never commit by yourself, I commit."
CHOICE = "We use PostgreSQL 16 for the orders because we need transactions."
SECONDS = 1_500

pytestmark = pytest.mark.timeout(2 * SECONDS)


@pytest.fixture(scope="module")
def model() -> Iterator[LocalModel]:
    model = LocalModel(PACKAGES)
    yield model
    model.close()


@pytest.fixture
def answers() -> list[str]:
    return []


@pytest.fixture
def server(model: LocalModel, answers: list[str]) -> Iterator[LanguageServer]:
    def answer(system: str, prompt: str) -> str:
        answers.append(model.answer(system, prompt))
        return answers[-1]

    with LanguageServer(answer) as server:
        yield server


@pytest.fixture
def with_model(opened: Open, server: LanguageServer) -> Open:
    usual = {
        "capture.extract_with": "model",
        "llm.provider": "compatible",
        "llm.base_url": f"{server.url}/v1",
        "llm.model": NAME,
        "llm.wait_seconds": 600,
    }
    return lambda **changes: opened(**(usual | changes))


async def test_what_it_says_of_a_conversation_is_kept_as_far_as_it_holds(
    with_model: Open, answers: list[str], tmp_path: Path
) -> None:
    file = write(
        tmp_path / "claude" / "s.jsonl",
        user(WISH),
        claude("Understood, I leave commits to you."),
        user(CHOICE),
        *ran("npm test", "Error: Cannot find module 'vite'", call="t1", failed=True),
        *ran("npm ci", "added 812 packages", call="t2"),
        *ran("npm test", "12 passed", call="t3"),
        claude("`npm test` failed because node_modules was stale. Running `npm ci` fixed it."),
    )
    folder = tmp_path / "shop"
    folder.mkdir()
    async with with_model() as app:
        done = await run(app, CAPTURE, file=str(file), folder=str(folder), event="SessionEnd")
        memories = await everything(app)
    print(*answers, sep="\n")  # noqa: T201 - shown if it fails
    assert (done.outcome, done.notice) == ("captured", "")
    assert done.rung == f"compatible:{NAME}", "what it answers can be used"
    claimed = parse_json_answer(answers[-1])
    assert isinstance(claimed, list)
    # So small a model often finds nothing. What it finds has to hold.
    said = file.read_text(encoding="utf-8")
    for memory in memories:
        assert memory.provenance["line"] in range(1, 11)
        assert memory.content in [" ".join(str(each["content"]).split()) for each in claimed]
        assert all(word in said for word in memory.content.split() if word.strip(".").isdigit())


async def test_a_question_is_answered_from_memory_also_where_its_answer_cannot_be_used(
    with_model: Open, answers: list[str]
) -> None:
    async with with_model() as app:
        await stored(app, "The orders database is PostgreSQL 16.", kind="decision")
        answer = await run(app, ASK, question="Which database holds the orders?")
    assert "PostgreSQL" in answer.answer
    assert answers
    assert answer.model or answer.notice
