"""The order beside relevance: the nearer scope, the newer statement, twins once, and no chatter."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from front_door import at, found, recall, remember, run, stored

from mindhold.app.application import App
from mindhold.conversations.message_log import SAVE_MESSAGE
from mindhold.memories.links import LINK
from mindhold.memories.remember import REMEMBER_MANY
from mindhold.projects.scope_operations import CREATE_SCOPE

NOW = datetime(2026, 3, 11, 15, 0, tzinfo=UTC)
HELM = "Deploys go out with Helm on Fridays."
ANSIBLE = "Deploys go out with Ansible on Mondays."
PUPPET = "Deploys go out with Puppet on Tuesdays."
OLD_PORT, NEW_PORT = "The API listens on port 8080.", "The API listens on port 9090."


async def scopes(app: App) -> None:
    await run(app, CREATE_SCOPE, name="company")
    await run(app, CREATE_SCOPE, name="shop", parent="company")


async def contents(app: App, query: str, **fields: Any) -> list[str]:
    return [hit.content for hit in (await recall(app, query, **fields)).hits]


async def say(app: App, content: str) -> None:
    await run(app, SAVE_MESSAGE, project="shop", message_type="user", content=content)


async def on_days(app: App, *texts: str, **fields: Any) -> list[str]:
    """Remember one text a day; their ids."""
    return [
        await stored(at(app, NOW + timedelta(days=day)), text, **fields) for day, text in enumerate(texts)
    ]


class TestScopes:
    async def test_of_equal_answers_the_nearest_scope_comes_first(self, app: App) -> None:
        await scopes(app)
        for scope, text in (("shop", ANSIBLE), ("company", PUPPET), ("Global", HELM)):
            await stored(app, text, scope=scope)
        assert await contents(app, "How do deploys go out?", scope="shop") == [ANSIBLE, PUPPET, HELM]
        assert await contents(app, "How do deploys go out?", scope="company") == [PUPPET, HELM]

    async def test_the_nearest_comes_first_whichever_is_newer(self, app: App) -> None:
        await scopes(app)
        for day, (scope, text) in enumerate((("shop", ANSIBLE), ("Global", HELM), ("company", PUPPET))):
            await stored(at(app, NOW + timedelta(days=day)), text, scope=scope)
        later = at(app, NOW + timedelta(days=9))
        assert await contents(later, "How do deploys go out?", scope="shop") == [ANSIBLE, PUPPET, HELM]

    async def test_a_clearly_better_answer_of_another_scope_stays_first(self, app: App) -> None:
        await scopes(app)
        await stored(app, ANSIBLE, scope="shop")
        await stored(app, HELM, scope="Global")
        assert (await contents(app, "deploys with Helm on Fridays", scope="shop"))[0] == HELM

    async def test_scores_are_not_raised(self, app: App) -> None:
        await scopes(app)
        own = await stored(app, ANSIBLE, scope="shop")
        await stored(app, HELM, scope="Global")
        scores = [
            next(hit.score for hit in answer.hits if hit.id == own)
            for answer in (
                await recall(app, "How do deploys go out?", scope="shop"),
                await recall(app, "How do deploys go out?", everywhere=True),
            )
        ]
        assert scores[0] == pytest.approx(scores[1], abs=0.01)

    async def test_the_own_statement_comes_before_a_newer_one_of_global(self, app: App) -> None:
        await scopes(app)
        await stored(at(app, NOW), OLD_PORT, scope="shop")
        await stored(at(app, NOW + timedelta(days=1)), NEW_PORT, scope="Global")
        assert await contents(app, "Which port does the API listen on?", scope="shop") == [OLD_PORT, NEW_PORT]


class TestNewer:
    @pytest.mark.parametrize(
        ("older", "newer", "question"),
        [
            (OLD_PORT, NEW_PORT, "Which port does the API listen on?"),
            (NEW_PORT, OLD_PORT, "Which port does the API listen on?"),
            ("Alice lives in Berlin.", "Alice lives in Lisbon.", "Where does Alice live?"),
            ("The backup runs at 2 am.", "The backup runs at 4 am.", "When does the backup run?"),
        ],
    )
    async def test_the_newer_value_comes_first(self, app: App, older: str, newer: str, question: str) -> None:
        await on_days(app, older, newer)
        assert await contents(app, question) == [newer, older]

    async def test_an_important_older_value_comes_after_the_newer(self, app: App) -> None:
        await stored(at(app, NOW), OLD_PORT, importance=1.0)
        await stored(at(app, NOW + timedelta(days=1)), NEW_PORT, importance=0.1)
        assert await contents(app, "Which port does the API listen on?") == [NEW_PORT, OLD_PORT]

    async def test_of_three_values_the_newest_comes_first(self, app: App) -> None:
        ports = [f"The API listens on port {port}." for port in (7070, 8080, 9090)]
        for importance, (day, text) in zip((1.0, 0.5, 0.1), enumerate(ports), strict=True):
            await stored(at(app, NOW + timedelta(days=day)), text, importance=importance)
        assert await contents(app, "Which port does the API listen on?") == ports[::-1]

    async def test_a_question_that_names_the_old_value_finds_it_first(self, app: App) -> None:
        await on_days(app, OLD_PORT, NEW_PORT)
        assert (await contents(app, "What listens on port 8080?"))[0] == OLD_PORT

    async def test_what_is_about_other_things_keeps_its_order(self, app: App) -> None:
        await stored(at(app, NOW), "Service 3 listens on port 8003.", importance=1.0)
        await stored(at(app, NOW + timedelta(days=1)), "Service 4 listens on port 8004.", importance=0.1)
        assert (await contents(app, "Which service listens on which port?"))[0].startswith("Service 3")

    @pytest.mark.parametrize("important", [0, 1])
    async def test_a_linked_contradiction_is_marked_and_the_newer_comes_first(
        self, app: App, important: int
    ) -> None:
        texts = ("Sessions of the shop are kept in Redis.", "The shop has its sessions in a cookie.")
        ids = [
            await stored(
                at(app, NOW + timedelta(days=day)), text, importance=1.0 if day == important else 0.0
            )
            for day, text in enumerate(texts)
        ]
        await run(app, LINK, origin=ids[1], target=ids[0], relation="contradicts")
        hits = (await recall(app, "Where are the sessions of the shop?")).hits
        assert [hit.id for hit in hits] == ids[::-1]
        assert hits[0].contradicts == [ids[0]]
        assert hits[1].contradicted_by == [ids[1]]

    async def test_what_was_superseded_comes_after_and_says_so(self, app: App) -> None:
        ids = await on_days(app, "The shop is sold in Lisbon.", "The shop belongs to Mina now.")
        await run(app, LINK, origin=ids[0], target=ids[1], relation="superseded_by")
        hits = (
            await recall(
                app, "Is the shop sold in Lisbon?", statuses=["active", "superseded"], minimum_score=0
            )
        ).hits
        assert [hit.id for hit in hits] == ids[::-1]
        assert hits[1].superseded_by == [ids[1]]


class TestTwins:
    @pytest.mark.parametrize(
        ("one", "other", "question"),
        [
            ("The staging port is 9090", "9090 is the staging port", "What is the staging port?"),
            ("We deploy on Fridays with Helm", "On Fridays we deploy with Helm", "When do we deploy?"),
        ],
    )
    async def test_another_order_of_words_comes_once(
        self, app: App, one: str, other: str, question: str
    ) -> None:
        await remember(app, one)
        await remember(app, other)
        assert len(await found(app, question)) == 1

    @pytest.mark.parametrize(
        ("one", "other", "question"),
        [
            ("Auth depends on Billing", "Billing depends on Auth", "What does Auth depend on?"),
            ("Alice manages Bob", "Bob manages Alice", "Whom does Alice manage?"),
            ("The staging port is 9090", "9091 is the staging port", "What is the staging port?"),
            ("The staging port is not 9090", "9090 is the staging port", "What is the staging port?"),
        ],
    )
    async def test_an_order_that_means_something_else_comes_too(
        self, app: App, one: str, other: str, question: str
    ) -> None:
        await stored(app, one)
        await stored(app, other)
        assert set(await contents(app, question)) == {one, other}

    async def test_turns_of_a_conversation_all_come(self, app: App) -> None:
        texts = ("The staging port is 9090", "9090 is the staging port")
        items = [
            {"content": text, "conversation": "talk", "position": place} for place, text in enumerate(texts)
        ]
        await run(app, REMEMBER_MANY, items=items)
        assert len(await found(app, "What is the staging port?")) == 2


CHATTER = (
    "ok thanks!",
    "sounds good",
    "hi",
    "lol",
    "got it, will do",
    "네 감사합니다",
    "merci beaucoup",
    "👍",
)


class TestChatter:
    async def test_chatter_is_no_answer(self, app: App) -> None:
        for text in CHATTER:
            await say(app, text)
        for question in ("Does that sound good?", "Who said thanks?", "hi, did you get the keys?"):
            answer = await recall(app, question, scope="shop")
            assert (answer.hits, answer.nearest) == ([], []), question

    async def test_what_is_nearest_comes_in_its_place(self, app: App) -> None:
        await say(app, "sounds good")
        await stored(app, HELM, scope="shop")
        answer = await recall(app, "Sounds good to deploy?", scope="shop")
        assert [hit.content for hit in (*answer.hits, *answer.nearest)] == [HELM]

    async def test_chatter_is_found_by_chatter(self, app: App) -> None:
        await say(app, "ok thanks!")
        assert await contents(app, "ok thanks", scope="shop") == ["ok thanks!"]

    @pytest.mark.parametrize(
        ("text", "question"),
        [
            ("Yes, in Lisbon", "Is it in Lisbon?"),
            ("42", "Is it 42?"),
            ("port 9090", "Which port?"),
            ("Blue", "Blue or green?"),
        ],
    )
    async def test_a_short_answer_is_no_chatter(self, app: App, text: str, question: str) -> None:
        await say(app, text)
        answer = await recall(app, question, scope="shop")
        assert [hit.content for hit in (*answer.hits, *answer.nearest)] == [text]

    async def test_a_label_makes_it_an_answer(self, app: App) -> None:
        await stored(app, "Done.", topic="migration", keep_noise=True)
        assert await contents(app, "migration") == ["Done."]
