"""Memory-like sentences and questions, the same on every machine.

Sentences are put together from the word lists below: each frame is a sentence with slots, each slot a list. Positions are
drawn from a generator seeded by the sentence's number, so sentence 57 is the same whether 100 or 100,000 are asked for.
"""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import count, cycle, islice
from pathlib import Path

VERSION = 2

WORDS: dict[str, list[str]] = {
    "who": (
        "the user, my sister, the platform team, our accountant, the reviewer, the new intern, the night shift, "
        "my neighbour, the mobile team, the data team, the landlord, the client in retail, the client in shipping, "
        "our lawyer, the design lead, the on-call engineer, my running partner, the choir director, the vet, "
        "the physiotherapist, the support desk, the security officer, the school, the book club, my grandfather, "
        "the translator, the warehouse manager, the product owner, the release manager, the dentist"
    ).split(", "),
    "tech": (
        "PostgreSQL, Redis, Kafka, nginx, Terraform, Kubernetes, SQLite, RabbitMQ, Elasticsearch, Prometheus, Grafana, "
        "FastAPI, Django, Rust, TypeScript, Go, Kotlin, React, Svelte, GraphQL, gRPC, Docker, Ansible, Airflow, Spark, "
        "Parquet, DuckDB, OpenSSL, systemd, WebSockets, ONNX Runtime, NumPy, pandas, Celery, Vault, Envoy, HAProxy, "
        "ClickHouse, MongoDB, S3, CMake, Bazel, pytest, Playwright, Webpack, Tailwind, Sentry, Keycloak, MQTT, PyTorch"
    ).split(", "),
    "part": (
        "checkout service, billing job, search index, login page, nightly export, image resizer, mail queue, rate limiter, "
        "audit log, feature flags, session cache, webhook receiver, report generator, mobile app, admin console, "
        "recommendation feed, invoice parser, schema migration, metrics pipeline, backup script, PDF renderer, "
        "chat widget, inventory sync, price calculator, permission check, staging cluster, test fixtures, build cache, "
        "release script, onboarding flow, tenant router, geocoder, translation table, cron scheduler, upload endpoint"
    ).split(", "),
    "fault": (
        "timed out, leaked memory, returned stale rows, dropped every tenth message, deadlocked, ran out of file handles, "
        "rejected valid tokens, wrote the wrong time zone, duplicated orders, lost its lock, crashed on empty input, "
        "filled the disk, ignored the retry limit, sorted by the wrong column, swallowed the exception, "
        "doubled the latency, broke on non-Latin names, refused connections, rounded amounts down, served an old bundle"
    ).split(", "),
    "cause": (
        "a missing index, an unbounded cache, a certificate that had expired, a race between two workers, "
        "a default timeout of thirty seconds, an off-by-one in the pager, a stale DNS record, a wrong environment variable, "
        "a library upgrade, a half-applied migration, a clock that ran ahead, a full connection pool, "
        "an unescaped quote, a symlink loop, a retry storm, a swapped pair of arguments, a proxy that buffered, "
        "a locale setting, an integer overflow, a forgotten feature flag"
    ).split(", "),
    "remedy": (
        "adding a composite index, capping the cache, pinning the version, rolling back, moving the lock into the database, "
        "raising the limit, rewriting the query, splitting the batch, renewing the certificate, adding a circuit breaker, "
        "switching to UTC everywhere, making the handler idempotent, sharding by customer, turning off compression, "
        "restarting in order, validating at the edge, streaming the response, keeping two copies, draining the queue first, "
        "replacing the regular expression with a parser"
    ).split(", "),
    "aim": (
        "lower cost, simpler operations, stronger typing, faster builds, easier hiring, fewer moving parts, "
        "offline use, predictable latency, better error messages, a smaller image, compliance with the contract, "
        "accessibility, independence from one vendor, reproducible results, less code to own, quick rollbacks"
    ).split(", "),
    "place": (
        "Lisbon, Osaka, Nairobi, Montreal, Helsinki, Valparaíso, Kraków, Hanoi, Marrakesh, Wellington, Leipzig, Tbilisi, "
        "Oaxaca, Bergen, Busan, Ljubljana, Cork, Adelaide, Porto, Tallinn, Quito, Izmir, Cardiff, Turin, Accra, "
        "Kanazawa, Lyon, Gdańsk, Medellín, Utrecht, the cabin by the lake, the office on the third floor, "
        "the workshop in the garage, the allotment, the harbour café, the old library"
    ).split(", "),
    "hobby": (
        "bouldering, watercolour, sourdough baking, chess by mail, birdwatching, wild swimming, the cello, letterpress, "
        "pottery, orienteering, beekeeping, film photography, fermenting vegetables, model railways, improvised theatre, "
        "woodturning, long-distance cycling, star maps, tango, crossword setting, kayaking, bonsai, calligraphy, "
        "rowing, juggling, mushroom foraging, knitting, table tennis, astronomy, archery"
    ).split(", "),
    "food": (
        "coriander, oat milk, shellfish, very dark chocolate, okra, pickled ginger, rye bread, goat's cheese, lentil soup, "
        "green tea, black coffee, mango, blue cheese, chilli, buckwheat pancakes, peanuts, fennel, miso, olives, rhubarb, "
        "smoked fish, couscous, raw onion, pomegranate, kimchi, tahini"
    ).split(", "),
    "thing": (
        "bicycle, laptop, espresso machine, tent, passport, piano, roof, greenhouse, dishwasher, winter coat, camera, "
        "hearing aid, sewing machine, car, phone, bookshelf, boiler, garden fence, drum kit, backpack, monitor, "
        "record player, kayak, wardrobe, glasses, prescription, rental contract, insurance policy, tax return, visa"
    ).split(", "),
    "event": (
        "was repaired, needs replacing, was stolen, arrived damaged, is under warranty, was sold, was lent to a friend, "
        "was returned to the shop, is on back order, was upgraded, turned out to be the wrong size, passed inspection, "
        "is due for renewal, was moved to storage, was painted, failed again"
    ).split(", "),
    "taste": (
        "prefers, dislikes, is allergic to, has given up, keeps asking for, never orders, recently discovered, "
        "cannot stand the smell of, recommends, is tired of"
    ).split(", "),
    "style": (
        "short commit messages, tabs over spaces, tests written first, explicit imports, diagrams before code, "
        "answers without preamble, British spelling, metric units, dark themes, keyboard shortcuts, small pull requests, "
        "plain SQL over an ORM, functions over classes, meeting notes as bullet points, morning calls, "
        "deploys before noon, comments that say why, one change a commit, a glossary in every document, type hints everywhere"
    ).split(", "),
    "goal": (
        "run a half marathon, move house, learn Portuguese, publish a paper, change careers, adopt a dog, "
        "visit every national park, finish the novel, restore the old boat, pass the driving test, start a podcast, "
        "build a pizza oven, save for a year of travel, teach evening classes, open a second shop, cut sugar, "
        "digitise the family photographs, plant an orchard, learn to weld, sing in public"
    ).split(", "),
    "illness": (
        "a sprained ankle, migraines, hay fever, a broken wrist, back pain, insomnia, a root canal, tennis elbow, "
        "an ear infection, vertigo, a wisdom tooth, burnout, eczema, a stiff neck, low iron, asthma"
    ).split(", "),
    "talk": (
        "the budget, hiring plans, the outage, the office lease, a rebranding, the holiday rota, data retention, "
        "the vendor contract, the survey results, a move to four-day weeks, the accessibility review, press coverage, "
        "the launch date, on-call pay, the grant application, the museum partnership, packaging, travel rules, "
        "the roadmap, a price increase"
    ).split(", "),
    "verdict": (
        "agreed to wait, voted in favour, could not decide, asked for numbers first, postponed it, split the work in two, "
        "said no, accepted with conditions, handed it to a smaller group, reopened it, approved half, wanted a trial first"
    ).split(", "),
    "art": (
        "a documentary about glaciers, a novel set in a lighthouse, an album of lute music, a podcast on shipwrecks, "
        "a play without words, a comic about beetles, a lecture on prime numbers, an exhibition of maps, "
        "a thriller with no villain, a cookbook from Georgia, a biography of a cartographer, a film in one take, "
        "an essay on boredom, a series about night trains, a history of salt, a collection of ghost stories"
    ).split(", "),
    "feel": (
        "loved it, fell asleep halfway, wants to see it again, found it too long, was moved to tears, argued about it for days, "
        "gave it to three friends, left early, took notes all through, thought the ending was weak"
    ).split(", "),
    "month": (
        "January, February, March, April, May, June, July, August, September, October, November, December"
    ).split(", "),
    "day": "Monday, Tuesday, Wednesday, Thursday, Friday, Saturday, Sunday".split(", "),
    "unit": "requests a second, megabytes, rows, users, seconds, orders a day, containers, open tickets".split(
        ", "
    ),
    "path": (
        "src/billing/tax.py, api/routes/orders.ts, infra/modules/network, lib/parser/lexer.rs, web/components/Table.svelte, "
        "jobs/nightly/export.sql, cmd/agent/main.go, tests/faults/test_restart.py, docs/guide/limits.md, tools/release.sh, "
        "app/models/invoice.rb, core/src/scheduler.kt, services/mail/queue.ex, packages/ui/theme.css, deploy/values.yaml"
    ).split(", "),
}

FRAMES = (
    "Decision: the {part} uses {tech} instead of {tech2}, for {aim}; {who} signed it off on {number} {month}.",
    "The {part} {fault} because of {cause}; fixed by {remedy} on {day}.",
    "{who} found that {tech} {fault} once it passed {big} {unit}. The workaround is {remedy}.",
    "{who} asked for {style} in everything we write, and for {style2} where it fits.",
    "{who} {taste} {food}, and lately talks a lot about {hobby}.",
    "{who} moved to {place} in {month} {year} and took up {hobby} there.",
    "Their {thing} {event} in {month}; it cost {big} and the paper is in {place}.",
    "In the {day} meeting about {talk} {who} {verdict}, and the next round is on {number} {month}.",
    "{who} wants to {goal} before {month} {year}, starting with {hobby} on {day} evenings.",
    "{who} watched {art} in {place} and {feel}.",
    "After {illness} {who} stopped {hobby} for {number} weeks and switched to {hobby2}.",
    "To rebuild the {part}: stop {tech}, run the {part2}, check {path}, then start {tech2} with {number} workers.",
    "Gotcha: in {path} the limit is {big} {unit}, not {big2}; the {part} {fault} when we forgot it.",
    "The {part} talks to the {part2} over {tech}; {who} owns both, and {path} holds the settings.",
    "We measured {big} {unit} on the {part} with {tech} and {big2} with {tech2}, so we kept {tech2}.",
    "{who} is in {place} until {number} {month}; send anything about {talk} to {who2}.",
    "Remember that {who} {taste} {food}: for the dinner in {place} we ordered {food2} for {number} people.",
    "Progress: {remedy} in the {part} is done, {number} of {big} {unit} moved over; {talk} comes next on {day}.",
    "The trip to {place} in {month} was about {hobby}, but {illness} got in the way and we saw {art} instead.",
    "{who} and {who2} disagree about {talk}: one wants {aim}, the other {aim2}.",
    "Version {number}.{small} of the {part} dropped {tech} support; {who} still runs {number2} machines with it in {place}.",
    "Whenever the {part} {fault}, {who} starts by {remedy}; the notes are in {path}.",
)

QUESTIONS = (
    "why did the {part} use {tech} instead of {tech2}?",
    "what happened when the {part} {fault}?",
    "what does {who} think of {food}?",
    "where did {who} go for {hobby} in {month}?",
    "who decided about {talk}?",
    "how do we rebuild the {part}?",
    "what was the reason that {tech} {fault}?",
    "which hobby did {who} take up in {place}?",
    "what did {who} say about {art}?",
    "when does the {thing} need attention?",
    "how many {unit} did the {part} reach with {tech}?",
    "which style does {who} want in documents and code?",
    "what are the plans of {who} for {month} {year}?",
    "what went wrong after {illness}?",
    "where are the settings of the {part}?",
    "did {remedy} help the {part}?",
)

_SLOT = re.compile(r"\{([a-z]+?)(\d?)\}")
_NUMBERS = {"number": (2, 28), "small": (0, 19), "big": (30, 98_000), "year": (2019, 2027)}


def _fill(frame: str, draw: random.Random) -> str:
    def word(match: re.Match[str]) -> str:
        slot = match.group(1)
        if slot in _NUMBERS:
            low, high = _NUMBERS[slot]
            return f"{draw.randint(low, high):,}" if slot == "big" else str(draw.randint(low, high))
        return draw.choice(WORDS[slot])

    text = _SLOT.sub(word, frame)
    return text[0].upper() + text[1:]


def sentence(number: int) -> str:
    """The sentence of that number."""
    draw = random.Random(f"memory {VERSION} {number}")
    return _fill(draw.choice(FRAMES), draw)


def turns(data: Path | None) -> list[str]:
    """Turns of real conversations, if a folder with `locomo/dev.json` is given; else none."""
    file = data / "locomo" / "dev.json" if data else None
    if file is None or not file.is_file():
        return []
    conversations = json.loads(file.read_text(encoding="utf-8"))
    found = dict.fromkeys(
        f"{turn['speaker']}: {turn['text']}" for one in conversations for turn in one["turns"]
    )
    return [text for text in found if 40 <= len(text) <= 400]


def memories(amount: int, *, data: Path | None = None) -> list[str]:
    """`amount` different texts; every tenth is a turn of a real conversation while those last."""
    spoken = iter(turns(data))
    seen: dict[str, None] = {}
    number = 0
    while len(seen) < amount:
        text = next(spoken, None) if number % 10 == 9 else None
        seen[text if text is not None else sentence(number)] = None
        number += 1
    return list(seen)


def keywords_in(text: str) -> tuple[str, ...]:
    """Technologies and parts that a sentence names."""
    return tuple(word for kind in ("tech", "part") for word in WORDS[kind] if word in text)


def keyword_questions(rows: Sequence[str], amount: int) -> list[str]:
    """`amount` keywords that neither few nor very many of these texts have; some come again when there are fewer."""
    counts = Counter(word for row in rows for word in keywords_in(row))
    known = sorted(word for word, many in counts.items() if 10 <= many <= 1_000)
    random.Random(f"keywords {VERSION}").shuffle(known)
    return list(islice(cycle(known), amount))


def fresh() -> Iterator[str]:
    """Texts that memories() never gives below a hundred million: for storing one by one."""
    return (sentence(number) for number in count(100_000_000))


def questions(amount: int) -> list[str]:
    """`amount` different questions."""
    seen: dict[str, None] = {}
    number = 0
    while len(seen) < amount:
        draw = random.Random(f"question {VERSION} {number}")
        seen[_fill(draw.choice(QUESTIONS), draw)] = None
        number += 1
    return list(seen)
