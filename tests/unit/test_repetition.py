"""Two captured memories become one only where nothing that either says is lost."""

from __future__ import annotations

import pytest

from mindhold.capture.condensation_plan import plan_by_rules
from mindhold.capture.extracted_items import signs_metadata
from mindhold.model.memory import Kind, Memory
from mindhold.testing.builders import Builder
from mindhold.text.repetition import tells_trap_too

SAME_FIX = [
    (
        "`npm test` failed: Cannot find module 'vite'. Fixed by running `npm ci`.",
        "Cannot find module 'vite' in `npm test`, solved by running `npm ci`.",
    ),
    (
        "`pytest` failed with a locked database because two workers shared one file. Fixed by setting `-n 1`.",
        "`pytest` failed with a locked database. Fixed by setting `-n 1`.",
    ),
    (
        "The migration 0042 failed on a missing column; running `make migrate` again fixed it.",
        "The migration 0042 failed on a missing column. The fix was to run `make migrate` again.",
    ),
    (
        "`docker build` failed: no space left on device. Resolved by `docker system prune`.",
        "`docker build` failed: no space left on device. Fixed with `docker system prune`.",
    ),
    (
        "The build broke because `tsconfig.json` had no `jsx` option. Solved by adding `jsx` to `tsconfig.json`.",
        "The build broke: `tsconfig.json` had no `jsx` option. Solved by adding `jsx` to `tsconfig.json`.",
    ),
]
SAME_STATEMENT = [
    ("Always run `make lint` before committing.", "Run `make lint` before you commit."),
    ("Never push to main.", "Don't push to main."),
    ("We are using PostgreSQL 16 for the orders.", "We use PostgreSQL 16 for the orders"),
    ("The importer lives in src/importer.py.", "The importer is living in `src/importer.py`"),
    ("We use pnpm for packages because npm was slow.", "We use pnpm for packages."),
    ("Commit messages should follow `docs/COMMITS.md`.", "Commit messages must follow docs/COMMITS.md"),
    ("The API listens on port 8080. It needs a token.", "The API is listening on port 8080."),
    ("Please put each migration into `db/migrations`.", "Put each migration into `db/migrations`"),
]
OTHER_MATTERS = [
    ("The API listens on port 8080.", "The API listens on port 8081."),
    ("Run the linter with `bun run lint`.", "Run the linter with `bun run lint:fix`."),
    ("Run the tests with `mise run test`.", "Run the integration tests with `mise run test:integration`."),
    ("Never push to main.", "Push to main."),
    ("Use Redis for sessions.", "Use Redis for sessions only."),
    ("Deploy with the blue button.", "Deploy with the green button."),
    ("The worker calls the server.", "The server calls the worker."),
    ("Ada reviews the importer of Grace.", "Grace reviews the importer of Ada."),
    ("Build with `go build -o app ./cmd/app`.", "Build with `go build -race -o app ./cmd/app`."),
    ("Invoices are kept for two years.", "Invoices are kept for ten years."),
    ("Run the tests before a deploy.", "Run the tests after a deploy."),
    ("The upload may fail on Windows.", "The upload fails on Windows."),
    ("Migrate from npm to pnpm.", "Migrate from pnpm to npm."),
    ("Version 1 is slower than version 2.", "Version 2 is slower than version 1."),
]
OTHER_FIXES = [
    (
        "`bun run test` failed: All fail. Fixed by editing `App.tsx`.",
        "`bun run test` failed: All fail. Fixed by editing `RemediateTab.tsx`.",
    ),
    (
        "`bun run test` failed: All fail. Fixed by restarting the worker.",
        "`bun run test` failed: All fail. Fixed by restarting the database.",
    ),
    (
        "`npm test` failed: Cannot find module 'vite'. Fixed by removing `node_modules`.",
        "`npm test` failed: Cannot find module 'vite'. Fixed by restoring `node_modules`.",
    ),
    (
        "The login failed with 401 after the upgrade. Fixed by `make keys`.",
        "The login failed with 403 after the upgrade. Fixed by `make keys`.",
    ),
    (
        "The client failed to connect. Fixed by `make certs`.",
        "The server failed to connect. Fixed by `make certs`.",
    ),
    (
        "The build failed on Linux. Fixed by `make deps`.",
        "The build failed on macOS. Fixed by `make deps`.",
    ),
    ("The cache failed. Fixed by using `--no-cache`.", "The cache failed. Fixed by not using `--no-cache`."),
    ("The cache failed. Fixed by `make cache`.", "The cache failed. Fixed by `make cache-clean`."),
]


def pile(*texts: str, kind: Kind, **fields: object) -> list[Memory]:
    build = Builder()
    return [build.memory(text, kind=kind, **fields) for text in texts]


def merged(memories: list[Memory], *, alike: bool) -> list[str]:
    plan = plan_by_rules(memories, alike=lambda _one, _other: alike)
    assert plan.replaced == ()
    return [merge.content for merge in plan.merges]


@pytest.mark.parametrize(("best", "other"), SAME_FIX)
@pytest.mark.parametrize("turned", [False, True])
def test_one_fix_that_stands_twice_becomes_one(best: str, other: str, turned: bool) -> None:
    texts = (other, best) if turned else (best, other)
    [content] = merged(pile(*texts, kind=Kind.ERROR), alike=False)
    assert content in (best, other)
    assert len(content) == max(len(best), len(other))


@pytest.mark.parametrize(("best", "other"), SAME_STATEMENT)
@pytest.mark.parametrize("turned", [False, True])
def test_one_statement_that_stands_twice_becomes_one(best: str, other: str, turned: bool) -> None:
    texts = (other, best) if turned else (best, other)
    assert len(merged(pile(*texts, kind=Kind.DECISION), alike=True)) == 1


@pytest.mark.parametrize(("one", "other"), [*OTHER_MATTERS, *OTHER_FIXES])
@pytest.mark.parametrize("kind", [Kind.DECISION, Kind.ERROR])
def test_what_differs_in_what_matters_stays(one: str, other: str, kind: Kind) -> None:
    signs = signs_metadata(["error: all fail"])
    for texts in ((one, other), (other, one)):
        assert merged(pile(*texts, kind=kind, metadata=signs), alike=True) == []


def test_one_fix_that_stands_three_times_becomes_one_with_the_words_that_say_most() -> None:
    texts = (
        "Cannot find module 'vite'. Fixed by `npm ci`.",
        "`npm test` failed: Cannot find module 'vite', because the lock file had changed. Fixed by running `npm ci`.",
        "`npm test` failed: Cannot find module 'vite'. Solved by `npm ci`.",
    )
    others = ("`npm test` failed: port 3000 is taken. Fixed by `npm ci`.",)
    assert merged(pile(*texts, *others, kind=Kind.ERROR), alike=False) == [texts[1]]


def test_the_same_message_in_other_words_needs_vectors_that_agree() -> None:
    texts = (
        "The suite broke since the seed was stale. Fixed by `make seed`.",
        "The suite broke on stale fixtures. Fixed by `make seed`.",
    )
    signs = signs_metadata(["error: duplicate key"])
    memories = pile(*texts, kind=Kind.ERROR, metadata=signs)
    assert merged(memories, alike=False) == []
    assert len(merged(memories, alike=True)) == 1
    assert merged(pile(*texts, kind=Kind.ERROR), alike=True) == []


VITE = "`npm run build` failed: Cannot find module 'vite'. Fixed by `npm install`."


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (VITE, "The build fails with Cannot find module 'vite' until you run npm install."),
        (
            VITE,
            "npm run build says Cannot find module 'vite' when dependencies are missing; npm install fixes it.",
        ),
        (
            "Port 5432 was taken by another PostgreSQL; the tests use 5433.",
            "Tests need port 5433 because port 5432 is taken by another PostgreSQL.",
        ),
    ],
)
def test_one_failure_in_other_words_is_the_same_trap(one: str, other: str) -> None:
    assert tells_trap_too(one, other) or tells_trap_too(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (VITE, VITE.replace("vite", "vitest")),
        (VITE, "`npm test` failed: Cannot find module 'vite'. Fixed by `npm ci`."),
        (
            "The billing service crashes at start when its config file is missing.",
            "The auth service crashes at start when its config file is missing.",
        ),
        (
            "Port 5432 was taken by another PostgreSQL; the tests use 5433.",
            "Port 5432 was taken by another PostgreSQL; the tests use 5434.",
        ),
        (
            "`go build -o app ./cmd/app` fails without cgo on Alpine.",
            "`go build -race -o app ./cmd/app` fails without cgo on Alpine.",
        ),
        ("The importer always fails on empty files.", "The importer sometimes fails on empty files."),
        ("It fails.", "It fails."),
    ],
)
def test_another_failure_is_another_trap(one: str, other: str) -> None:
    assert not tells_trap_too(one, other)
    assert not tells_trap_too(other, one)


def test_what_says_more_of_a_failure_tells_what_the_other_does_not() -> None:
    because = f"{VITE} The lock file had changed."
    assert tells_trap_too(because, VITE)
    assert not tells_trap_too(VITE, because)
