"""What a prompt brings to mind: `make bench-prompts`. Paraphrases that share few words, and prompts that need nothing.

Every project has memories, prompts that one of them answers, and prompts that none of them is about. The first two projects
are for choosing the numbers in `mindhold.hooks.memory_match`, the others for judging them.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.environment import HERE, RESULTS, machine
from benchmarks.peers.door import OWN_HOME
from benchmarks.report import Aim, Table, aims_table, text, write

from mindhold.app.application import App, open_app
from mindhold.capture.hook_cache import MAKE_HOOK_CACHE, MATCH_PROMPT
from mindhold.hooks.hook_cache import read_cache
from mindhold.hooks.memory_match import match_prompt
from mindhold.hooks.project_identity import project_identity
from mindhold.memories.remember import REMEMBER
from mindhold.projects.projects import CREATE_PROJECT
from mindhold.providers.model_pull import PullOptions, pull
from mindhold.settings.loader import load_settings

MODEL = "all-MiniLM-L6-v2"
SHOWN = 3  # memories that one prompt brings
MOST_WRONG = 0.05
Match = Callable[[str], Sequence[str]]


@dataclass(frozen=True, slots=True)
class Project:
    """Memories as (kind, text), prompts with the number of the memory that they need, and prompts that need none."""

    name: str
    memories: tuple[tuple[str, str], ...]
    relevant: tuple[tuple[str, int], ...]
    irrelevant: tuple[str, ...]


SHOP = Project(
    "shop",
    (
        ("decision", "We deploy with Helm to the staging cluster first, and to production after a day."),
        ("preference", "Don't sign commits."),
        ("decision", "Passwords are hashed with Argon2id because it is memory hard."),
        ("gotcha", "The Stripe webhook needs the raw request body, so express.json must not run before it."),
        ("decision", "Prices are stored as integer cents, never as floats."),
        ("procedure", "Run the linter with `bun run lint`."),
        (
            "error",
            "Cart tests were flaky because they shared one Redis; each test now uses a fresh key prefix.",
        ),
        (
            "architecture",
            "The storefront is Next.js with the app router; the admin panel is React with Vite.",
        ),
        ("decision", "Images are resized by a Lambda when they are uploaded to S3."),
        ("preference", "Pull requests stay small, one topic each."),
        ("decision", "Sessions live in a signed cookie; there is no server-side session store."),
        ("gotcha", "Alembic autogenerate misses changed enum values; write these migrations by hand."),
        ("decision", "Invoices are numbered per year without gaps, as German tax law demands."),
        ("procedure", "The local database is filled by `make seed`, which takes about two minutes."),
        ("decision", "Feature flags are read from LaunchDarkly, with a default in code."),
        ("gotcha", "The search index lags behind by up to a minute after an import."),
    ),
    (
        ("how do we ship a new version?", 0),
        ("roll this out to the servers please", 0),
        ("should my git history be gpg verified?", 1),
        ("add a function that stores the user's login credentials safely", 2),
        ("payments callback says the signature doesn't verify", 3),
        ("add a column for the amount of money of an order", 4),
        ("rounding is off by a penny in the total", 4),
        ("check the code style before I push", 5),
        ("the basket specs fail now and then on CI", 6),
        ("which framework is the customer facing frontend built in?", 7),
        ("where do the thumbnails come from?", 8),
        ("open a PR for all of this refactoring at once", 9),
        ("how does the backend know who is logged in?", 10),
        ("I added a value to the status enum, what about the schema migration?", 11),
        ("customers complain that a bill number was skipped", 12),
        ("how do I get some test data on my laptop?", 13),
        ("turn the new checkout on for ten percent of the users", 14),
        ("a product that I just imported can't be found", 15),
    ),
    (
        "rename the variable total to sum in this file",
        "write a haiku about autumn",
        "what does this regular expression match?",
        "make the button blue",
        "explain how generators work in python",
        "continue",
        "the readme has a typo in the second paragraph, please fix it",
        "add a docstring to this function",
        "convert this list comprehension into a for loop",
        "can you summarise what you just did?",
        "sort the imports alphabetically",
        "is there a way to center a div with flexbox?",
        "why is this loop so slow?",
        "translate the error messages into French",
        "yes, go ahead with the second option",
        "write a unit test for the slugify helper",
        "remove the unused parameter",
        "what time zone does the cron job use?",
    ),
)
ENGINE = Project(
    "engine",
    (
        ("decision", "Audio uses kira; rodio had latency problems on Windows."),
        ("preference", "Ask before adding a new dependency."),
        ("decision", "Physics runs at a fixed 60 Hz step, rendering interpolates between two steps."),
        ("gotcha", "wgpu panics on Intel laptops when the surface is resized to zero; skip that frame."),
        ("decision", "Save games are versioned RON files; old versions are migrated when loaded."),
        ("procedure", "Build the wasm version with `trunk build --release`."),
        (
            "architecture",
            "Entities are stored in an archetype ECS; systems run in stages, in parallel within one.",
        ),
        (
            "error",
            "Linking failed with 'unable to find library -lasound'; installing libasound2-dev fixed it.",
        ),
        ("decision", "Levels are edited in LDtk and imported at build time."),
        ("preference", "No unsafe code outside of the renderer crate."),
        ("gotcha", "Controllers report their axes swapped on macOS."),
        ("decision", "Multiplayer uses rollback networking with at most eight predicted frames."),
        ("procedure", "Profiling is done with tracy, started by the `profile` feature."),
        ("decision", "Text is rendered with signed distance fields, so that it scales."),
    ),
    (
        ("sound lags behind the explosions", 0),
        ("which crate plays music?", 0),
        ("pull in a library for random numbers", 1),
        ("the character jitters on a 144 hertz monitor", 2),
        ("it crashes when I minimise the window", 3),
        ("players can't load their old progress after the update", 4),
        ("how do I compile for the browser?", 5),
        ("add a component for health and a query over it", 6),
        ("the linker complains about alsa on a fresh ubuntu", 7),
        ("where do I draw the maps?", 8),
        ("could we use a raw pointer here to make it faster?", 9),
        ("gamepad stick goes up when I push right on my mac", 10),
        ("add an online mode over the internet", 11),
        ("find out which system takes the most time per frame", 12),
        ("fonts look blurry when zoomed in", 13),
    ),
    (
        "rename this struct to PlayerState",
        "what's the difference between a slice and an array in rust?",
        "please write a changelog entry",
        "add a comment that explains this match arm",
        "ok thanks",
        "show me the diff again",
        "how do I undo the last commit?",
        "implement Display for this enum",
        "list all files larger than one megabyte",
        "what is the capital of Australia?",
        "clean up the warnings of clippy",
        "write a poem about the moon",
        "move this function into its own module",
        "draft an email to the publisher about the delay",
        "undo what you did in main.rs",
    ),
)
PIPELINE = Project(
    "pipeline",
    (
        ("decision", "Events are partitioned by customer in Kafka, to keep their order."),
        ("preference", "Never push directly to main."),
        ("decision", "Secrets come from Vault and are never written to disk."),
        (
            "gotcha",
            "Spark's timestamps are in the cluster's local time unless session.timeZone is set to UTC.",
        ),
        ("procedure", "Backfills are started from Airflow with the parameter `from_date`."),
        (
            "decision",
            "Columns with personal data are encrypted with a key per customer, so that deletion is dropping the key.",
        ),
        ("error", "The nightly job ran out of memory because of a skewed join; salting the key solved it."),
        ("architecture", "Raw files land in bronze, cleaned tables are in silver, reports read from gold."),
        ("decision", "Alerts go to PagerDuty only if two checks in a row fail."),
        ("preference", "Write SQL keywords in upper case."),
        ("gotcha", "BigQuery bills the whole column even if LIMIT is used."),
        ("decision", "Type hints are mandatory; mypy runs in strict mode."),
        ("procedure", "A new machine is set up with `./bootstrap.sh`, which needs Docker."),
        ("decision", "Logs are JSON lines and kept for thirty days."),
    ),
    (
        ("messages of one client arrive in the wrong sequence", 0),
        ("commit this and put it on the default branch", 1),
        ("where should the API key of the new provider go?", 2),
        ("the hours in the report are off by two", 3),
        ("reload last month's data", 4),
        ("a user wants to be erased under GDPR", 5),
        ("the overnight run was OOM killed", 6),
        ("which dataset should the dashboard query?", 7),
        ("I was woken up by a false alarm", 8),
        ("write a query for the top ten sellers", 9),
        ("our warehouse costs exploded, why?", 10),
        ("does this function need annotations?", 11),
        ("onboard our new colleague's laptop", 12),
        ("how far back can I search what the service printed?", 13),
    ),
    (
        "what does idempotent mean?",
        "rename the folder utils to helpers",
        "shorten this paragraph to two sentences",
        "add an emoji to the title",
        "good morning",
        "replace print by a nicer message",
        "which python version introduced dataclasses?",
        "extract this block into a method",
        "do the same for the other three files",
        "generate a random name generator",
        "make the tests less verbose",
        "write a regex for e-mail addresses",
        "what did we talk about?",
        "format this table in markdown",
    ),
)
CLINIC = Project(
    "clinic",
    (
        ("decision", "Appointments are kept in UTC and shown in the clinic's own time zone."),
        ("preference", "Answers stay short, without introductions."),
        ("decision", "We chose PostgreSQL over MongoDB for its transactions."),
        ("gotcha", "The SMS gateway silently drops texts that are longer than 160 characters."),
        ("decision", "Roles are doctor, nurse and reception; permissions are checked in the service layer."),
        ("procedure", "End-to-end tests run with `pnpm playwright test` against a local stack."),
        (
            "error",
            "Docker build failed on Apple silicon because of node-canvas; using the alpine image fixed it.",
        ),
        ("architecture", "The mobile app is written in Flutter and talks to the backend over GraphQL."),
        ("decision", "Every read of a patient's file is written to an audit log."),
        ("preference", "테스트를 먼저 작성하고 나서 구현한다."),
        ("gotcha", "환자 이름은 암호화되어 있어서 SQL 로 검색할 수 없다."),
        ("decision", "Backups are taken hourly and restored once a month to prove that they work."),
        ("decision", "We use conventional commits, because the release notes are generated from them."),
        ("decision", "The cache is invalidated by version numbers in its keys, not by time."),
    ),
    (
        ("the calendar shows the visit an hour too early", 0),
        ("why did we pick this database?", 2),
        ("some reminders never reach the phone", 3),
        ("a receptionist should not be able to see diagnoses", 4),
        ("verify the whole flow in a browser", 5),
        ("image creation breaks on my M2 macbook", 6),
        ("what is the phone application built with?", 7),
        ("who looked at this record? the lawyer asks", 8),
        ("새 기능을 구현해 줘, 테스트도 필요해", 9),
        ("환자를 이름으로 검색하는 쿼리를 짜 줘", 10),
        ("can we recover the data from yesterday if the disk dies?", 11),
        ("how should I word the message of this change?", 12),
        ("users still see stale data after the release", 13),
    ),
    (
        "rename getX to getY",
        "how do promises differ from callbacks?",
        "please add a newline at the end of the file",
        "fix the indentation",
        "tell me a joke",
        "what's in this folder?",
        "이 파일의 오타를 고쳐 줘",
        "고마워",
        "add a favicon",
        "use an early return here",
        "explain this stack trace",
        "is this variable still needed?",
        "compare these two approaches",
    ),
)
TUNED, JUDGED = (SHOP, ENGINE), (PIPELINE, CLINIC)


@dataclass(slots=True)
class Tally:
    """Counts over prompts."""

    relevant: int = 0
    found: int = 0
    irrelevant: int = 0
    wrong: int = 0  # irrelevant prompts that brought something
    shown: int = 0
    shown_wrong: int = 0  # of what relevant prompts brought

    def note_relevant(self, shown: Sequence[str], needed: str) -> None:
        self.relevant += 1
        self.found += needed in shown
        self.shown += len(shown)
        self.shown_wrong += sum(each != needed for each in shown)

    def note_irrelevant(self, shown: Sequence[str]) -> None:
        self.irrelevant += 1
        self.wrong += bool(shown)

    @property
    def facts(self) -> dict[str, Any]:
        return {
            "found": self.found / self.relevant,
            "wrong": self.wrong / self.irrelevant,
            "beside": self.shown_wrong / max(1, self.shown),
            "relevant": self.relevant,
            "irrelevant": self.irrelevant,
        }


def tally(project: Project, match: Match, counts: Tally, *, show: bool = False) -> None:
    """Ask every prompt of the project."""
    numbers = {memory: number for number, (_, memory) in enumerate(project.memories)}
    for prompt, number in project.relevant:
        shown = [str(numbers.get(each, each)) for each in match(prompt)][:SHOWN]
        counts.note_relevant(shown, str(number))
        if show and str(number) not in shown:
            print(f"  missed  {prompt!r} -> {project.memories[number][1]!r}, brought {shown}")
    for prompt in project.irrelevant:
        shown = list(match(prompt))[:SHOWN]
        counts.note_irrelevant(shown)
        if show and shown:
            print(f"  wrong   {prompt!r} -> {shown}")


async def _measured(app: App, projects: Sequence[Project], home: Path, *, show: bool) -> dict[str, Any]:
    """By the cache alone, and by a running server."""
    alone, served, both = Tally(), Tally(), Tally()
    for project in projects:
        folder = str(home / project.name)
        cache = read_cache(str(app.engine.settings.home), project_identity(folder))
        assert cache is not None
        by_server: dict[str, list[str]] = {}
        by_cache: dict[str, list[str]] = {}
        for prompt in (*(prompt for prompt, _ in project.relevant), *project.irrelevant):
            answer = await app.run(MATCH_PROMPT, MATCH_PROMPT.takes(text=prompt, folder=folder))
            by_server[prompt] = [memory.text for memory in answer.memories]
            by_cache[prompt] = [memory["text"] for memory in match_prompt(cache, prompt)]
        joined = {prompt: list(dict.fromkeys(by_server[prompt] + by_cache[prompt])) for prompt in by_cache}
        tally(project, by_cache.__getitem__, alone, show=show)
        tally(project, by_server.__getitem__, served)
        tally(project, joined.__getitem__, both)
    return {"hook alone": alone.facts, "server alone": served.facts, "hook with a server": both.facts}


async def _run(model: str, *, show: bool) -> dict[str, dict[str, Any]]:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        work = Path(folder)
        chosen = {"embedding.model": model} if model else {"embedding.provider": "none"}
        if model:
            installed = pull(model, PullOptions(OWN_HOME / "models"))
            shutil.copytree(OWN_HOME / "models" / installed.name, work / "home" / "models" / installed.name)
        projects = (*TUNED, *JUDGED)
        async with open_app(load_settings({"home": str(work / "home"), **chosen}, environ={})) as app:
            for project in projects:
                (work / project.name).mkdir()
                place = CREATE_PROJECT.takes(name=project.name, path=str(work / project.name))
                await app.run(CREATE_PROJECT, place)
                for kind, content in project.memories:
                    await app.run(REMEMBER, REMEMBER.takes(content=content, kind=kind, scope=project.name))
            folders = [str(work / project.name) for project in projects]
            await app.run(MAKE_HOOK_CACHE, MAKE_HOOK_CACHE.takes(folders=folders, words=True))
            return {
                name: await _measured(app, group, work, show=show)
                for name, group in (("tuned on", TUNED), ("judged on", JUDGED))
            }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--show", action="store_true", help="list the mistakes of the hook alone")
    parser.add_argument("--model", default=MODEL, help="the embedding model; empty for none")
    arguments = parser.parse_args()
    measured = asyncio.run(_run(arguments.model, show=arguments.show))
    facts: dict[str, Any] = {"machine": machine(), "model": arguments.model, "measured": measured}
    rows = [
        (
            name,
            way,
            f"{one['found']:.2f} of {one['relevant']}",
            f"{one['wrong']:.2f} of {one['irrelevant']}",
            f"{one['beside']:.2f}",
        )
        for name, ways in measured.items()
        for way, one in ways.items()
    ]
    headings = (
        "prompts",
        "answered by",
        "needed memory found",
        "wrongly told something",
        "of what is told, beside the point",
    )
    judged, served = measured["judged on"]["hook alone"], measured["judged on"]["server alone"]
    aims = [
        Aim(
            "without a server as much is found as by a server alone",
            f"{judged['found']:.2f} and {served['found']:.2f}",
            judged["found"] >= served["found"],
        ),
        Aim(
            f"at most {MOST_WRONG:.0%} of other prompts are told something",
            f"{judged['wrong']:.2f}",
            judged["wrong"] <= MOST_WRONG,
        ),
    ]
    tables = [
        Table(f"What prompts bring to mind, {arguments.model or 'no model'}", headings, rows),
        aims_table(aims),
    ]
    print("\n" + "\n\n".join(map(text, tables)))
    print(f"\n{write(RESULTS, 'prompts', facts, tables).relative_to(HERE.parent)} and .md")


if __name__ == "__main__":
    main()
