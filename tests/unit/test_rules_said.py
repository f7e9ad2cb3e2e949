"""What the rules take from what was said: decisions, preferences, causes, structure, warnings, progress."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from spoken import Conversation, claude, user

from mindhold.app.application import App
from mindhold.capture.extracted_items import LONGEST, SIGNS, CapturedItem
from mindhold.capture.rules.selection import extract_by_rules
from mindhold.memories.reflect import OPEN_QUESTION
from mindhold.model.memory import Kind
from mindhold.ports.transcripts import TranscriptStep


async def found(app: App, steps: Sequence[TranscriptStep], kind: Kind | None = None) -> list[CapturedItem]:
    items = (await extract_by_rules(app.engine, steps, {}, folder="/srv/shop", judging=False)).items
    return [item for item in items if kind in (None, item.kind)]


@pytest.mark.parametrize(
    "text",
    [
        "Let's use PostgreSQL instead of SQLite for the job queue.",
        "We decided to keep the old export format until version 3.",
        "Decision: we use PostgreSQL, not MySQL.",
        "We'll store sessions in Redis, not in memory.",
        "Let's store money as integer cents.",
        "For this project, use SQLite as the database because it needs no server.",
        "ok, let's go with server-side rendering for the shop pages",
        "The importer should skip rows without an `id` instead of failing.",
        "I want the `--json` flag to be the default for all commands.",
        'if the command is "shop list" it should send "shop list", not "list"',
        "The nightly hook never worked, so let's just remove the `nightly.yml` workflow entirely.",
        "우리는 세션 저장소로 Redis를 쓰기로 했다.",
    ],
)
async def test_decisions_of_the_person(app: App, text: str) -> None:
    assert [item.content.rstrip(".") for item in await found(app, user(text), Kind.DECISION)] == [
        _written(text)
    ]


def _written(text: str) -> str:
    told = text.removeprefix("ok, ").rstrip(".")
    return told[0].upper() + told[1:] if told[:2].isalpha() and told[1].islower() else told


@pytest.mark.parametrize(
    "text",
    [
        "let's start with the first one",
        "let's use this one",
        "we'll see",
        "can you use PostgreSQL instead of SQLite?",
        "maybe we should use PostgreSQL instead of SQLite, not sure",
        "commit this and open a draft PR",
        "it should do that",
        "yes",
    ],
)
async def test_what_is_no_decision_of_the_person(app: App, text: str) -> None:
    assert await found(app, user(text), Kind.DECISION) == []


@pytest.mark.parametrize(
    "text",
    [
        "The uploader now retries with `tenacity` instead of a hand-written loop.",
        "The missing index on `orders.created_at` is intentional for write speed.",
        "Replaced `moment` with `date-fns` in the calendar widget.",
        "I'll use `asyncpg` because it supports prepared statements.",
    ],
)
async def test_decisions_that_the_assistant_reports(app: App, text: str) -> None:
    assert [item.content for item in await found(app, claude(f"Done.\n\n- {text}"), Kind.DECISION)] == [text]


async def test_a_choice_among_options(app: App) -> None:
    answer = 'User has answered your questions: "Which queue should we use?"="Redis Streams (Recommended)". You can now continue.'
    steps = (
        Conversation()
        .user("set up a queue")
        .tool("AskUserQuestion", "Which queue should we use?", answer)
        .steps
    )
    (item,) = await found(app, steps, Kind.DECISION)
    assert item.content == "Which queue should we use? Chosen: Redis Streams."
    assert item.line == 3


async def test_a_number_chooses_the_option(app: App) -> None:
    offer = "Two ways:\n\n1. **Poll** the `jobs` table every second\n2. **Listen** on a PostgreSQL channel\n\nWhich would you prefer?"
    steps = Conversation().user("how do workers learn of jobs?").claude(offer).user("2").steps
    assert [item.content for item in await found(app, steps, Kind.DECISION)] == [
        "Chosen: Listen on a PostgreSQL channel."
    ]


async def test_yes_to_a_proposal(app: App) -> None:
    proposal = "`legacy_mail.py` has no callers.\n\nShould I remove the unused `legacy_mail.py` module?"
    agreed = Conversation().user("look at mail").claude(proposal).user("yes please").steps
    refused = Conversation().user("look at mail").claude(proposal).user("no").steps
    assert [item.content for item in await found(app, agreed, Kind.DECISION)] == [
        "Agreed to remove the unused `legacy_mail.py` module."
    ]
    assert await found(app, refused, Kind.DECISION) == []


async def test_an_approved_plan(app: App) -> None:
    plan = "# Plan: Cache rendered pages\n\n## Approach\n\nKeep rendered pages in Redis for a minute. More follows.\n"
    approved = Conversation().user("?").tool("ExitPlanMode", plan, "User has approved your plan.").steps
    rejected = (
        Conversation()
        .user("?")
        .tool("ExitPlanMode", plan, "The user doesn't want to proceed.", failed=True)
        .steps
    )
    (item,) = await found(app, approved, Kind.DECISION)
    assert item.content == "Plan agreed: Cache rendered pages."
    assert await found(app, rejected, Kind.DECISION) == []


@pytest.mark.parametrize(
    "text",
    [
        "Always run the linter before you commit.",
        "Never use default exports in this codebase.",
        "Use pnpm, not npm.",
        "We use four spaces for indentation, never tabs.",
        "I'd rather have explicit errors than silent fallbacks.",
        "Make sure to run `make check` before every commit.",
        "Prefer composition over inheritance.",
        "From now on write commit messages in the imperative.",
        "I prefer small pull requests with one idea each.",
        "please always use pnpm, never npm",
        "Don't add comments that repeat the code.",
        "no, use dataclasses instead of plain dicts for settings",
        "항상 테스트를 먼저 작성해 주세요.",
    ],
)
async def test_preferences(app: App, text: str) -> None:
    assert len(await found(app, user(text), Kind.PREFERENCE)) == 1


@pytest.mark.parametrize(
    "text",
    [
        "don't commit yet",
        "never mind",
        "I never saw this error before",
        "it always fails here",
        "why do you always do that?",
        "please fix this test",
        "Don't run the tests now, I'm in a hurry.",
        "Don't add tests for the moment.",
        "Don't write docs today.",
        "I'd like to add a flame graph or tracing or something to find out why.",
        "I would like to add a flame graph to the profiler.",
        "Please add tracing to the worker. As lightweight as possible please.",
    ],
)
async def test_what_is_no_preference(app: App, text: str) -> None:
    assert await found(app, user(text), Kind.PREFERENCE) == []


async def test_only_the_person_has_preferences(app: App) -> None:
    assert await found(app, claude("Always run the linter before you commit."), Kind.PREFERENCE) == []


async def test_a_cause_with_its_fix(app: App) -> None:
    text = "The issue was that `parse_rows` keeps the file open on Windows. Fixed by closing it before the rename."
    (item,) = await found(app, claude(text), Kind.ERROR)
    assert (
        item.content == "`parse_rows` keeps the file open on Windows. Fixed by closing it before the rename."
    )


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "The root cause was a stale `package-lock.json`.",
            "The root cause was a stale `package-lock.json`.",
        ),
        ("The fix was to pin `numpy<2` in `requirements.txt`.", "Fix: pin `numpy<2` in `requirements.txt`."),
        (
            "The build failed because `libssl-dev` was missing.",
            "The build failed because `libssl-dev` was missing.",
        ),
        (
            "The bug was caused by a stale cache; clearing it in `teardown()` fixed it.",
            "The bug was caused by a stale cache; clearing it in `teardown()` fixed it.",
        ),
        (
            "The import failed because the package `shop_x` was missing. I added it as a local package.",
            "The import failed because the package `shop_x` was missing. I added it as a local package.",
        ),
    ],
)
async def test_how_causes_and_fixes_are_told(app: App, text: str, told: str) -> None:
    assert [item.content for item in await found(app, claude(text), Kind.ERROR)] == [told]


async def test_a_guess_before_another_try_is_no_finding(app: App) -> None:
    text = "The issue is that `parse_rows` is too slow on Windows. Let me also check the timer."
    assert await found(app, claude(text), Kind.ERROR) == []


async def test_a_failure_that_the_person_told_of(app: App) -> None:
    steps = (
        Conversation()
        .user("the nightly build fails:\n\nsqlite3.OperationalError: database is locked")
        .claude("The `OperationalError` is caused by two workers that open `jobs.db` at once.")
        .edit("/srv/shop/src/jobs.py")
        .claude("Added a file lock around `open_jobs()` in `jobs.py`.")
        .steps
    )
    (item,) = await found(app, steps, Kind.ERROR)
    assert item.content.startswith("sqlite3.OperationalError: database is locked.")
    assert "two workers" in item.content
    assert item.metadata[SIGNS] == ["sqlite3.operationalerror: database is locked"]
    assert item.line == 1


@pytest.mark.parametrize(
    "text",
    [
        "The settings loader lives in `src/config.py` and merges project and user files.",
        "`SessionStore` delegates to `RedisClient` for everything that expires.",
        "Uploaded images are stored in `var/media` by their hash.",
        "`render_page()`: Loads the template; Fills in the user's name; Returns bytes.",
    ],
)
async def test_structure(app: App, text: str) -> None:
    assert [item.content for item in await found(app, claude(text), Kind.ARCHITECTURE)] == [text]


@pytest.mark.parametrize(
    "text",
    [
        "It lives in `src/config.py` and merges project and user files.",
        "This function lives in `src/config.py`.",
        "I think the loader lives in `src/config.py`.",
        "Let me check what lives in `src/config.py`.",
        "Consider moving the loader to `src/config.py` so that it uses one file.",
        "The tests pass and `ruff` is clean.",
    ],
)
async def test_what_says_nothing_of_structure(app: App, text: str) -> None:
    assert await found(app, claude(text), Kind.ARCHITECTURE) == []


async def test_items_under_a_name_belong_to_it(app: App) -> None:
    text = "**`load_settings()`** (exported):\n- Reads the project's file\n- Applies the user's overrides\n- Returns the merged values"
    (item,) = await found(app, claude(text), Kind.ARCHITECTURE)
    assert item.content.startswith("`load_settings()` (exported): Reads the project's file; Applies")


async def test_a_table_of_parts(app: App) -> None:
    table = "Now:\n\n| Component | Purpose |\n|---|---|\n| `api` | Serves HTTP and checks tokens |\n| `worker` | Sends mail from the queue |\n"
    told = {item.content for item in await found(app, claude(table), Kind.ARCHITECTURE)}
    assert told == {
        "`api` (component) - purpose: Serves HTTP and checks tokens.",
        "`worker` (component) - purpose: Sends mail from the queue.",
    }
    names = "| Strategy | Mechanism |\n|---|---|\n| Manual | In-memory tree building by `BuildTree` |\n| Auto | `git add` |\n"
    assert await found(app, claude(names), Kind.ARCHITECTURE) == []
    status = "| Test | Status |\n|---|---|\n| `api` | passes |\n| `worker` | passes |\n"
    assert await found(app, claude(status), Kind.ARCHITECTURE) == []


@pytest.mark.parametrize(
    "text",
    [
        "Note that `Client.close()` must be called before exit, otherwise queued events are lost.",
        "`find_user` returns `None` if the row is locked.",
        "The default `PoolTimeout` is 0, which means it waits forever.",
        "**Important:** `deploy.sh` only works on the release branch.",
        "It turns out that `fetch` ignores the proxy settings in Node 18.",
    ],
)
async def test_gotchas(app: App, text: str) -> None:
    assert len(await found(app, claude(text), Kind.GOTCHA)) == 1


async def test_a_convention_is_a_pattern(app: App) -> None:
    (item,) = await found(app, claude("All handlers follow the convention of returning a `Result` value."))
    assert item.kind == Kind.PATTERN


async def test_what_was_done_is_progress(app: App) -> None:
    text = "Done. Here's what changed:\n\n1. Added a `--dry-run` flag to `shop import`\n2. Updated `README.md` with the new flag"
    told = [item.content for item in await found(app, claude(text), Kind.PROGRESS)]
    assert told == ["Added a `--dry-run` flag to `shop import`.", "Updated `README.md` with the new flag."]


async def test_what_a_conversation_undid_is_no_progress(app: App) -> None:
    steps = (
        Conversation()
        .user("write a demo file")
        .tool("Write", "/srv/shop/docs/demo.md", "File created")
        .claude("Created `docs/demo.md` with an overview of the shop's parts.")
        .user("delete that file")
        .bash("rm /srv/shop/docs/demo.md")
        .claude("Deleted.")
        .steps
    )
    assert await found(app, steps, Kind.PROGRESS) == []


async def test_what_is_left_is_an_open_end(app: App) -> None:
    text = "Added the `orders` endpoint.\n\nThe `refunds` endpoint still needs to be wired into `routes.py`."
    (item,) = [one for one in await found(app, claude(text), Kind.PROGRESS) if OPEN_QUESTION in one.tags]
    assert item.content == "The `refunds` endpoint still needs to be wired into `routes.py`."


async def test_an_end_that_was_taken_up_again_is_not_open(app: App) -> None:
    text = "The `refunds` endpoint still needs to be wired into `routes.py`."
    steps = Conversation().user("?").claude(text).user("do that").claude("Wired it.").steps
    assert not [item for item in await found(app, steps) if OPEN_QUESTION in item.tags]


async def test_what_was_asked_for_is_no_memory(app: App) -> None:
    for text in (
        "add rate limiting to the public `orders` API",
        "python3 a.py crashes with a TypeError. Please fix it.",
    ):
        assert await found(app, user(text)) == []


@pytest.mark.parametrize(
    "text",
    [
        "Let me check the `orders` table first.",
        "I'll now run `make test` to verify that everything works.",
        "All tests pass and the linter is clean.",
        "Perfect! Everything in `orders.py` works now.",
        "```python\nuse = 'PostgreSQL'  # instead of SQLite, we decided\n```",
        "> We decided to use PostgreSQL instead of SQLite.",
        "Should I use `uv` instead of `pip` here?",
    ],
)
async def test_talk_code_and_quotations_leave_nothing(app: App, text: str) -> None:
    assert await found(app, claude(text)) == []


async def test_a_side_conversation_only_tells_of_structure_and_failures(app: App) -> None:
    steps = (
        Conversation()
        .user("?")
        .claude("Sessions are stored in `src/store/redis.py` with a lifetime of a day.", aside=True)
        .claude("We decided to use PostgreSQL instead of SQLite.", aside=True)
        .claude("Added a `--dry-run` flag to `shop import`.", aside=True)
        .claude("ok")
        .steps
    )
    assert [item.kind for item in await found(app, steps)] == [Kind.ARCHITECTURE]


async def test_paths_are_those_of_the_project_and_secrets_are_gone(app: App) -> None:
    secret = "ghp_" + "a1B2c3D4" * 5
    text = f"The deploy key lives in `/srv/shop/config/deploy.env` as `TOKEN={secret}` for the `worker`."
    (item,) = await found(app, claude(text), Kind.ARCHITECTURE)
    assert "`config/deploy.env`" in item.content
    assert secret not in item.content


@pytest.mark.parametrize(
    ("tool", "asked", "said", "told"),
    [
        (
            "Bash",
            "git add docs/plan.md && git commit -m 'docs: plan'",
            "don't check this in",
            "Refused `git add docs/plan.md`: don't check this in.",
        ),
        (
            "Write",
            "/srv/shop/src/summary.py",
            "should we be using the stripper from textutil?",
            "Refused a change of `summary.py`: should we be using the stripper from textutil?",
        ),
    ],
)
async def test_what_was_refused_is_told_with_the_words(
    app: App, tool: str, asked: str, said: str, told: str
) -> None:
    steps = Conversation().user("Go on.").refused(tool, asked, said).steps
    assert told in [item.content for item in await found(app, steps, Kind.PREFERENCE)]


@pytest.mark.parametrize("said", ["what are you doing?", "wait", "run the tests first", "it works now"])
async def test_a_refusal_that_only_waits_or_asks_is_nothing(app: App, said: str) -> None:
    steps = Conversation().user("Go on.").refused("Bash", "git push", said).steps
    assert [item for item in await found(app, steps) if item.content.startswith("Refused")] == []


async def test_a_long_question_keeps_what_was_chosen(app: App) -> None:
    question = f"{'The archive has grown for years. ' * 9}Where should old orders live?"
    answer = f'Your questions have been answered: "{question}"="In cold storage".'
    steps = Conversation().user("Go on.").tool("AskUserQuestion", question, answer).steps
    [item] = await found(app, steps, Kind.DECISION)
    assert item.content.endswith("Where should old orders live? Chosen: In cold storage.")
    assert len(item.content) <= LONGEST
