"""A merged text replaces its sources only where it says what they say; it may say it as a person would."""

from __future__ import annotations

import pytest

from mindhold.text.faithfulness import has_known_values, is_faithful

POSTGRES, REDIS = "Postgres listens on port 5432", "Redis listens on port 6379"
NATURAL = [
    (
        ["Always run `make lint` before committing.", "Run `make lint` before you commit."],
        "Run `make lint` before every commit.",
    ),
    (
        ["Sessions are kept in Redis", "Session TTL is 30 minutes"],
        "Sessions are kept in Redis with a TTL of 30 minutes",
    ),
    (
        ["The API listens on port 8080", "The API needs a JWT in the Authorization header"],
        "The API listens on port 8080 and requires a JWT in the Authorization header.",
    ),
    (["Never push to main.", "Never rebase main."], "Never push to or rebase main."),
    (
        ["Do not add comments to the code", "Do not add docstrings to private functions"],
        "Do not add comments to the code or docstrings to private functions.",
    ),
    (
        ["The importer is reviewed on Mondays", "Ada reviews the importer"],
        "Ada reviews the importer on Mondays",
    ),
    (["We use Postgres for orders", "Orders are stored in Postgres"], "Orders are stored in Postgres"),
    (
        ["Tests need Docker to be running", "The integration tests start containers with Docker Compose"],
        "The integration tests start containers with Docker Compose, so Docker must be running.",
    ),
    (
        ["The frontend is built with Vite", "The frontend uses React 18"],
        "The frontend uses React 18 and is built with Vite",
    ),
    (
        ["Use pnpm instead of npm", "The lock file is pnpm-lock.yaml"],
        "Use pnpm, not npm; the lock file is pnpm-lock.yaml.",
    ),
    (
        ["Migrations live in db/migrations", "Run migrations with `make migrate`"],
        "Migrations live in db/migrations and are run with `make migrate`",
    ),
    (
        [
            "The worker retries a failed job three times",
            "Failed jobs are moved to the dead letter queue after three retries",
        ],
        "The worker retries a failed job three times and then moves it to the dead letter queue",
    ),
    (
        ["The config is read from config.toml", "Environment variables override config.toml"],
        "The config is read from `config.toml`, and environment variables override it.",
    ),
    (
        ["Uploads are limited to 20 MB", "Uploads are scanned by ClamAV"],
        "Uploads are limited to 20 MB and scanned by ClamAV",
    ),
    (
        ["The user wants small commits", "Commits should be split by domain"],
        "The user wants small commits that are split by domain.",
    ),
    (
        ["`src/auth.ts` checks the token", "Tokens are signed with RS256"],
        "`src/auth.ts` checks the token, which is signed with RS256.",
    ),
    (
        ["Logs go to stdout", "Logs are JSON, one object a line"],
        "Logs go to stdout as JSON, one object a line.",
    ),
    (
        ["The nightly job rebuilds the index", "Rebuilding the index takes 20 minutes"],
        "The nightly job rebuilds the index, which takes 20 minutes.",
    ),
    (
        ["Feature flags live in LaunchDarkly", "Feature flags are removed after a release"],
        "Feature flags live in LaunchDarkly and are removed after a release.",
    ),
    (
        ["The CLI is written in Go 1.22", "The CLI uses cobra for its commands"],
        "The CLI is written in Go 1.22 and uses cobra for its commands.",
    ),
    (
        ["Don't mock the database in tests", "Tests use a real PostgreSQL in a container"],
        "Tests use a real PostgreSQL in a container; don't mock the database.",
    ),
    (
        ["Money is stored in cents", "Amounts of money are integers"],
        "Money is stored as integer amounts in cents.",
    ),
]
UNFAITHFUL = [
    (
        ["The worker calls the server over gRPC", "The worker retries three times"],
        "The server calls the worker over gRPC and the worker retries three times",
    ),
    (
        ["Migrate from npm to pnpm", "pnpm is pinned to version 9"],
        "Migrate from pnpm to npm, pinned to version 9",
    ),
    (["Deploy with the blue button", "Deploy with the green button"], "Deploy with the green button"),
    (
        ["Sessions expire after 30 minutes", "Tokens expire after 15 minutes"],
        "Sessions expire after 15 minutes and tokens after 30 minutes",
    ),
    (
        ["Listen on port 80 behind nginx", "Listen on port 8080 without nginx"],
        "Listen on port 8080 behind nginx",
    ),
    (
        ["Use tabs in Go files", "Use spaces in Python files"],
        "Use spaces in Go files and tabs in Python files",
    ),
    (
        ["The build may fail on Windows", "The build fails without network"],
        "The build fails on Windows and without network",
    ),
    (
        ["Only admins can delete projects", "Admins can archive projects"],
        "Admins can delete and archive projects",
    ),
    (
        ["Do not commit generated files", "Generated files live in build/"],
        "Commit generated files, which live in build/",
    ),
    (
        ["The cache is cleared before each deploy", "The cache lives in Redis"],
        "The cache lives in Redis and is cleared after each deploy",
    ),
    (
        ["Version 2 is faster than version 1", "Version 1 is deprecated"],
        "Version 1 is faster than version 2 and deprecated",
    ),
    (
        ["Tests run against SQLite", "Production runs on PostgreSQL"],
        "Tests run against PostgreSQL and production runs on SQLite",
    ),
    (
        ["Set RETRY_LIMIT to 5", "The client retries on 503"],
        "Set RETRY_LIMIT to 3; the client retries on 503",
    ),
    (["Logs go to stdout", "Errors go to Sentry"], "Logs and errors go to Sentry"),
    (
        ["The user wants small commits", "Commits should be split by domain"],
        "The user wants large commits that are split by domain",
    ),
    (["Never log tokens", "Log each request with its id"], "Log each request with its id and token"),
    (
        ["Staging deploys from develop", "Production deploys from main"],
        "Staging deploys from main and production deploys from develop",
    ),
    (["Retry GET requests", "Do not retry POST requests"], "Retry POST requests, do not retry GET requests"),
    (["Dependencies are updated on Mondays", "Ada reviews updates"], "Ada updates dependencies on Mondays"),
    (["Backups run nightly", "Backups are kept for 30 days"], "Backups run nightly"),
    (["Run `make test` first", "Run `make lint` first"], "Run `make test` first"),
    (
        ["The API returns 404 for unknown ids", "The API returns 410 for deleted ids"],
        "The API returns 410 for unknown ids and 404 for deleted ids",
    ),
]


@pytest.mark.parametrize(("sources", "content"), NATURAL)
def test_a_natural_merge_passes(sources: list[str], content: str) -> None:
    assert is_faithful(content, sources)
    assert is_faithful(content, sources[::-1])


@pytest.mark.parametrize(("sources", "content"), UNFAITHFUL)
def test_what_loses_turns_or_adds_something_does_not(sources: list[str], content: str) -> None:
    assert not is_faithful(content, sources)
    assert not is_faithful(content, sources[::-1])


def test_values_that_nobody_was_shown_are_known_as_made_up() -> None:
    shown = "the api listens on port 8080, see docs/api.md".casefold()
    assert has_known_values("See docs/api.md for port 8080.", shown)
    assert has_known_values("The API has a port.", shown)
    for made_up in ("The API listens on port 9090.", "See docs/web.md.", "Since 2024-05-01 it has a port."):
        assert not has_known_values(made_up, shown)
