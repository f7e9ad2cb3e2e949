"""What people plainly state, in English and Korean, and what is tempting but was only meant for the moment."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from spoken import Conversation, claude
from stated_texts import (
    CORRECTIONS,
    DECISIONS,
    FAILURES,
    OPEN_ENDS,
    PREFERENCES,
    SAID_FOR_THE_MOMENT,
    SURROUNDINGS,
    TALK,
    WARNINGS,
)

from mindhold.app.application import App
from mindhold.capture.extracted_items import SIGNS, CapturedItem
from mindhold.capture.rules.selection import extract_by_rules
from mindhold.memories.reflect import OPEN_QUESTION
from mindhold.model.memory import Kind
from mindhold.ports.transcripts import TranscriptStep

SURROUNDING_KINDS = {Kind.ARCHITECTURE, Kind.CONTEXT}


async def found(app: App, steps: Sequence[TranscriptStep]) -> list[CapturedItem]:
    """The state is one that an older version left."""
    return list(
        (await extract_by_rules(app.engine, steps, {"asked": True}, folder="/srv/shop", judging=False)).items
    )


def told(text: str) -> Sequence[TranscriptStep]:
    """By a person, in the midst of a conversation."""
    return Conversation().user("add a page").claude("Sure.").user(text).claude("OK.").steps


async def kinds(app: App, steps: Sequence[TranscriptStep]) -> list[Kind]:
    return [item.kind for item in await found(app, steps)]


@pytest.mark.parametrize(
    ("texts", "meant"),
    [
        (PREFERENCES, {Kind.PREFERENCE}),
        (DECISIONS, {Kind.DECISION}),
        (CORRECTIONS, {Kind.DECISION, Kind.PREFERENCE}),
        (WARNINGS, {Kind.GOTCHA}),
        (FAILURES, {Kind.ERROR}),
        (SURROUNDINGS, SURROUNDING_KINDS),
    ],
    ids=["preferences", "decisions", "corrections", "warnings", "failures", "surroundings"],
)
async def test_what_a_person_states(app: App, texts: Sequence[str], meant: set[Kind]) -> None:
    taken = {text: await kinds(app, told(text)) for text in texts}
    assert {text: of for text, of in taken.items() if len(of) != 1 or of[0] not in meant} == {}


@pytest.mark.parametrize(
    ("texts", "meant"),
    [(WARNINGS, Kind.GOTCHA), (FAILURES, Kind.ERROR), (OPEN_ENDS, Kind.PROGRESS)],
    ids=["warnings", "failures", "open ends"],
)
async def test_what_the_assistant_reports(app: App, texts: Sequence[str], meant: Kind) -> None:
    taken = {text: await kinds(app, claude(text)) for text in texts}
    assert {text: of for text, of in taken.items() if of != [meant]} == {}


async def test_what_a_person_says_for_the_moment_leaves_nothing(app: App) -> None:
    taken = {text: await kinds(app, told(text)) for text in SAID_FOR_THE_MOMENT}
    assert {text: of for text, of in taken.items() if of} == {}


async def test_talk_of_the_assistant_leaves_nothing(app: App) -> None:
    taken = {text: await kinds(app, claude(text)) for text in TALK}
    assert {text: of for text, of in taken.items() if of} == {}


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("Please never commit directly to main", "Never commit directly to main."),
        ("ok so always use yarn, never npm please", "Always use yarn, never npm."),
        ("btw the dev database runs in docker on port 5433", "The dev database runs in docker on port 5433."),
        ("fyi prod is behind Cloudflare", "Prod is behind Cloudflare."),
        ("no, use httpx not requests", "Use httpx not requests."),
        (
            "that's wrong, the timeout is in milliseconds, not seconds",
            "The timeout is in milliseconds, not seconds.",
        ),
        ("It's settled: deployments are done by Argo CD.", "Deployments are done by Argo CD."),
        ("Watch out: the mock server ignores query parameters.", "The mock server ignores query parameters."),
        (
            "Don't forget that the cache has to be invalidated after a deploy.",
            "The cache has to be invalidated after a deploy.",
        ),
        ("- **Never** edit generated files by hand", "Never edit generated files by hand."),
        ("아니요, npm 말고 pnpm을 쓰세요.", "npm 말고 pnpm을 쓰세요."),
    ],
)
async def test_it_is_written_down_without_what_was_said_around_it(app: App, text: str, written: str) -> None:
    assert [item.content for item in await found(app, told(text))] == [written]


@pytest.mark.parametrize(
    ("text", "written"),
    [
        (
            "Let's go with SQLite for the cache instead of Redis. Always use pnpm in this repo.",
            {
                "Let's go with SQLite for the cache instead of Redis.": Kind.DECISION,
                "Always use pnpm in this repo.": Kind.PREFERENCE,
            },
        ),
        (
            "I prefer short functions. don't add comments that repeat the code",
            {
                "I prefer short functions.": Kind.PREFERENCE,
                "Don't add comments that repeat the code.": Kind.PREFERENCE,
            },
        ),
        (
            "커밋 메시지는 항상 한국어로 작성해 주세요. 데이터베이스는 PostgreSQL을 사용하기로 결정했습니다.",
            {
                "커밋 메시지는 항상 한국어로 작성해 주세요.": Kind.PREFERENCE,
                "데이터베이스는 PostgreSQL을 사용하기로 결정했습니다.": Kind.DECISION,
            },
        ),
        (
            "The staging server runs Debian 12. Our tickets are in Jira.",
            {
                "The staging server runs Debian 12.": Kind.ARCHITECTURE,
                "Our tickets are in Jira.": Kind.CONTEXT,
            },
        ),
        (
            "fix the login page please. We moved from Heroku to Fly.io. can you check the logs?",
            {"We moved from Heroku to Fly.io.": Kind.DECISION},
        ),
    ],
)
async def test_a_statement_a_memory(app: App, text: str, written: dict[str, Kind]) -> None:
    assert {item.content: item.kind for item in await found(app, told(text))} == written


async def test_a_warning_keeps_what_happens_otherwise(app: App) -> None:
    text = "게이트웨이보다 결제 서비스를 먼저 시작해야 합니다. 그렇지 않으면 헬스 체크가 실패합니다."
    assert [(item.kind, item.content) for item in await found(app, told(text))] == [(Kind.GOTCHA, text)]


@pytest.mark.parametrize(
    ("text", "signs"),
    [
        (
            "`ModuleNotFoundError: No module named 'yaml'` is solved by installing pyyaml.",
            ["modulenotfounderror: no module named yaml"],
        ),
        (
            "pandas raised KeyError: 'date' because the CSV had a BOM; reading it with utf-8-sig fixed it.",
            ["keyerror: date"],
        ),
        (
            "TypeError: Cannot read properties of undefined was caused by the API returning null for empty carts.",
            ["typeerror: cannot read properties of undefined"],
        ),
        ("The build failed because node 16 was active; switching to node 20 with nvm fixed it.", []),
    ],
)
async def test_a_failure_told_in_words_has_the_signs_that_it_names(
    app: App, text: str, signs: list[str]
) -> None:
    (item,) = await found(app, told(text))
    assert item.kind == Kind.ERROR
    assert item.metadata.get(SIGNS, []) == signs


async def test_what_helped_is_kept_with_what_went_wrong(app: App) -> None:
    text = (
        "The tests failed because the database was not running. Starting it with docker compose up fixed it."
    )
    assert [item.content for item in await found(app, told(text))] == [text]


async def test_what_is_listed_as_left(app: App) -> None:
    text = "Next steps:\n1. Add rate limiting to the login endpoint\n2. Remove the old session table"
    assert [(item.content, OPEN_QUESTION in item.tags) for item in await found(app, claude(text))] == [
        ("To do: add rate limiting to the login endpoint.", True),
        ("To do: remove the old session table.", True),
    ]


async def test_an_open_end_that_nobody_came_back_to(app: App) -> None:
    left = "We still need to write the rollback script."
    elsewhere = (
        Conversation().user("?").claude(left).user("The queue is RabbitMQ, by the way.").claude("Noted.")
    )
    done = (
        Conversation()
        .user("?")
        .claude(left)
        .user("what does the gateway do?")
        .claude("I wrote the rollback script.")
    )
    assert left in [item.content for item in await found(app, elsewhere.steps)]
    assert left not in [item.content for item in await found(app, done.steps)]
