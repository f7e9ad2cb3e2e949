"""What the rules take from what the tools did: failures and their fixes, commands, commits, manifests; and what is carried on."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from spoken import Conversation

from mindhold.app.application import App
from mindhold.capture.extracted_items import SIGNS, CapturedItem, ExtractedItems
from mindhold.capture.rules.selection import extract_by_rules
from mindhold.model.memory import Kind
from mindhold.ports.transcripts import TranscriptStep

FAILURE = "Exit code 1\nTraceback (most recent call last):\nModuleNotFoundError: No module named 'tomli'"


async def taken(
    app: App, steps: Sequence[TranscriptStep], carried: Mapping[str, Any] | None = None
) -> ExtractedItems:
    return await extract_by_rules(app.engine, steps, carried or {}, folder="/srv/shop", judging=False)


async def found(app: App, steps: Sequence[TranscriptStep], kind: Kind) -> list[CapturedItem]:
    return [item for item in (await taken(app, steps)).items if item.kind == kind]


async def test_a_failure_and_what_mended_it(app: App) -> None:
    steps = (
        Conversation()
        .user("make the tests run")
        .bash("pytest -q 2>&1 | tail -20", FAILURE, failed=True)
        .claude("`tomli` is missing because Python 3.10 has no `tomllib`.")
        .edit("/srv/shop/pyproject.toml")
        .bash("cd /srv/shop && pytest -q", "12 passed")
        .claude("Done.")
        .steps
    )
    (item,) = await found(app, steps, Kind.ERROR)
    assert item.content == (
        "`pytest -q` failed: ModuleNotFoundError: No module named 'tomli'. "
        "`tomli` is missing because Python 3.10 has no `tomllib`. Fixed by editing `pyproject.toml`."
    )
    assert item.metadata[SIGNS] == ["modulenotfounderror: no module named tomli"]
    assert item.line == 2


async def test_a_failure_that_a_pager_hid(app: App) -> None:
    hidden = "--- FAIL: TestRetry (0.01s)\n    retry_test.go:12: expected 3 tries, got 1\nFAIL"
    steps = (
        Conversation()
        .user("?")
        .bash("go test ./... 2>&1 | tail -30", hidden)
        .edit("/srv/shop/retry.go")
        .bash("go test ./... 2>&1 | tail -30", "ok  \tshop\t0.2s")
        .claude("Fixed. `TestRetry` failed because `retry()` gave up after the first timeout.")
        .steps
    )
    (item,) = await found(app, steps, Kind.ERROR)
    assert "expected 3 tries, got 1" in item.content


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        ("grep -rn frobnicate src", "Exit code 1"),
        ("git checkout nowhere", "error: pathspec 'nowhere' did not match any file(s) known to git"),
        ("pytest -q", "The user doesn't want to proceed with this tool use."),
        ("pytest -q", "Exit code 1"),
    ],
)
async def test_slips_are_no_failures(app: App, command: str, answer: str) -> None:
    steps = (
        Conversation().user("?").bash(command, answer, failed=True).edit("a.py").bash(command, "fine").steps
    )
    assert await found(app, steps, Kind.ERROR) == []


async def test_a_failure_is_mended_in_a_later_call(app: App) -> None:
    first = Conversation().user("?").bash("pytest -q", FAILURE, failed=True).steps
    begun = await taken(app, first)
    assert begun.items == ()  # an error is told when it is solved
    later = Conversation().bash("pip install tomli", "ok").bash("pytest -q", "12 passed").steps
    ended = await taken(app, later, json.loads(json.dumps(begun.carried)))
    (item,) = [one for one in ended.items if one.kind == Kind.ERROR]
    assert item.metadata[SIGNS] == ["modulenotfounderror: no module named tomli"]
    again = await taken(app, [], ended.carried)
    assert again.items == ()


async def test_a_call_that_was_wrong_and_one_that_works(app: App) -> None:
    steps = (
        Conversation()
        .user("?")
        .bash("npm run tests", 'npm ERR! Missing script: "tests"', failed=True)
        .bash("npm run test", "ok")
        .steps
    )
    assert [item.content for item in await found(app, steps, Kind.PROCEDURE)] == [
        "Run the tests with `npm run test`."
    ]
    assert [item.content for item in await found(app, steps, Kind.GOTCHA)] == [
        '`npm run tests` doesn\'t work (npm ERR! Missing script: "tests"); `npm run test` does.'
    ]


async def test_a_merge_that_conflicted(app: App) -> None:
    conflict = (
        "Auto-merging src/pay.py\nCONFLICT (content): Merge conflict in src/pay.py\nAutomatic merge failed"
    )
    steps = (
        Conversation()
        .user("merge main")
        .bash("git merge origin/main", conflict, failed=True)
        .edit("/srv/shop/src/pay.py")
        .claude("Conflicts resolved: `charge()` keeps both the new `currency` argument and the retry.")
        .steps
    )
    (item,) = await found(app, steps, Kind.ERROR)
    assert item.content.startswith("`git merge origin/main` conflicted in `pay.py`. Conflicts resolved:")


async def test_commands_by_which_things_are_done(app: App) -> None:
    steps = (
        Conversation()
        .user("?")
        .bash("mise run fmt && mise run lint 2>&1 | tail -5", "0 issues.")
        .bash("make test", "ok")
        .steps
    )
    assert {item.content for item in await found(app, steps, Kind.PROCEDURE)} == {
        "Format the code with `mise run fmt`.",
        "Run the linter with `mise run lint`.",
        "Run the tests with `make test`.",
    }


@pytest.mark.parametrize(
    "command",
    [
        "ls -la",
        "git status",
        "pytest tests/test_a.py::test_b",
        "go test ./... -run TestRetry",
        "cat Makefile",
        "npm run test -- --grep pay",
    ],
)
async def test_looking_and_single_tests_are_no_procedure(app: App, command: str) -> None:
    steps = Conversation().user("?").bash(command, "ok").bash(command, "ok").steps
    assert await found(app, steps, Kind.PROCEDURE) == []


async def test_successes_are_counted_over_calls(app: App) -> None:
    steps = Conversation().bash("docker compose build web", "done").steps
    first = await taken(app, steps)
    assert first.items == ()
    second = await taken(app, steps, first.carried)
    assert [item.content for item in second.items] == ["Build with `docker compose build web`."]
    third = await taken(app, steps, second.carried)
    assert third.items == ()


async def test_a_command_that_was_given(app: App) -> None:
    text = "Done. Rebuild with:\n\n```bash\ngo build -o shop ./cmd/shop\n```\n"
    steps = Conversation().user("?").claude(text).steps
    assert [item.content for item in await found(app, steps, Kind.PROCEDURE)] == [
        "Rebuild with: `go build -o shop ./cmd/shop`"
    ]


async def test_what_a_program_printed_is_no_command(app: App) -> None:
    text = "You can run it and use this output:\n\n```\nenabled (manual)\n```\n"
    assert await found(app, Conversation().user("?").claude(text).steps, Kind.PROCEDURE) == []


async def test_commits_and_pull_requests_are_left_to_git(app: App) -> None:
    commit = "git add -A && git commit -m \"$(cat <<'EOF'\nRetry failed payments twice\n\nBecause banks time out.\nEOF\n)\""
    steps = (
        Conversation()
        .user("?")
        .bash(commit, "[main 1a2b3c4] Retry failed payments twice\n 2 files changed")
        .bash("gh pr create --title 'Retry payments' --body x", "https://github.com/acme/shop/pull/12")
        .bash("git commit -m 'wip'", "[main 1a2b3c5] wip\n 1 file changed")
        .bash("git commit -m 'Never made it'", "nothing to commit", failed=True)
        .steps
    )
    assert await found(app, steps, Kind.PROGRESS) == []  # git tells of them


@pytest.mark.parametrize(
    ("path", "text", "told"),
    [
        (
            "/srv/shop/go.mod",
            "     1→module acme.dev/shop\n     2→\n     3→go 1.24\n     4→\n     5→require (\n     6→\tgithub.com/spf13/cobra v1.8.0\n     7→\tgithub.com/jackc/pgx/v5 v5.5.0\n     8→)",
            "acme.dev/shop is a Go 1.24 module that depends on cobra, pgx (`go.mod`).",
        ),
        (
            "/srv/shop/package.json",
            '{"name": "shop", "dependencies": {"react": "19", "next": "15"}}',
            "shop is a Node package that depends on react, next (`package.json`).",
        ),
        (
            "/srv/shop/Cargo.toml",
            '[package]\nname = "shop"\n\n[dependencies]\ntokio = "1"\nserde = { version = "1" }\n',
            "shop is a Rust crate that depends on tokio, serde (`Cargo.toml`).",
        ),
        (
            "/srv/shop/pyproject.toml",
            '[project]\nname = "shop"\ndependencies = [\n  "fastapi>=0.100",\n  "sqlalchemy[asyncio]",\n]\n',
            "shop is a Python project that depends on fastapi, sqlalchemy (`pyproject.toml`).",
        ),
    ],
)
async def test_the_stack_by_its_manifest(app: App, path: str, text: str, told: str) -> None:
    steps = Conversation().user("?").tool("Read", path, text).steps
    assert [item.content for item in await found(app, steps, Kind.ARCHITECTURE)] == [told]


async def test_a_sub_agents_failures_count(app: App) -> None:
    steps = (
        Conversation()
        .bash("pytest -q", FAILURE, failed=True, aside=True)
        .bash("pip install tomli", "ok", aside=True)
        .bash("pytest -q", "12 passed", aside=True)
        .steps
    )
    assert len(await found(app, steps, Kind.ERROR)) == 1


async def test_nothing_is_picked_out_twice(app: App) -> None:
    steps = Conversation().user("Always run the linter before you commit.").steps
    first = await taken(app, steps)
    assert len(first.items) == 1
    assert (await taken(app, steps, first.carried)).items == ()


async def test_what_is_carried_stays_small(app: App) -> None:
    carried: Mapping[str, Any] = {}
    for number in range(60):
        talk = Conversation().user(f"Never use the `legacy_{number}` module in new code.")
        talk.bash(f"make build-{number}", f"Exit code 1\nKeyError: 'name{number}x'", failed=True)
        carried = (await taken(app, talk.steps, carried)).carried
    assert len(json.dumps(carried)) < 6_000


@pytest.mark.parametrize("carried", [{"troubles": [{}]}, {"counts": 3}, {"seen": 5}, {"troubles": "x"}])
async def test_what_is_carried_wrongly_is_forgotten(app: App, carried: dict[str, Any]) -> None:
    steps = Conversation().user("Always run the linter before you commit.").steps
    assert len((await taken(app, steps, carried)).items) == 1


async def test_every_item_has_its_line_and_few_tags(app: App) -> None:
    steps = (
        Conversation().user("hello").user("We decided to use PostgreSQL instead of SQLite for orders.").steps
    )
    (item,) = await found(app, steps, Kind.DECISION)
    assert item.line == 2
    assert "postgresql" in item.tags
    assert all(tag == tag.lower() for tag in item.tags)
    assert len(item.tags) <= 5


async def test_without_a_model_the_rules_alone_decide(opened: Any) -> None:
    async with opened(**{"embedding.provider": "none"}) as app:
        steps = Conversation().user("We decided to use PostgreSQL instead of SQLite for orders.").steps
        assert [item.kind for item in (await taken(app, steps)).items] == [Kind.DECISION]


async def test_with_a_model_near_repeats_are_dropped(knowing: App) -> None:
    steps = (
        Conversation()
        .user("?")
        .claude("Sessions are stored in `Redis` under `src/session/store.py` for one day.")
        .user("sure?")
        .claude("The sessions are kept in `Redis`, by `src/session/store.py`, for one day.")
        .steps
    )
    assert len(await found(knowing, steps, Kind.ARCHITECTURE)) == 1


async def test_a_command_that_was_asked_for_is_told_by_its_purpose(app: App) -> None:
    steps = Conversation().user("what is the build command?").claude("```bash\nmake build\n```").steps
    assert [item.content for item in await found(app, steps, Kind.PROCEDURE)] == ["Build with `make build`."]
