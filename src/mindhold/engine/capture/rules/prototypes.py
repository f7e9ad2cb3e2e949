"""Sentences of the sort that each kind of memory is made of, and of the sort that is only talk."""

from __future__ import annotations

from collections.abc import Mapping

from mindhold.model.memory import Kind

PROTOTYPES: Mapping[Kind, tuple[str, ...]] = {
    Kind.DECISION: (
        "We use PostgreSQL instead of MongoDB because we need transactions.",
        "The retry logic was moved from the client to the queue worker.",
        "The endpoint should return 404 rather than an empty list.",
        "Let's keep the old flag as an alias and drop it in version 3.",
        "Caching is deliberately left out of the first version.",
    ),
    Kind.ERROR: (
        "The build failed because the lock file was out of date; running npm install fixed it.",
        "The crash was caused by a nil pointer when the config file is missing.",
        "Fixed the race condition by locking the session map.",
        "The test failed since the mock returned a string instead of bytes.",
    ),
    Kind.GOTCHA: (
        "The client must be closed before exit, otherwise events are lost.",
        "The parser returns None when the header is missing.",
        "The default timeout is 0, which means it waits forever.",
        "File names are compared case-sensitively on Linux only.",
    ),
    Kind.PATTERN: (
        "All handlers return a result type instead of throwing.",
        "Test files live next to the code they test and end in _test.go.",
        "The codebase uses factory functions named new_something.",
    ),
    Kind.ARCHITECTURE: (
        "The settings loader lives in src/config.py and merges project and user files.",
        "The API server consists of a router, a service layer and a repository layer.",
        "Sessions are stored in Redis under the key session:<id>.",
        "parse_args reads the command line and calls run.",
        "The frontend uses React with TanStack Query.",
    ),
    Kind.PROGRESS: (
        "Added a --json flag to the export command.",
        "Updated the CI workflow to run on pull requests.",
        "Refactored the session store into its own package.",
        "The migration of the remaining tables still needs to be done.",
        "Removed the unused helper functions from utils.ts.",
    ),
}

CHATTER: tuple[str, ...] = (
    "Let me check the current state of the file.",
    "Now I'll run the tests to verify the changes.",
    "All tests pass and the linter is clean.",
    "Here's a summary of what I found.",
    "The code looks correct to me.",
    "Would you like me to continue with the next item?",
    "I need to see more context around that line.",
    "That's a good question.",
    "The changes look good and are ready to merge.",
    "Everything works as expected now.",
    "The branch is up to date with main.",
    "I was editing the wrong file.",
    "The output looks right.",
    "Two files were changed.",
)
