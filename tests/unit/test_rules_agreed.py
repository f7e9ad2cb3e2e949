"""Decisions by a word or two, and those that the assistant makes: what was agreed to is told in words that stand by themselves."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from spoken import Conversation, claude

from mindhold.app.application import App
from mindhold.capture.extracted_items import ExtractedItems
from mindhold.capture.rules.selection import extract_by_rules
from mindhold.model.memory import Kind
from mindhold.ports.transcripts import TranscriptStep

RECOMMENDED = "I'd recommend PostgreSQL for the orders, because payments need transactions."
AGREED = "Agreed: use PostgreSQL for the orders, because payments need transactions."


async def taken(
    app: App, steps: Sequence[TranscriptStep], carried: Mapping[str, Any] | None = None
) -> ExtractedItems:
    return await extract_by_rules(app.engine, steps, carried or {}, folder="/srv/shop", judging=False)


async def decided(app: App, steps: Sequence[TranscriptStep]) -> list[str]:
    return [item.content for item in (await taken(app, steps)).items if item.kind == Kind.DECISION]


def answered(offer: str, answer: str) -> Sequence[TranscriptStep]:
    return Conversation().user("which database should we take?").claude(offer).user(answer).steps


@pytest.mark.parametrize(
    ("offer", "answer", "told"),
    [
        (RECOMMENDED, "yes, do that", AGREED),
        (RECOMMENDED, "Great, let's go with PostgreSQL.", AGREED),
        (RECOMMENDED, "ok, let's use PostgreSQL for the orders then", AGREED),
        (f"{RECOMMENDED} Shall I set it up?", "sure", AGREED),
        (
            "I recommend PostgreSQL.",
            "Let's go with PostgreSQL.",
            "Which database should we take? Agreed: use PostgreSQL.",
        ),
        (
            "I suggest storing sessions in Redis, since cookies are too small. What do you think?",
            "sounds good",
            "Agreed: storing sessions in Redis, since cookies are too small.",
        ),
        (
            "My recommendation: keep the `orders` table in PostgreSQL and move the logs to ClickHouse.",
            "Perfect, go ahead.",
            "Agreed: keep the `orders` table in PostgreSQL and move the logs to ClickHouse.",
        ),
        (
            "Should sessions live in Redis or in a cookie?",
            "Redis please, cookies are too small",
            "Should sessions live in Redis or in a cookie? Chosen: Redis, cookies are too small.",
        ),
        (
            "The sessions need a home. Redis or cookies?",
            "Redis",
            "The sessions need a home. Redis or cookies? Chosen: Redis.",
        ),
        (
            "`charge` is there twice. Should I clean this up by removing `charge` from `old_pay.py`?",
            "yes",
            "Agreed on removing `charge` from `old_pay.py`.",
        ),
    ],
)
async def test_an_assent_is_told_by_what_it_agrees_to(app: App, offer: str, answer: str, told: str) -> None:
    assert await decided(app, answered(offer, answer)) == [told]


@pytest.mark.parametrize(
    ("offer", "answer"),
    [
        (RECOMMENDED, "no"),
        (RECOMMENDED, "hmm, why not MongoDB?"),
        (RECOMMENDED, "yes. but not for the logs"),
        (f"{RECOMMENDED} Should I commit the current changes first?", "yes"),
        ("Should I run the tests now?", "yes"),
        ("I suggest running the tests first.", "ok"),
        ("I recommend the second approach.", "ok"),
        ("Should I commit now or run the tests first?", "commit"),
        ("Did the error appear in Chrome or Firefox?", "Chrome"),
        ("Do you want the short or the long version?", "the short one"),
        ("The tests of `pay.py` pass.", "great, thanks"),
    ],
)
async def test_what_decides_nothing(app: App, offer: str, answer: str) -> None:
    assert await decided(app, answered(offer, answer)) == []


async def test_the_answer_comes_in_a_later_call(app: App) -> None:
    asked = Conversation().user("which database should we take?").claude("I recommend PostgreSQL.").steps
    carried = json.loads(json.dumps((await taken(app, asked)).carried))
    found = await taken(app, Conversation().user("yes, do that").claude("OK.").steps, carried)
    assert [item.content for item in found.items] == [
        "Which database should we take? Agreed: use PostgreSQL."
    ]
    again = await taken(app, Conversation().user("yes, do that").steps, found.carried)
    assert again.items == ()


@pytest.mark.parametrize(
    ("report", "told"),
    [
        (
            "Done. I chose Zod over Joi for validation because it infers types.",
            ["Chose Zod over Joi for validation because it infers types."],
        ),
        (
            "I decided to use PostgreSQL over MongoDB because payments need transactions.",
            ["Decided to use PostgreSQL over MongoDB because payments need transactions."],
        ),
        (
            "Decision: PostgreSQL for orders, since we need transactions.",
            ["Decision: PostgreSQL for orders, since we need transactions."],
        ),
        (
            "All done.\n\n### Key decisions\n- **JWT over sessions**: stateless, no store needed\n- Passwords are hashed with argon2\n",
            ["JWT over sessions: stateless, no store needed.", "Passwords are hashed with argon2."],
        ),
        (
            "Rate limiting is a token bucket in Redis rather than in memory, so that it works across all instances.",
            [
                "Rate limiting is a token bucket in Redis rather than in memory, so that it works across all instances."
            ],
        ),
        ("### Open decisions\n- Redis or cookies for the sessions\n", []),
        ("### Decisions needed\n- Store the sessions in Redis\n", []),
        ("I chose this approach because it is simpler.", []),
        ("I kept the old function.", []),
    ],
)
async def test_what_the_assistant_decided(app: App, report: str, told: list[str]) -> None:
    assert await decided(app, claude(report)) == told


CHOSE = "Done. I chose Zod over Joi for validation because it infers types."
REJECTED = "Rejected: Chose Zod over Joi for validation because it infers types."


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ("thanks", ["Chose Zod over Joi for validation because it infers types."]),
        ("no, revert that", [REJECTED]),
        ("no, use Joi please", [f"{REJECTED} Instead: use Joi."]),
    ],
)
async def test_the_person_may_object(app: App, answer: str, told: list[str]) -> None:
    steps = Conversation().user("add validation").claude(CHOSE).user(answer).claude("OK.").steps
    assert await decided(app, steps) == told


async def test_an_objection_in_a_later_call_takes_the_place_of_the_choice(app: App) -> None:
    first = await taken(app, Conversation().user("add validation").claude(CHOSE).steps)
    (choice,) = first.items
    for answer in ("no, revert that", "no, use Joi please", "No, we use Joi for validation in this project."):
        later = await taken(app, Conversation().user(answer).claude("OK.").steps, first.carried)
        assert [item.supersedes for item in later.items] == [choice.content], answer
    praise = await taken(app, Conversation().user("nice, thanks").claude("OK.").steps, first.carried)
    assert praise.items == ()
