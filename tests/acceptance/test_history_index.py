"""The index of past conversations: what is read, what is left out, and what becomes of it when files change."""

from __future__ import annotations

import json
import logging
import os
import shutil
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from front_door import Open, run
from shelved_talks import SHOP, Shelf, everything, head, index, known, passages, told
from talks import append, claude, ran, user, write

import mindhold.history.index_pass as index_pass
from mindhold.app.application import App
from mindhold.history.index import BUSY, DISABLED, INDEX_HISTORY, LEFT, refresh
from mindhold.history.index_guard import index_turn, note_forgotten
from mindhold.hooks.environment import OWN_CALL_MARK, SKIP_MARK
from mindhold.model.errors import Refused
from mindhold.model.scope import Caller
from mindhold.ports.history import ConversationLabel
from mindhold.ports.transcripts import Role

DATA = Path(__file__).parents[3] / "shared" / "data" / "transcripts"
KEY = "sk-ant-api03-" + "Zq7Xw2Lm9Rt4Kp8Nc3Vb6Yh1"


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return Shelf(tmp_path / "claude")


@pytest.fixture
async def app(opened: Open, shelf: Shelf) -> AsyncIterator[App]:
    async with opened() as app:
        yield app


async def test_what_was_said_and_done_is_indexed(app: App, shelf: Shelf) -> None:
    file = shelf.talk(
        "s1",
        user("The warehouse API answers 403, why?"),
        claude("It wants a client certificate."),
        *ran("curl https://warehouse.example/stock", "403 Forbidden", call="c1", failed=True),
        claude("I set WAREHOUSE_CERT and the request passes."),
    )
    answer = await index(app)
    assert (answer.files, answer.conversations, answer.passages) == (1, 1, 1)
    assert (answer.bytes, answer.left, answer.warnings, answer.notice) == (file.stat().st_size, 0, [], "")
    one = known(app)["s1"]
    assert (one.file, one.project, one.prompts, one.model) == (file, SHOP, 1, "claude-opus-5-5")
    [passage] = passages(app, "s1")
    assert [(said.role, said.line) for said in passage.utterances] == [
        (Role.USER, 1),
        (Role.CLAUDE, 2),
        (Role.TOOL, 3),
        (Role.RESULT, 4),
        (Role.CLAUDE, 5),
    ]
    assert [match.conversation for match in app.engine.history.search(["certif"])][:1] == [one.row]


async def test_only_what_grew_is_read(app: App, shelf: Shelf) -> None:
    file = shelf.talk("s1", user("Where does the parcel go?"), claude("To the depot."))
    shelf.talk("s2", user("Paint the button green."), claude("It is green now."))
    await index(app)
    size = file.stat().st_size
    assert (await index(app)).bytes == 0
    append(file, *shelf.entries("s1", user("And the crate?"), claude("To the harbour."), start=2))
    answer = await index(app)
    assert (answer.files, answer.bytes) == (1, file.stat().st_size - size)
    assert [one.utterances[0].line for one in passages(app, "s1")] == [1, 3]
    assert "harbour" in told(app, "s1")
    assert known(app)["s1"].prompts == 2


async def test_a_line_that_cannot_be_read_is_named_and_the_rest_is_kept(
    app: App, shelf: Shelf, caplog: pytest.LogCaptureFixture
) -> None:
    file = shelf.talk("s1", user("The first line is fine."), claude("And the second."))
    with file.open("a", encoding="utf-8") as stream:
        stream.write('{"type": "user", "mess\n[1, 2]\n')
    append(file, *shelf.entries("s1", claude("The fifth line is fine too."), start=4))
    with caplog.at_level(logging.WARNING):
        answer = await index(app)
    assert [(one.file, one.line) for one in answer.warnings] == [(str(file), 3), (str(file), 4)]
    assert all(one.problem for one in answer.warnings)
    assert f"{file}, line 3" in caplog.text
    assert known(app)["s1"].bad_lines == (3, 4)
    assert "fifth line" in told(app, "s1")
    assert (await index(app)).warnings == []


async def test_a_file_that_nobody_said_anything_in_is_no_conversation_until_somebody_does(
    app: App, shelf: Shelf, caplog: pytest.LogCaptureFixture
) -> None:
    texts = [shelf.file(name) for name in ("notes", "poem")]
    for text in texts:
        write(text)
        text.write_text("This is\nno transcript\nat all.\n", encoding="utf-8")
    void, young = shelf.file("void"), shelf.talk("young", {"type": "custom-title", "customTitle": "Parcels"})
    void.write_bytes(b"")
    with caplog.at_level(logging.WARNING):
        answer = await index(app)
    assert answer.conversations == 0
    assert sorted((one.file, one.line) for one in answer.warnings) == sorted((str(one), 0) for one in texts)
    assert "no conversation" in answer.warnings[0].problem
    assert len(caplog.messages) == 1
    assert "1 more" in caplog.text
    assert known(app) == {}
    assert app.engine.history.stock().passages == 0
    assert (await index(app)).files == 0
    append(young, *shelf.entries("young", user("Where is the parcel?"), claude("In the depot."), start=1))
    append(void, *shelf.entries("void", user("Where is the crate?")))
    assert (await index(app)).conversations == 2
    assert known(app).keys() == {"young", "void"}
    assert known(app)["young"].title.text == "Parcels"
    assert "depot" in told(app, "young")


async def test_secrets_stay_out_of_it(app: App, shelf: Shelf) -> None:
    shelf.talk(
        "s1",
        user(f"Use the key {KEY} for the shop please."),
        claude(f"I put {KEY} in the environment."),
        *ran(f"export KEY={KEY}; deploy", f"deployed with {KEY}", call="c1"),
        {"type": "custom-title", "customTitle": f"Deploy with {KEY}"},
    )
    shelf.note("s1", f"# Deployment\nThe key is {KEY} for now.\n")
    await index(app)
    assert KEY not in everything(app)
    assert "[redacted:anthropic-key]" in told(app, "s1")
    assert KEY not in known(app)["s1"].title.text
    assert not app.engine.history.search(["zq7xw2lm9rt4kp8nc3vb6yh1"])


async def test_a_tools_output_is_kept_as_a_short_digest(app: App, shelf: Shelf) -> None:
    lines = "\n".join(f"collecting wheel number {number}" for number in range(2_000))
    output = f"Running the suite\n{lines}\nValueError: the ledger does not balance\n{lines}"
    shelf.talk("s1", user("Run the tests."), *ran("pytest", output, call="c1", failed=True))
    await index(app)
    [result] = [one for one in passages(app, "s1")[0].utterances if one.role is Role.RESULT]
    assert result.failed
    assert result.text.startswith("Running the suite")
    assert len(result.text) <= 300


async def test_the_line_that_tells_of_an_error_is_in_the_digest(app: App, shelf: Shelf) -> None:
    trace = "\n".join(f'  File "shop/{number}.py", line {number}' for number in range(20))
    output = f"Traceback (most recent call last):\n{trace}\nKeyError: 'parcel weight'\n"
    shelf.talk("s1", user("Run it."), *ran("python shop.py", output, call="c1", failed=True))
    await index(app)
    assert "KeyError: 'parcel weight'" in told(app, "s1")


async def test_turns_that_are_marked_and_our_own_calls_are_left_out(app: App, shelf: Shelf) -> None:
    file = shelf.talk(
        "s1",
        user("Water the garden."),
        claude("Done."),
        user(f"{SKIP_MARK} the surprise party is on Friday"),
        claude("I keep quiet about the balloons."),
    )
    shelf.talk("s2", user(f"Extract memories.\n{OWN_CALL_MARK}"), claude("A list of balloons."))
    await index(app)
    append(file, *shelf.entries("s1", claude("And about the cake."), user("Mow the lawn."), start=4))
    await index(app)
    assert known(app).keys() == {"s1"}
    said = everything(app)
    assert "garden" in said
    assert "lawn" in said
    assert not {"party", "balloons", "cake"} & set(said.replace(".", " ").split())
    assert (await index(app)).files == 0, "what is left out isn't read again"


async def test_what_is_excluded_goes_and_comes_back(opened: Open, shelf: Shelf) -> None:
    shelf.talk("s1", user("The recipe of the house."), cwd="/home/me/private/cook")
    shelf.talk("s2", user("The price of the house."), cwd=SHOP)
    async with opened() as app:
        await index(app)
        assert known(app).keys() == {"s1", "s2"}
    for pattern in ("/home/me/private", "cook", "*/private/*", "-home-me-private-cook"):
        async with opened(**{"history.exclude": pattern}) as app:
            answer = await index(app)
            assert (set(known(app)), answer.excluded) == ({"s2"}, 1), pattern
            assert not app.engine.history.search(["recip"])
            assert (await index(app)).files == 0, "it isn't read again"
        async with opened() as app:
            await index(app)
            assert known(app).keys() == {"s1", "s2"}
            assert "recipe" in told(app, "s1")


async def test_sub_agents_are_indexed_if_so_wanted(opened: Open, shelf: Shelf) -> None:
    main = shelf.talk("s1", user("Look into the tide tables."), claude("I ask somebody."))
    part = main.with_suffix("") / "subagents" / "agent-7.jsonl"
    write(
        part,
        *shelf.entries(
            "s1", user("Find the tides.", isSidechain=True), claude("Ebb at nine.", isSidechain=True)
        ),
    )
    async with opened() as app:
        await index(app)
        one = known(app)["agent-7"]
        assert (one.part_of, one.belongs_to, one.file) == ("s1", "s1", part)
        assert "Ebb at nine" in told(app, "agent-7")
    async with opened(**{"history.subagents": False}) as app:
        await index(app)
        assert known(app).keys() == {"s1"}
    async with opened() as app:
        await index(app)
        assert known(app).keys() == {"s1", "agent-7"}


async def test_notes_are_read_when_they_change(app: App, shelf: Shelf) -> None:
    shelf.talk("s1", user("Repair the clock tower."), claude("The spring was broken."))
    await index(app)
    assert known(app)["s1"].title == ConversationLabel("Repair the clock tower", "made")
    note = shelf.note("s1", "# The clock tower\n\nThe mainspring was replaced by a brass one.\n")
    await index(app)
    one = known(app)["s1"]
    assert one.title == ConversationLabel("The clock tower", "note")
    assert one.summary == ConversationLabel("The mainspring was replaced by a brass one", "note")
    assert [match.conversation for match in app.engine.history.search(["mainspr"])] == [one.row]
    note.write_text("# The clock tower\n\nA steel spring holds longer.\n", encoding="utf-8")
    os.utime(note, (1, 1))
    await index(app)
    assert "steel spring" in told(app, "s1")
    assert "brass" not in told(app, "s1")


async def test_files_that_are_gone_go_from_the_index(app: App, shelf: Shelf) -> None:
    file = shelf.talk("s1", user("The pelican lands at noon."))
    shelf.talk("s2", user("The heron lands at dusk."))
    await index(app)
    file.unlink()
    assert (await index(app)).vanished == 1
    assert known(app).keys() == {"s2"}
    assert not app.engine.history.search(["pelican"])


async def test_what_is_archived_outlives_its_file(opened: Open, shelf: Shelf) -> None:
    file = shelf.talk("s1", user("The pelican lands at noon."))
    async with opened(**{"history.archive": True}) as app:
        await index(app)
        file.unlink()
        assert (await index(app)).vanished == 1
        assert known(app)["s1"].gone
        assert "pelican" in told(app, "s1")
        assert (await index(app)).vanished == 0
        shelf.talk("s1", user("The pelican lands at noon."))
        await index(app)
        assert not known(app)["s1"].gone
        assert len(passages(app, "s1")) == 1


async def test_a_folder_that_is_not_mounted_loses_nothing(app: App, shelf: Shelf) -> None:
    shelf.talk("s1", user("The pelican lands at noon."))
    await index(app)
    away = shelf.folder.with_name("away")
    shelf.folder.rename(away)
    assert (await index(app)).vanished == 0
    assert known(app).keys() == {"s1"}
    away.rename(shelf.folder)
    assert (await index(app)).bytes == 0


async def test_what_was_forgotten_does_not_come_back(app: App, shelf: Shelf) -> None:
    file = shelf.talk("s1", user("The pelican lands at noon."))
    write(file.with_suffix("") / "subagents" / "agent-1.jsonl", *shelf.entries("s1", user("Count pelicans.")))
    shelf.talk("s2", user("The heron lands at dusk."))
    await index(app)
    await note_forgotten(app.engine, "s1")
    await index(app)
    append(file, *shelf.entries("s1", claude("So it does."), start=1))
    await index(app, all=True)
    assert known(app).keys() == {"s2"}


@pytest.mark.parametrize(
    "text", ["Short.", "Something else entirely, and longer than what was there before it."]
)
async def test_a_file_that_was_replaced_is_read_anew(app: App, shelf: Shelf, text: str) -> None:
    shelf.talk("s1", user("The pelican lands at noon, as it always does."))
    await index(app)
    row = known(app)["s1"].row
    shelf.talk("s1", user(text))
    await index(app)
    assert known(app)["s1"].row == row
    assert text in told(app, "s1")
    assert "pelican" not in told(app, "s1")
    assert known(app)["s1"].title.text == text.rstrip(".")


async def test_everything_can_be_read_anew(app: App, shelf: Shelf) -> None:
    file = shelf.talk("s1", user("The pelican lands at noon."), claude("At noon it is."))
    await index(app)
    asked_for = replace(known(app)["s1"], summary=ConversationLabel("Of birds.", "model"))
    app.engine.history.put(asked_for, [])
    answer = await index(app, all=True)
    assert (answer.bytes, answer.files) == (file.stat().st_size, 1)
    assert len(passages(app, "s1")) == 1
    assert known(app)["s1"].summary == ConversationLabel("Of birds.", "model")
    append(file, *shelf.entries("s1", claude("And at dusk again."), start=2))
    await index(app)
    assert known(app)["s1"].summary == ConversationLabel("Of birds.", "model")


async def test_titles_and_summaries_are_the_conversations_own(app: App, shelf: Shelf) -> None:
    shelf.talk(
        "s1",
        user("Repair the clock."),
        {"type": "ai-title", "title": "Clock repair"},
        {"type": "custom-title", "customTitle": "My clock"},
        {"type": "ai-title", "title": "Clock repair, again"},
    )
    shelf.talk("s2", user("Repair the bell."), {"type": "ai-title", "title": "Bell repair"})
    shelf.talk("s3", user("Repair the gate."), claude("The hinge was oiled."))
    await index(app)
    assert known(app)["s3"].title == ConversationLabel("Repair the gate", "made")
    shelf.talk(
        "s4", {"type": "summary", "summary": "Gate hinges", "leafUuid": "s3-1"}, user("Repair the fence.")
    )
    await index(app)
    titles = {session: one.title for session, one in known(app).items()}
    assert titles == {
        "s1": ConversationLabel("My clock", "custom"),
        "s2": ConversationLabel("Bell repair", "ai"),
        "s3": ConversationLabel("Gate hinges", "summary"),
        "s4": ConversationLabel("Repair the fence", "made"),
    }
    assert known(app)["s3"].summary == ConversationLabel("Gate hinges", "summary")
    assert head(app, "s3").utterances[0].text == "Gate hinges"
    assert known(app)["s2"].summary.by == "made"


async def test_only_one_indexes_at_a_time(app: App, shelf: Shelf) -> None:
    shelf.talk("s1", user("The pelican lands at noon."))
    with index_turn(app.engine.settings.home) as mine:
        assert mine
        answer = await index(app)
        assert (answer.busy, answer.files, answer.notice) == (True, 0, BUSY)
    assert (await index(app)).files == 1


async def test_a_bounded_pass_goes_on_the_next_time(app: App, shelf: Shelf) -> None:
    sizes = [
        shelf.talk(f"s{number}", user(f"Crate {number} goes to the harbour.")).stat().st_size
        for number in range(5)
    ]
    answer = await index(app, most_bytes=1)
    assert (answer.files, answer.left, answer.notice) == (1, sum(sizes) - answer.bytes, LEFT)
    while answer.left:
        answer = await index(app, most_bytes=1)
    assert known(app).keys() == {f"s{number}" for number in range(5)}


async def test_named_files_only(app: App, shelf: Shelf) -> None:
    first = shelf.talk("s1", user("The pelican lands at noon."))
    shelf.talk("s2", user("The heron lands at dusk."))
    await index(app, files=[str(first)])
    assert known(app).keys() == {"s1"}
    first.unlink()
    await index(app, files=[str(first)])
    assert known(app) == {}


async def test_processes_beside_give_the_same(
    opened: Open, shelf: Shelf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(12):
        shelf.talk(f"s{number}", *[user(f"Crate {number} goes to harbour {part}.") for part in range(40)])
    said: list[dict[str, str]] = []
    for name, workers in (("one", 0), ("many", 2)):
        monkeypatch.setattr(index_pass, "MUCH", -1)
        async with opened(home=tmp_path / name) as app:
            answer = await index(app, workers=workers)
            assert (answer.conversations, answer.left) == (12, 0)
            said.append({session: told(app, session) for session in known(app)})
    assert said[0] == said[1]


async def test_progress_goes_to_the_end(app: App, shelf: Shelf) -> None:
    size = shelf.talk("s1", user("The pelican lands at noon.")).stat().st_size
    steps: list[tuple[str, int, int | None]] = []
    await app.run(INDEX_HISTORY, INDEX_HISTORY.takes(), progress=lambda *step: steps.append(step))
    assert steps[0] == ("index", 0, size)
    assert steps[-1] == ("index", size, size)


async def test_a_question_reads_what_is_new(app: App, shelf: Shelf) -> None:
    file = shelf.talk("s1", user("The pelican lands at noon."))
    assert await refresh(app.engine) == 0
    append(file, *shelf.entries("s1", claude("At noon it is."), start=1))
    assert await refresh(app.engine) == 0
    assert "At noon it is" in told(app, "s1")


async def test_a_damaged_index_is_made_anew(opened: Open, shelf: Shelf) -> None:
    shelf.talk("s1", user("The pelican lands at noon."))
    async with opened() as app:
        await index(app)
        database = app.loaded.settings.history_index
    database.write_bytes(b"no database at all" * 1_000)
    async with opened() as app:
        await index(app)
        assert known(app).keys() == {"s1"}


async def test_nothing_is_indexed_where_nobody_wants_it(opened: Open, shelf: Shelf) -> None:
    shelf.talk("s1", user("The pelican lands at noon."))
    async with opened(**{"history.enabled": False}) as app:
        answer = await index(app)
        assert (answer.files, answer.notice) == (0, DISABLED)


async def test_it_is_the_owners_only(app: App) -> None:
    stranger = Caller("mallory", bound=True, owner=False)
    with pytest.raises(Refused):
        await app.run(INDEX_HISTORY, INDEX_HISTORY.takes(), caller=stranger)


async def test_shared_transcripts_are_indexed_without_an_error_that_is_not_told(
    app: App, shelf: Shelf
) -> None:
    originals = sorted(DATA.glob("*.jsonl"))
    folder = shelf.file("x").parent
    folder.mkdir(parents=True)
    for file in originals:
        shutil.copy(file, folder / file.name)
    answer = await index(app)
    assert answer.files == len(originals)
    named = {(Path(one.file).name, one.line) for one in answer.warnings}
    for file in originals:
        lines = enumerate(file.read_bytes().split(b"\n"), 1)
        broken = {number for number, line in lines if line.strip() and not _has_objects(line)}
        at = {line for name, line in named if name == file.name}
        assert at <= broken or (at == {0} and file.stem not in known(app))
        assert not broken or any(name == file.name for name, _ in named)
    assert (await run(app, INDEX_HISTORY)).files == 0


def _has_objects(line: bytes) -> bool:
    """One, or several without a line break between them."""
    text, decoder = line.decode("utf-8", "replace").strip(), json.JSONDecoder()
    try:
        while text:
            value, end = decoder.raw_decode(text)
            text = text[end:].strip()
            if not isinstance(value, dict):
                return False
    except ValueError:
        return False
    return True
