"""The log of a project fed by captured conversations: messages and summary, once, where wanted, and forgotten with them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from front_door import Open, acting, everything, on_disk, recall, run
from talks import Line, claude, ran, user
from talks import append as append_lines
from talks import write as write_lines

from mindhold.app.application import App
from mindhold.capture.capture import CAPTURE, CaptureResult
from mindhold.conversations.message_log import DELETE_MESSAGES, LIST_MESSAGES, SAVE_MESSAGE
from mindhold.hooks.environment import SKIP_MARK
from mindhold.memories.amend import AMEND
from mindhold.model.errors import Refused
from mindhold.operation_index import operation
from mindhold.projects.projects import CHANGE_PROJECT, CREATE_PROJECT, SHOW_PROJECT
from mindhold.projects.scope_operations import RENAME_SCOPE
from mindhold.projects.summary_update import PROJECT_SUMMARY, UPDATE_SUMMARY, ProjectSummaryResult
from mindhold.projects.summary_versions import SUMMARY_VERSIONS
from support.paid_services import LanguageServer

DECIDED = "We decided to use PostgreSQL 16 for the order database instead of MySQL."
TABS = "Always use tabs for indentation, never spaces."
CACHE = "We decided to keep the product pages in Redis for ten minutes."
SLOW = "Please speed up the product pages: customers wait for seconds."
INSIGHT = "The warehouse of the shop is in Hamburg."
SECRET = "ghp_" + "abcdefghijklmnopqrstuvwxyz0123456789"
KEY = "sk-ant-test"
END = "SessionEnd"


def at(second: int, *lines: Line) -> list[Line]:
    """The lines with times of their own, a second apart."""
    return [
        line | {"timestamp": f"2026-03-02T10:{number // 60:02}:{number % 60:02}.000Z"}
        for number, line in enumerate(lines, second)
    ]


def write(file: Path, *lines: Line) -> Path:
    """All of the conversation that the file is named after."""
    return write_lines(file, *(line | {"sessionId": file.stem} for line in lines))


def append(file: Path, *lines: Line) -> None:
    append_lines(file, *(line | {"sessionId": file.stem} for line in lines))


TALK = at(0, user(DECIDED), claude("Understood, I set it up."), user(TABS), claude("Noted."))
OTHER_TALK = at(300, user(SLOW), claude("How?"), user(CACHE), claude("Fine."))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "code" / "shop"
    made.mkdir(parents=True)
    return made


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "claude" / "projects" / "-code-shop" / "first.jsonl"


@pytest.fixture
async def app(opened: Open) -> AsyncIterator[App]:
    async with opened(**{"capture.project_log": True}) as app:
        yield app


async def capture(app: App, file: Path, folder: Path, event: str = END, **more: Any) -> CaptureResult:
    return await run(app, CAPTURE, file=str(file), folder=str(folder), event=event, **more)


async def log(app: App, project: str = "shop") -> list[tuple[str, str]]:
    """Who said what, oldest first."""
    listed = await run(app, LIST_MESSAGES, project=project, order="oldest", whole=True, limit=200)
    return [(message.message_type, message.content) for message in listed.messages]


async def summary(app: App) -> ProjectSummaryResult:
    return await run(app, PROJECT_SUMMARY, project="shop")


async def forget(app: App, session: str, **fields: Any) -> Any:
    return await run(app, operation("forget_conversation"), session=session, **fields)


class TestMessages:
    async def test_what_was_said_is_there_without_tools_and_secrets(
        self, app: App, file: Path, folder: Path
    ) -> None:
        write(
            file,
            *at(
                0,
                user(f"The token {SECRET} is for the tests."),
                claude("Let me look at the tests."),
                *ran("pytest tests", "2 failed", call="c1", failed=True),
                claude("They fail, because the clock of the fixture is real."),
                user("thanks"),
            ),
        )
        await capture(app, file, folder, "Stop")
        messages = await log(app)
        assert [role for role, _ in messages] == ["user", "assistant", "user"]
        assert messages[1:] == [
            ("assistant", "They fail, because the clock of the fixture is real."),
            ("user", "thanks"),
        ]
        assert "is for the tests." in messages[0][1]
        assert on_disk(app, SECRET) == []
        [first, *_] = (await run(app, LIST_MESSAGES, project="shop", order="oldest")).messages
        assert first.session_id == "first"
        assert first.timestamp.isoformat() == "2026-03-02T10:00:00+00:00"

    async def test_a_long_one_is_bounded(self, app: App, file: Path, folder: Path) -> None:
        write(file, *at(0, user("Read this. " + "word " * 10_000), claude("I have read it.")))
        await capture(app, file, folder)
        [(_, text), _] = await log(app)
        assert len(text) <= 10_100
        assert "[...]" in text

    async def test_a_piece_at_a_time(self, app: App, file: Path, folder: Path) -> None:
        write(file, *TALK)
        await capture(app, file, folder, "Stop")
        append(file, *OTHER_TALK)
        for event in ("Stop", END, END):
            await capture(app, file, folder, event)
        assert [text for _, text in await log(app)] == [
            line["message"]["content"]
            if isinstance(line["message"]["content"], str)
            else line["message"]["content"][0]["text"]
            for line in [*TALK, *OTHER_TALK]
        ]

    async def test_a_conversation_that_repeats_another_adds_what_is_new(
        self, app: App, file: Path, folder: Path
    ) -> None:
        await capture(app, write(file, *TALK), folder)
        await capture(app, write(file, *at(900, user("Start again."), claude("Gladly."), user("Go"))), folder)
        resumed = file.with_name("resumed.jsonl")
        await capture(app, write(resumed, *TALK, *OTHER_TALK), folder)
        texts = [text for _, text in await log(app)]
        assert len(texts) == len(set(texts)) == 11

    async def test_what_was_deleted_stays_away(self, app: App, file: Path, folder: Path) -> None:
        await capture(app, write(file, *TALK), folder)
        listed = await run(app, LIST_MESSAGES, project="shop", order="oldest")
        await run(app, DELETE_MESSAGES, project="shop", message_id=listed.messages[0].id)
        await capture(app, write(file.with_name("resumed.jsonl"), *TALK, *OTHER_TALK), folder)
        texts = [text for _, text in await log(app)]
        assert DECIDED not in texts
        assert CACHE in texts

    async def test_sub_agents_and_skipped_turns_are_left_out(
        self, app: App, file: Path, folder: Path
    ) -> None:
        lines = at(0, user(f"{SKIP_MARK} {DECIDED}"), claude("Understood."), user(TABS), claude("Noted."))
        await capture(app, write(file, *lines), folder)
        agent = file.parent / "first" / "subagents" / "agent-a1.jsonl"
        aside = [line | {"isSidechain": True} for line in OTHER_TALK]
        await capture(app, write(agent, *aside), folder, "SubagentStop", conversation="first", subagent="a1")
        assert await log(app) == [("user", TABS), ("assistant", "Noted.")]

    async def test_an_agents_log_is_its_own(self, app: App, file: Path, folder: Path) -> None:
        await capture(acting(app, "ci"), write(file, *TALK), folder)
        assert await log(app) == []
        assert len(await log(acting(app, "ci"))) == 4


class TestChoice:
    async def test_it_is_off_unless_somebody_wants_it(self, opened: Open, file: Path, folder: Path) -> None:
        async with opened() as app:
            await capture(app, write(file, *TALK), folder)
            assert await log(app) == []
            assert (await summary(app)).version == 0
            assert not (await run(app, SHOW_PROJECT, name="shop")).settings.log_conversations
            changed = await run(app, CHANGE_PROJECT, name="shop", log_conversations=True)
            assert changed.settings.log_conversations
            append(file, *OTHER_TALK)
            await capture(app, file, folder)
            assert len(await log(app)) == 4

    async def test_a_project_may_refuse_it(self, app: App, file: Path, folder: Path) -> None:
        made = await run(app, CREATE_PROJECT, name="shop", path=str(folder), log_conversations=False)
        assert not made.settings.log_conversations
        await capture(app, write(file, *TALK), folder)
        assert await log(app) == []
        assert len(await everything(app, scope="shop")) == 2

    async def test_the_choice_follows_a_new_name(self, opened: Open, folder: Path) -> None:
        async with opened() as app:
            await run(app, CREATE_PROJECT, name="shop", path=str(folder), log_conversations=True)
            await run(app, RENAME_SCOPE, name="shop", new_name="store")
            assert (await run(app, SHOW_PROJECT, name="store")).settings.log_conversations
            again = await run(app, CREATE_PROJECT, name="shop")
            assert not again.settings.log_conversations

    async def test_global_has_no_log(self, app: App) -> None:
        assert not (await run(app, SHOW_PROJECT, name="Global")).settings.log_conversations
        with pytest.raises(Refused):
            await run(app, CHANGE_PROJECT, name="Global", log_conversations=True)


class TestSummary:
    async def test_a_conversation_is_worked_in_at_its_end(self, app: App, file: Path, folder: Path) -> None:
        await capture(app, write(file, *TALK), folder, "Stop")
        assert (await summary(app)).version == 0
        await capture(app, file, folder)
        now = await summary(app)
        assert (now.key_decisions, now.patterns) == ([DECIDED], [TABS])
        assert f"Asked on 2026-03-02: {DECIDED}" in now.summary
        [version] = (await run(app, SUMMARY_VERSIONS, project="shop")).versions
        assert (version.trigger, version.merged_by) == ("session_end", "rules")
        await capture(app, file, folder)
        assert (await summary(app)).version == 1

    async def test_a_conversation_that_never_ended_is_made_up_for(
        self, app: App, file: Path, folder: Path
    ) -> None:
        await capture(app, write(file, *TALK), folder, "Stop")
        await capture(app, write(file.with_name("second.jsonl"), *OTHER_TALK), folder)
        assert (await summary(app)).key_decisions == [DECIDED, CACHE]

    async def test_a_model_is_asked_where_conversations_may_go_to_one(
        self, opened: Open, file: Path, folder: Path
    ) -> None:
        with LanguageServer(lambda system, _prompt: rewritten(system), key=KEY) as server:
            async with opened(**with_model(server, "rules")) as app:
                await capture(app, write(file, *TALK), folder)
                assert (await summary(app)).key_decisions == [DECIDED]
                assert server.asked == []
            async with opened(**with_model(server, "model")) as app:
                append(file, *OTHER_TALK)
                await capture(app, file, folder)
                assert "The order database is PostgreSQL." in (await summary(app)).summary
                assert any(TABS in asked.prompt for asked in server.asked)


def with_model(server: LanguageServer, extract_with: str) -> dict[str, Any]:
    return {
        "capture.project_log": True,
        "capture.extract_with": extract_with,
        "llm.provider": "anthropic",
        "llm.anthropic_key": KEY,
        "llm.base_url": server.url,
        "llm.wait_seconds": 5,
    }


def rewritten(system: str) -> str:
    """What the model answers: nothing to keep, and a story without anybody's own words."""
    if "You keep the summary" not in system:
        return "[]"
    return json.dumps(
        {"summary": "The order database is PostgreSQL.", "key_decisions": ["Orders are relational."]}
    )


class TestRecall:
    async def test_a_message_does_not_answer_beside_what_was_captured_from_it(
        self, app: App, file: Path, folder: Path
    ) -> None:
        await capture(app, write(file, *TALK, *OTHER_TALK), folder)
        found = await recall(
            app, "which database did we choose for the orders?", scope="shop", scope_only=True
        )
        said = [hit for hit in found.hits if hit.content == DECIDED]
        assert [hit.kind for hit in said] == ["decision"]

    async def test_what_nothing_was_captured_from_is_found(self, app: App, file: Path, folder: Path) -> None:
        await capture(app, write(file, *TALK, *OTHER_TALK), folder)
        found = await recall(app, "who asked to speed up the product pages?", scope="shop", scope_only=True)
        assert SLOW in [hit.content for hit in found.hits]


class TestForgetting:
    async def test_its_messages_and_its_part_of_the_summary_go(
        self, app: App, file: Path, folder: Path
    ) -> None:
        second = file.with_name("second.jsonl")
        await run(app, CREATE_PROJECT, name="shop", path=str(folder))
        await run(app, UPDATE_SUMMARY, project="shop", trigger="manual", new_insights=INSIGHT)
        await capture(app, write(file, *TALK), folder)
        await capture(app, write(second, *OTHER_TALK), folder)
        before = await forget(app, "first", preview=True)
        assert [(one.project, one.rewritten, one.dropped) for one in before.summaries] == [("shop", [3], [2])]
        assert DECIDED in (await summary(app)).key_decisions
        done = await forget(app, "first")
        assert done.summaries == before.summaries
        assert done.receipt.empty
        assert done.receipt.removed["summary versions"] == 2
        now = await summary(app)
        assert (now.version, now.key_decisions, now.patterns) == (3, [CACHE], [])
        assert INSIGHT in now.summary
        assert f"Asked on 2026-03-02: {SLOW}" in now.summary
        assert (await log(app))[0][1] == SLOW
        versions = (await run(app, SUMMARY_VERSIONS, project="shop")).versions
        assert [version.version for version in versions] == [3, 1]
        assert not [one for one in await everything(app) if DECIDED in one.content or TABS in one.content]
        assert (await forget(app, "first")).summaries == []
        assert (await capture(app, file, folder)).outcome == "forgotten"

    async def test_the_only_one_takes_the_whole_summary(self, app: App, file: Path, folder: Path) -> None:
        await capture(app, write(file, *TALK), folder)
        done = await forget(app, "first")
        assert [(one.rewritten, one.dropped) for one in done.summaries] == [([], [1])]
        assert ((await summary(app)).version, await log(app)) == (0, [])
        assert await everything(app) == []

    async def test_what_was_amended_by_hand_loses_its_lines(self, app: App, file: Path, folder: Path) -> None:
        await capture(app, write(file, *TALK), folder)
        now = await summary(app)
        [record] = [one for one in await everything(app) if one.topic == "project summary"]
        await run(app, AMEND, id=record.id, content=f"{now.summary}\n\n{INSIGHT}")
        await forget(app, "first")
        now = await summary(app)
        assert INSIGHT in now.summary
        assert not any(words in now.summary for words in ("PostgreSQL", "tabs"))

    async def test_what_a_model_worded_is_made_anew(self, opened: Open, file: Path, folder: Path) -> None:
        second = file.with_name("second.jsonl")
        with LanguageServer(lambda system, _prompt: rewritten(system), key=KEY) as server:
            async with opened(**with_model(server, "rules")) as app:
                await capture(app, write(second, *OTHER_TALK), folder)
            async with opened(**with_model(server, "model")) as app:
                await capture(app, write(file, *TALK), folder)
                assert "Orders are relational." in (await summary(app)).key_decisions
                done = await forget(app, "first")
                assert [(one.rewritten, one.dropped) for one in done.summaries] == [([2], [])]
                now = await summary(app)
                assert now.key_decisions == [CACHE]
                assert "relational" not in now.summary
                assert "PostgreSQL" not in now.summary

    async def test_what_rules_took_from_saved_messages_goes_too(self, app: App) -> None:
        for session, text in (("one", DECIDED), ("two", CACHE)):
            saved = await run(
                app, SAVE_MESSAGE, project="shop", message_type="user", content=text, conversation=session
            )
        await run(
            app,
            UPDATE_SUMMARY,
            project="shop",
            trigger="session_end",
            new_insights=INSIGHT,
            last_summarized_message_id=saved.message_id,
        )
        assert (await summary(app)).key_decisions == [DECIDED, CACHE]
        await forget(app, "one")
        now = await summary(app)
        assert now.key_decisions == [CACHE]
        assert INSIGHT in now.summary
