"""What only a real model can show: meaning found without a word in common, and models that come, go and break."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from front_door import Open, everything, found, recall, remember, run, show, stored
from test_duplicates import DIFFERENT

from mindhold.app.application import App
from mindhold.capture.rules.selection import extract_by_rules
from mindhold.jobs.queue import LIST_JOBS, RUN_JOBS
from mindhold.lifecycle.status import DOCTOR, STATUS
from mindhold.memories.amend import AMEND
from mindhold.memories.embedding import LIST_MODELS, REMOVE_MODEL
from mindhold.memories.remember import REMEMBER_MANY
from mindhold.model.memory import Kind
from mindhold.model.query import Filter
from mindhold.ports.transcripts import Role, TranscriptStep

pytestmark = pytest.mark.xdist_group("model")

LOCAL = {"embedding.provider": "local", "embedding.threads": 1}
MODEL = "all-MiniLM-L6-v2/int8"

FACTS = [
    "We chose PostgreSQL because of its JSON support.",
    "Deploys happen on Fridays after the tests pass.",
    "I prefer tabs over spaces in Python code.",
    "My daughter is allergic to peanuts.",
    "The office moved to the fourth floor in May.",
    "Our cat is called Schrödinger.",
]


async def test_a_memory_is_found_by_meaning_without_a_word_in_common(knowing: App) -> None:
    ids = [await stored(knowing, fact) for fact in FACTS]
    for query, place in (
        ("which database do we use?", 0),
        ("nut allergy", 3),
        ("what food must my child avoid?", 3),
        ("name of the pet", 5),
    ):
        assert (await found(knowing, query))[:1] == [ids[place]], query


async def test_what_nobody_told_is_not_answered(knowing: App) -> None:
    for fact in FACTS:
        await stored(knowing, fact)
    for query in ("capital of Mongolia", "how to bake sourdough bread", "asdf qwer zxcv"):
        assert await found(knowing, query) == [], query


async def test_words_and_meaning_together_are_the_reason(knowing: App) -> None:
    memory_id = await stored(knowing, FACTS[0])
    answer = await recall(knowing, "why PostgreSQL as database?")
    assert [hit.id for hit in answer.hits] == [memory_id]
    assert [reason.partition(":")[0] for reason in answer.hits[0].why] == ["words", "meaning"]
    assert (answer.rung, answer.notice) == (f"full text + {MODEL}", "")


async def test_a_rewording_supersedes(knowing: App) -> None:
    old = await stored(knowing, "For storage we use PostgreSQL.")
    answer = await remember(knowing, "We are using postgres for storage")
    assert answer.superseded == [old]


async def test_an_explicit_update_supersedes_what_it_changes(knowing: App) -> None:
    old = await stored(knowing, "The billing API uses port 8080.")
    answer = await remember(knowing, "The billing API now uses port 9090.")
    assert answer.superseded == [old]
    assert await found(knowing, "port of the billing API") == [answer.id]


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
async def test_what_differs_in_a_detail_is_never_merged(knowing: App, one: str, other: str) -> None:
    await stored(knowing, one)
    assert (await remember(knowing, other)).superseded == []
    assert {memory.content for memory in await everything(knowing)} == {one, other}


async def test_forty_services_on_forty_ports_are_forty_facts(knowing: App) -> None:
    texts = [f"Service {number:02} listens on port {8000 + number}." for number in range(40)]
    for text in texts[:5]:
        await stored(knowing, text)
    await run(knowing, REMEMBER_MANY, items=[{"content": text} for text in texts[5:]])
    await run(knowing, RUN_JOBS)
    assert {memory.content for memory in await everything(knowing)} == set(texts)


async def test_what_belongs_together_is_linked_at_most_three_times(knowing: App) -> None:
    for platform in range(1, 6):
        await stored(knowing, f"The morning train from Lisbon to Porto leaves from platform {platform}.")
    answer = await remember(knowing, "The morning train from Lisbon to Porto leaves from platform 9.")
    assert len(answer.links) == 3
    assert all(link.automatic and link.relation == "related" and link.weight >= 0.7 for link in answer.links)
    assert (await remember(knowing, "My daughter is allergic to peanuts.")).links == []


@pytest.mark.parametrize(
    ("error", "fix", "kind"),
    [
        (
            "The importer fails with UnicodeDecodeError on empty CSV lines",
            "To fix the importer's UnicodeDecodeError on CSV lines, strip empty lines before decoding",
            "procedure",
        ),
        (
            "KeyError: user_id in session middleware",
            "We fixed KeyError: user_id in session middleware by defaulting to anonymous",
            "decision",
        ),
        (
            "로그인 API가 500 오류를 반환한다",
            "로그인 API 500 오류는 세션 검사를 추가해서 수정했다",
            "fact",
        ),
    ],
)
async def test_an_error_is_linked_with_its_fix(knowing: App, error: str, fix: str, kind: str) -> None:
    failed = await stored(knowing, error, kind="error", topic="work")
    answer = await remember(knowing, fix, kind=kind, topic="work")
    assert answer.ties == [{"id": failed, "relation": "resolves"}]
    assert [(link.origin, link.target) for link in answer.links] == [(failed, answer.id)]


async def test_what_is_of_another_topic_is_not_linked(knowing: App) -> None:
    await stored(knowing, "The morning train from Lisbon to Porto leaves from platform 1.", topic="travel")
    text = "The morning train from Lisbon to Porto leaves from platform 2."
    assert (await remember(knowing, text, topic="toys")).links == []


async def test_amending_changes_the_meaning(knowing: App) -> None:
    memory_id = await stored(knowing, FACTS[3])
    await run(knowing, AMEND, id=memory_id, content="The warehouse roof leaks when it rains.")
    assert await found(knowing, "what food must my child avoid?") == []
    assert await found(knowing, "water damage in the building") == [memory_id]


async def test_what_a_long_memory_says_late_counts(knowing: App) -> None:
    ledger = " ".join(
        f"Row {number} of the ledger lists {number * 7} crates of bolts." for number in range(30)
    )
    late = "Peanuts are dangerous for my daughter. She is allergic to nuts and carries medicine. " * 8
    memory_id = await stored(knowing, f"{ledger} {late}")
    await stored(knowing, ledger)
    assert (await found(knowing, "what food must my child avoid?", minimum_score=0))[:1] == [memory_id]


async def test_a_model_pulled_later_is_used_after_a_job(opened: Open, pulled: Path, home: Path) -> None:
    async with opened(**LOCAL) as app:
        ids = [await stored(app, fact) for fact in FACTS]
        assert await found(app, "what food must my child avoid?") == []
    shutil.copytree(pulled / "all-MiniLM-L6-v2", home / "models" / "all-MiniLM-L6-v2")
    async with opened(**LOCAL) as app:
        assert "no vector yet" in (await recall(app, "what food must my child avoid?")).notice
        assert {job.name for job in (await run(app, LIST_JOBS)).jobs} == {"embed", "evaluate"}
        await run(app, RUN_JOBS)
        answer = await recall(app, "what food must my child avoid?")
        assert [hit.id for hit in answer.hits] == [ids[3]]
        assert answer.notice == ""
        assert (await run(app, DOCTOR)).healthy
        [model] = [model for model in (await run(app, LIST_MODELS)).models if model.active]
        assert model.name == "all-MiniLM-L6-v2"


async def test_a_changed_model_embeds_anew_and_never_mixes(opened: Open, models_dir: Path) -> None:
    async with opened() as app:
        ids = [await stored(app, fact) for fact in FACTS]
    async with opened(**LOCAL) as app:
        answer = await recall(app, "what food must my child avoid?")
        assert answer.hits == []
        assert "6 of 6" in answer.notice
        assert not [
            reason for hit in (await recall(app, "peanuts")).hits for reason in hit.why if "meaning" in reason
        ]
        await run(app, RUN_JOBS)
        assert await found(app, "what food must my child avoid?") == [ids[3]]
        store = app.engine.store
        assert await store.tally(Filter(), "embedded_by") == {MODEL: 6}
        assert await store.vector_of(ids, model="hashing-256") == {}
        assert set(await store.vector_of(ids, model=MODEL)) == set(ids)


@pytest.mark.parametrize("damage", [b"", b"not a model", None])
async def test_a_broken_model_leaves_full_text_and_says_so(
    opened: Open, models_dir: Path, damage: bytes | None
) -> None:
    file = next((models_dir / "all-MiniLM-L6-v2").glob("*.onnx"))
    content = file.read_bytes()
    file.unlink()
    file.write_bytes(content[: len(content) // 2] if damage is None else damage)
    async with opened(**LOCAL) as app:
        answer = await remember(app, FACTS[3])
        assert answer.created
        assert not answer.embedded
        assert answer.notice
        recalled = await recall(app, "peanuts")
        assert [hit.id for hit in recalled.hits] == [answer.id]
        assert recalled.rung == "full text"
        assert "full text only" in recalled.notice
        doctor = await run(app, DOCTOR)
        broken = [finding for finding in doctor.findings if not finding.healthy and "MiniLM" in finding.name]
        assert broken
        assert "models pull" in broken[0].advice
    file.unlink()
    file.write_bytes(content)
    async with opened(**LOCAL) as app:
        await run(app, RUN_JOBS)
        assert await found(app, "what food must my child avoid?") == [answer.id]


async def test_a_removed_model_leaves_full_text(opened: Open, models_dir: Path) -> None:
    async with opened(**LOCAL) as app:
        memory_id = await stored(app, FACTS[3])
        await run(app, REMOVE_MODEL, name="all-MiniLM-L6-v2")
    async with opened(**LOCAL) as app:
        answer = await recall(app, "peanuts")
        assert [hit.id for hit in answer.hits] == [memory_id]
        assert "models pull" in answer.notice
        assert (await run(app, STATUS)).rung == "full text"
    assert not (models_dir / "all-MiniLM-L6-v2").exists()


async def test_the_model_that_made_the_vectors_stays(opened: Open, models_dir: Path) -> None:
    async with opened(**LOCAL) as app:
        memory_id = await stored(app, FACTS[3])
    async with opened(**LOCAL) as app:
        assert (await show(app, memory_id)).memory.embedded_by == MODEL
        assert {job.name for job in (await run(app, LIST_JOBS)).jobs} == {"evaluate"}


async def test_what_is_found_can_be_asked_to_be_near(knowing: App) -> None:
    near = await stored(knowing, "My car needs new tires.")
    [hit] = (await recall(knowing, "automobile wheels")).hits
    assert (hit.id, hit.layer) == (near, "L3")
    assert hit.similarity is not None
    assert (await recall(knowing, "automobile wheels", minimum_similarity=hit.similarity - 0.01)).count == 1
    assert (await recall(knowing, "automobile wheels", minimum_similarity=hit.similarity + 0.01)).count == 0
    assert (await recall(knowing, "tires", minimum_similarity=0.99)).count == 0, "its words don't excuse it"
    assert (await recall(knowing, "", keywords=["tires"], minimum_similarity=0.99)).count == 1, (
        "no vector asked"
    )


async def test_capture_knows_a_wish_by_its_meaning(knowing: App) -> None:
    wishes = ["I handle the deployments myself.", "Wherever possible write SQL by hand."]
    chatter = ["Add a button to the header.", "It says module not found.", "Show me what changed."]
    steps = [
        TranscriptStep(line=number, end=number, role=Role.USER, text=text)
        for number, text in enumerate([*wishes, *chatter], start=1)
    ]
    kept = await extract_by_rules(knowing.engine, steps, {}, folder="/srv/shop")
    assert {item.content: item.kind for item in kept.items} == dict.fromkeys(wishes, Kind.PREFERENCE)
