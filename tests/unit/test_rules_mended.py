"""What the rules take from failures that were mended: by which command, and how the report accounts for it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from spoken import Conversation

from mindhold.app.application import App
from mindhold.capture.extracted_items import SIGNS, CapturedItem
from mindhold.capture.rules.selection import extract_by_rules
from mindhold.model.memory import Kind
from mindhold.ports.transcripts import TranscriptStep

NOT_ITERABLE = "Exit code 1\nTraceback (most recent call last):\nTypeError: 'NoneType' object is not iterable"


async def found(app: App, steps: Sequence[TranscriptStep], kind: Kind) -> list[CapturedItem]:
    items = (await extract_by_rules(app.engine, steps, {}, folder="/srv/shop", judging=False)).items
    return [item for item in items if item.kind == kind]


async def test_a_command_that_changes_something_mends_as_an_edit_does(app: App) -> None:
    trace = "Traceback (most recent call last):\nFileNotFoundError: [Errno 2] No such file or directory: 'settings.json'"
    steps = (
        Conversation()
        .user("Check it.")
        .bash("python3 check.py", f"Exit code 1\n{trace}", failed=True)
        .bash("ls -la", "check.py")
        .bash("echo '{}' > settings.json", "")
        .bash("python3 check.py", "all good")
        .steps
    )
    [item] = await found(app, steps, Kind.ERROR)
    assert "FileNotFoundError" in item.content
    assert "Fixed by `echo '{}' > settings.json`." in item.content
    assert item.metadata[SIGNS]


@pytest.mark.parametrize(
    ("command", "failure", "mend", "again", "how"),
    [
        (
            "pytest -q",
            "ModuleNotFoundError: No module named 'requests'",
            "pip install requests",
            "",
            "Fixed by `pip install requests`.",
        ),
        ("npm run build", "Error: Cannot find module 'vite'", "pnpm install", "", "Fixed by `pnpm install`."),
        ("python3 a.py", NOT_ITERABLE, "sed -i 's/x/y/' a.py", "", "Fixed by `sed -i 's/x/y/' a.py`."),
        (
            "node server.js",
            "Error: listen EADDRINUSE: address already in use :::3000",
            "",
            "PORT=3001 node server.js",
            "Worked as `PORT=3001 node server.js`.",
        ),
        (
            "make deploy",
            "AWS_PROFILE is not set\nmake: *** [Makefile:4: deploy] Error 1",
            "",
            "AWS_PROFILE=shop make deploy",
            "Worked as `AWS_PROFILE=shop make deploy`.",
        ),
    ],
)
async def test_how_a_command_was_mended(
    app: App, command: str, failure: str, mend: str, again: str, how: str
) -> None:
    talk = Conversation().user("?").bash(command, failure, failed=True)
    if mend:
        talk.bash(mend, "ok")
    [item] = await found(app, talk.bash(again or command, "ok").steps, Kind.ERROR)
    assert item.content.startswith(f"`{command}` failed: ")
    assert item.content.endswith(how)
    assert item.metadata[SIGNS]


async def test_what_was_not_there_is_brought_by_a_command_not_by_an_edit(app: App) -> None:
    talk = Conversation().user("?").bash("npm test", "Error: Cannot find module 'vite'", failed=True)
    steps = talk.edit("readme.md").bash("npm install", "ok").bash("npm test", "ok").steps
    [item] = await found(app, steps, Kind.ERROR)
    assert item.content.endswith("Fixed by `npm install`.")


@pytest.mark.parametrize(
    ("report", "told"),
    [
        (
            "Fixed. The crash was because `total()` got None; it now treats None as an empty list.",
            "The crash was because `total()` got None; it now treats None as an empty list.",
        ),
        (
            "The script failed because the list was None. I changed `total()` to take an empty one.",
            "The script failed because the list was None. I changed `total()` to take an empty one.",
        ),
        ("All tests pass.", ""),
        ("The issue was that I was editing the wrong file.", ""),
        ("It failed maybe because of the cache.", ""),
    ],
)
async def test_the_report_says_why_and_how(app: App, report: str, told: str) -> None:
    talk = Conversation().user("?").bash("python3 a.py", NOT_ITERABLE, failed=True).edit("/srv/shop/a.py")
    items = await found(app, talk.bash("python3 a.py", "0").claude(report).steps, Kind.ERROR)
    # Without a cause, which file was edited says nothing.
    failure = "`python3 a.py` failed: TypeError: 'NoneType' object is not iterable."
    assert [item.content for item in items] == ([f"{failure} {told}"] if told else [])


async def test_a_report_on_two_failures_is_given_to_the_one_that_it_speaks_of(app: App) -> None:
    steps = (
        Conversation()
        .user("?")
        .bash("npm test", "Error: Cannot find module 'vite'", failed=True)
        .bash("python3 a.py", "KeyError: 'order_amount'", failed=True)
        .edit("a.py")
        .bash("npm install", "ok")
        .bash("npm test", "ok")
        .bash("python3 a.py", "ok")
        .claude("Both work. The KeyError was because `order_amount` was missing; it now defaults to 0.")
        .steps
    )
    modules, keys = await found(app, steps, Kind.ERROR)
    assert modules.content.endswith("Fixed by `npm install`.")
    assert keys.content.endswith("The KeyError was because `order_amount` was missing; it now defaults to 0.")


async def test_looking_mends_nothing(app: App) -> None:
    trace = "Traceback (most recent call last):\nKeyError: 'amount'"
    steps = (
        Conversation()
        .user("Check it.")
        .bash("python3 check.py", f"Exit code 1\n{trace}", failed=True)
        .bash("cat check.py | grep amount 2>/dev/null", "amount")
        .bash("python3 check.py", "all good")
        .steps
    )
    assert await found(app, steps, Kind.ERROR) == []


async def test_a_call_that_the_program_knows_works_though_its_tests_fail(app: App) -> None:
    steps = (
        Conversation()
        .user("Test it.")
        .bash("kit bun run test", "Exit code 2\nerror: unrecognized subcommand 'bun'", failed=True)
        .bash("bun run test", "Exit code 1\n 3 pass\n 1 fail", failed=True)
        .steps
    )
    [item] = await found(app, steps, Kind.GOTCHA)
    assert item.content == (
        "`kit bun run test` doesn't work (error: unrecognized subcommand 'bun'); `bun run test` does."
    )


async def test_reading_the_settings_mends_nothing(app: App) -> None:
    talk = Conversation().user("?").bash("pytest -q", "E   ValueError: no signing key", failed=True)
    steps = talk.bash("git config --get commit.gpgsign", "true").bash("pytest -q", "3 passed").steps
    assert "git config" not in " ".join(item.content for item in await found(app, steps, Kind.ERROR))


@pytest.mark.parametrize("command", ["make deploy --dry-run", "npx --yes --package renovate -- validator"])
async def test_what_only_tries_or_names_a_package_is_no_procedure(app: App, command: str) -> None:
    steps = Conversation().user("?").bash(command, "ok").bash(command, "ok").steps
    assert await found(app, steps, Kind.PROCEDURE) == []
