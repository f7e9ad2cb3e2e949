"""What a conversation begins with: where work stopped, wishes, decisions, traps, and nothing that CLAUDE.md says already."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from front_door import Open, run, stored

from leaflets import read as read_leaflet
from mindhold.app.application import App
from mindhold.capture.claude_md import WRITE_DOCUMENTS
from mindhold.capture.conversation_start import MOST_LINES
from mindhold.capture.extracted_items import CAPTURED
from mindhold.capture.hook_cache import MAKE_HOOK_CACHE
from mindhold.hooks.project_identity import project_identity
from mindhold.memories.context import CONTEXT
from mindhold.memories.links import LINK
from mindhold.memories.remember import REMEMBER_MANY
from mindhold.model.lexemes import lexemes
from mindhold.model.markers import END, START
from mindhold.model.tokens import count_tokens
from mindhold.ports.history import ConversationLabel, IndexedConversation, IndexedStep, Passage
from mindhold.ports.transcripts import Role
from mindhold.projects.projects import CREATE_PROJECT

SAID = datetime.now(UTC).replace(microsecond=0) - timedelta(days=2)
DAY = f"{SAID:%Y-%m-%d}"


@pytest.fixture
async def folder(app: App, tmp_path: Path) -> Path:
    """The folder of the project `shop`."""
    made = tmp_path / "shop"
    made.mkdir()
    await run(app, CREATE_PROJECT, name="shop", path=str(made))
    return made


async def documented(app: App, tmp_path: Path) -> Path:
    """The folder of the project `shop`, with a place for memories in CLAUDE.md."""
    folder = tmp_path / "shop"
    folder.mkdir()
    await run(app, CREATE_PROJECT, name="shop", path=str(folder))
    (folder / "CLAUDE.md").write_text(f"{START}\n{END}\n", encoding="utf-8")
    return folder


async def told(app: App, content: str, kind: str, **fields: Any) -> str:
    return await stored(app, content, **{"kind": kind, "scope": "shop", "occurred": SAID} | fields)


async def cache(app: App, folder: Path) -> dict[str, Any]:
    await run(app, MAKE_HOOK_CACHE, folders=[str(folder)])
    found = read_leaflet(str(app.engine.settings.home), project_identity(str(folder)))
    assert found is not None
    return found


async def start(app: App, folder: Path) -> dict[str, list[str]]:
    """The sections of the text, each with its lines."""
    sections: dict[str, list[str]] = {}
    for line in (await cache(app, folder))["start"].splitlines():
        if line.startswith("- "):
            sections[list(sections)[-1]].append(line.removeprefix("- "))
        else:
            sections[line] = []
    return sections


def talked(app: App, folder: Path, *turns: tuple[str, str], title: str, session: str = "one") -> None:
    """Index a conversation in that folder."""
    said = [
        (IndexedStep(Role.USER, 1, asked, SAID), IndexedStep(Role.CLAUDE, 2, answered, SAID))
        for asked, answered in turns
    ]
    passages = [Passage(steps, " ".join(lexemes(f"{steps[0].text} {steps[1].text}"))) for steps in said]
    about = IndexedConversation(
        session,
        "claude",
        Path(f"/talks/{session}.jsonl"),
        project=str(folder),
        title=ConversationLabel(title, "ai"),
        ended=SAID,
        prompts=len(turns),
    )
    app.engine.history.put(about, passages, anew=True)


async def test_a_story_comes_first_then_wishes_decisions_and_what_to_watch_out_for(
    app: App, folder: Path
) -> None:
    talked(
        app,
        folder,
        (
            "Please fix the login redirect in auth/session.py",
            "The redirect kept its cookie. Fixed the SameSite flag.",
        ),
        title="Fix the login redirect behind the proxy",
    )
    await told(app, "I don't want you to push to main.", "preference")
    await told(app, "Orders are kept in PostgreSQL.", "decision")
    await told(app, "The session cookie in auth/session.py is lost on a redirect.", "gotcha")
    await told(app, "Pandas reads the warehouse export with the wrong encoding.", "gotcha")
    await told(app, "Run the linter with `make lint`.", "procedure")
    await told(app, "The logout button is still missing.", "progress")
    sections = await start(app, folder)
    assert list(sections) == ["Last time", "Wishes", "Decisions in force", "Watch out", "Also known"]
    assert sections["Last time"] == [
        f"{DAY}: Fix the login redirect behind the proxy",
        "It ended with: Fixed the SameSite flag.",
        f"Open: The logout button is still missing ({DAY})",
    ]
    assert sections["Wishes"] == ["Don't push to main."]
    assert sections["Decisions in force"] == [f"Orders are kept in PostgreSQL. ({DAY})"]
    assert sections["Watch out"] == [f"The session cookie in auth/session.py is lost on a redirect. ({DAY})"]
    assert len(sections["Also known"]) == 2


async def test_only_conversations_of_the_project_are_told(app: App, folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "elsewhere"
    other.mkdir()
    talked(app, other, ("Count the ships", "Counted."), title="Count the ships in the harbour")
    await told(app, "Orders are kept in PostgreSQL.", "decision")
    assert list(await start(app, folder)) == ["Decisions in force"]


async def test_what_git_says_and_what_no_longer_holds_is_not_told(app: App, folder: Path) -> None:
    await told(app, "Committed: fix the header", "progress")
    await told(app, "Opened PR #12: fix the header", "progress")
    await told(app, "Unresolved: `make test` fails: error: no database.", "progress")
    old = await told(app, "Orders are kept in MongoDB.", "decision")
    new = await told(app, "Orders are kept in PostgreSQL.", "decision")
    await run(app, LINK, origin=new, target=old, relation="contradicts")
    assert await start(app, folder) == {"Decisions in force": [f"Orders are kept in PostgreSQL. ({DAY})"]}


async def test_global_memories_leave_room_for_the_project_s_own(app: App, folder: Path) -> None:
    items = [
        {"content": f"In project{number} write tool{number} in capitals.", "kind": "preference"}
        for number in range(300)
    ]
    await run(app, REMEMBER_MANY, items=items)
    await told(app, "Use tabs.", "preference")
    await told(app, "Orders are kept in PostgreSQL.", "decision")
    sections = await start(app, folder)
    assert sections["Wishes"][0] == "Use tabs."
    assert sections["Decisions in force"] == [f"Orders are kept in PostgreSQL. ({DAY})"]
    text = (await cache(app, folder))["start"]
    assert count_tokens("\n".join(sections["Wishes"][1:])) < 300
    assert count_tokens(text) <= app.engine.settings.capture.start_tokens == 1_000
    assert len(text.splitlines()) <= MOST_LINES
    answer = await run(app, CONTEXT, scope="shop", kinds=["preference", "decision"], token_budget=600)
    assert [item.content for item in answer.core[:2]] == ["Use tabs.", "Orders are kept in PostgreSQL."]
    assert sum(item.tokens for item in answer.core[2:]) < 300


async def test_what_claude_md_says_is_not_told_again(opened: Open, tmp_path: Path) -> None:
    async with opened() as app:
        folder = await documented(app, tmp_path)
        wish = await told(app, "I want you to use tabs.", "preference")
        await run(app, WRITE_DOCUMENTS, folder=str(folder))
        assert f"- Wish: use tabs. ({DAY})" in (folder / "CLAUDE.md").read_text(encoding="utf-8")
        doubtful = {"source": CAPTURED, "confidence": 0.45}
        await told(app, "Perhaps two spaces are nicer.", "preference", **doubtful)
        await run(app, WRITE_DOCUMENTS, folder=str(folder))
        assert "spaces" not in (folder / "CLAUDE.md").read_text(encoding="utf-8")
        new = await told(app, "Orders are kept in PostgreSQL.", "decision")
        content = await cache(app, folder)
        assert "tabs" not in content["start"]
        assert "spaces" not in content["start"]
        assert "PostgreSQL" in content["start"]
        assert set(content["start_ids"]) == {wish, new}, "no prompt tells them again"
        (folder / "CLAUDE.md").write_text("mine\n", encoding="utf-8")
        assert "tabs" in (await cache(app, folder))["start"]


async def test_what_claude_md_cuts_off_is_told_whole(opened: Open, tmp_path: Path) -> None:
    async with opened() as app:
        folder = await documented(app, tmp_path)
        cause = "the settings are read before the folder of the project is known, " * 3
        failure = await told(app, f"`make check` failed: {cause}fixed by reading them later.", "error")
        await run(app, WRITE_DOCUMENTS, folder=str(folder))
        document = (folder / "CLAUDE.md").read_text(encoding="utf-8")
        assert "`make check` failed" in document
        assert "fixed by reading them later" not in document
        assert failure in [memory["id"] for memory in (await cache(app, folder))["memories"]]
        assert "fixed by reading them later" in (await cache(app, folder))["start"]


async def test_what_was_only_captured_has_to_be_sure_and_short(app: App, folder: Path) -> None:
    captured = {"scope": "shop", "source": CAPTURED}
    long = "The importer reads the file in pieces of a megabyte " + "and keeps a mark of where it was, " * 6
    await told(app, "Don't push to main.", "preference", confidence=0.6, **captured)
    await told(app, "Only release on Tuesdays.", "preference", confidence=0.9, **captured)
    await told(app, "Perhaps tabs are nicer.", "preference", confidence=0.45, **captured)
    await told(app, long, "decision", **captured)
    await told(app, long.replace("importer", "exporter"), "decision")
    sections = await start(app, folder)
    assert sections["Wishes"] == ["Only release on Tuesdays.", "Don't push to main."]
    [decision] = sections["Decisions in force"]
    assert decision.startswith("The exporter reads")


async def test_one_command_for_a_purpose_is_enough(app: App, folder: Path) -> None:
    for command in ("make test", "pytest tests/orders", "pytest tests/mails"):
        await told(app, f"Run the tests with `{command}`.", "procedure", source=CAPTURED)
    for other in ("Build with `make build`.", "Run `make docs` before a release.", "Run `make seed` once."):
        await told(app, other, "procedure", source=CAPTURED)
    lines = (await start(app, folder))["Also known"]
    assert len(lines) == 4
    assert sum(line.startswith("Run the tests with") for line in lines) == 1
    await told(app, "Run the tests with `make test-all`.", "procedure")
    assert any("make test-all" in line for line in (await start(app, folder))["Also known"])
