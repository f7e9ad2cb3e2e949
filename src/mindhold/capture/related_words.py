"""Words near a memory that it doesn't have itself, so that a hook finds what shares no word with a prompt.

They are words that developers use for the same or for neighbouring things, and those that the embedding model puts near
the memory.
"""

from __future__ import annotations

import asyncio
import io
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from mindhold.engine import Engine
from mindhold.hooks.files import hooks_path, list_names, make_hooks_folder, read_contents, remove, write_whole
from mindhold.model.lexemes import lexemes, stop_lexemes
from mindhold.model.query import Vector
from mindhold.ports.embedder import Matrix

WEIGHTS = (0.9, 0.9, 0.7, 0.5)  # of a word in a group of up to 3, 7, 11 and more words
MOST_WORDS = 5_000  # words of a model's vocabulary
WORDS_FOLDER, WORDS_SUFFIX = "words", ".npz"
BATCH = 500  # words that are embedded at once
NEAR = 1.5  # standard deviations above the mean similarity to a memory, from which on a word is near it
STRENGTH, STRONGEST = 0.2, 0.9  # weight per standard deviation, and the greatest weight
MOST_RELATED, FEWEST_RELATED = 300, 30  # related words of a memory
MOST_IN_ALL = 30_000  # of all memories of a hook cache

# A group per line. A word may be in several groups.
_GROUPS = """
    deploy deployment ship release rollout publish launch
deploy release production staging live
deploy rollout helm kubernetes cluster server
    kubernetes k8s cluster pod node helm kubectl container
    docker container image compose podman dockerfile registry
    server host machine instance backend vm
    database db sql postgres postgresql mysql sqlite mongodb store storage table
    schema migration migrate alembic column table ddl flyway
    query sql select join index database
    transaction commit rollback acid database
    cache redis memcached stale invalidate ttl expire
    queue kafka rabbitmq broker topic message event partition stream
    job cron schedule nightly airflow task batch worker
    login signin authenticate authentication auth session credential password user
    password credential secret hash argon2 bcrypt login
    token jwt oauth bearer apikey session key
    secret key credential password vault token env
    permission role access authorization privilege allow admin rbac
    encrypt encryption cipher crypto decrypt key aes
    sign signature gpg pgp verify signed
    commit git message history push squash amend
    branch main master trunk merge rebase git
    pull pr request merge review patch mr
    review reviewer approve feedback comment pr
    test spec unit suite pytest jest vitest assertion
    flaky intermittent sporadic random sometimes unstable
    e2e browser playwright cypress selenium end-to-end integration
    mock stub fake fixture
    coverage test branch line
    ci pipeline action workflow build runner
    lint linter eslint ruff style format formatter prettier code-style
    type annotation typing mypy typescript hint typecheck
    format formatter indent indentation style prettier black
    build compile bundle webpack vite compiler make
    linker link library symbol ld
    dependency package library crate module npm pip requirement third-party
    package npm pnpm yarn bun pip uv poetry install
    install setup bootstrap onboard configure provision
    laptop machine computer macbook mac workstation
    frontend ui client web page browser storefront interface
    backend api server service
    framework react vue angular svelte nextjs django flask rails
    component widget view element
    button click control
    css style stylesheet tailwind theme color layout
    mobile phone app ios android flutter
    endpoint route url path api handler
    api rest graphql grpc endpoint
    webhook callback hook notification event
    payment stripe checkout charge billing money credit
    price money amount cents cost currency penny total
    invoice bill billing receipt
    order cart basket checkout purchase
    customer client buyer user account tenant
    product item article catalog
    image picture photo thumbnail avatar
    upload file s3 bucket attachment storage
    mail email smtp message newsletter
    sms text message phone reminder
    search find index lookup elasticsearch query
    import ingest load upload sync
    export dump download backup
    backup restore recover recovery snapshot disaster
    log logging logger print trace output
    log retention keep days history
    audit trail log record access
    alert alarm pager pagerduty notification oncall
    monitor metric dashboard observability grafana prometheus
    dashboard report chart analytics
    profile profiler performance slow bottleneck benchmark hotspot
    slow performance latency speed fast lag delay
    latency lag delay slow
    memory oom ram heap leak
    crash panic abort segfault exception fail
    error exception failure bug crash
    bug defect issue error fix
    timeout deadline wait hang stuck
    retry backoff attempt again repeat
    concurrency parallel thread async race lock
    lock mutex deadlock race
    thread process worker async
    network http socket connection tcp request
    connection socket network connect
    proxy nginx gateway loadbalancer reverse
    ssl tls certificate https cert
    dns domain hostname
    port listen address localhost
    environment env variable config setting
    config configuration setting option parameter yaml toml
    flag feature toggle experiment launchdarkly percent rollout
    time date timezone utc clock hour timestamp
    calendar appointment visit schedule date
    locale translation i18n language localize
    unicode encoding utf8 charset
    number integer float decimal round precision
    float rounding decimal precision
    sort order sequence rank
    sequence order number gap consecutive
    id identifier uuid key
    json yaml xml parse serialize format
    csv spreadsheet excel table
    file path folder directory
    folder directory structure layout
    name naming convention rename identifier
    convention style guideline rule standard
    document documentation docs readme comment guide
    comment docstring documentation explain
    changelog release notes
    version release tag semver bump
    license legal copyright
    privacy gdpr personal pii erase delete data
    delete remove erase drop purge
    archive old retention keep
    user person customer account
    seed sample fixture test data populate fill
    data dataset warehouse table lake
    warehouse bigquery snowflake redshift cost
    cost bill price expensive spend budget
    spark hadoop etl pipeline job
    skew partition shard join
    shard partition distribute
    replica replication primary follower
    backfill reload replay reprocess historical
    stream kafka event realtime
    machine learning model train inference
    model embedding vector llm prompt
    gpu graphics render shader wgpu vulkan
    render draw frame paint display
    font text glyph typography
    window resize minimize surface screen
    audio sound music speaker volume
    input controller gamepad joystick keyboard stick
    physics simulation step collision rigid
    frame hertz hz fps refresh monitor jitter interpolate
    level map editor tile scene
    save load progress savegame state persist
    multiplayer online network netcode rollback
    entity component ecs system
    unsafe pointer raw memory
    wasm webassembly browser web
    windows mac macos linux ubuntu platform os
    apple silicon arm m1 m2 mac
    class object method inheritance
    function method procedure routine
    argument parameter option
    refactor cleanup restructure rewrite simplify
    small short brief concise
    answer reply response explanation
    approve permission ask consent confirm
    decide choose pick select decision
    why reason because rationale
    never forbid avoid not prohibited
    require mandatory must need
    write implement create add build
    tdd test first before implement
    upper case uppercase capital
    private public internal visibility
    law legal tax regulation compliance lawyer
"""


@cache
def related_lexemes() -> Mapping[str, Mapping[str, float]]:
    """For each lexeme of a group the others, with the weight of the closest group that both are in."""
    related: dict[str, dict[str, float]] = {}
    for line in _GROUPS.strip().splitlines():
        group = list(dict.fromkeys(lexeme for word in line.split() for lexeme in lexemes(word)))
        weight = WEIGHTS[min(len(group) // 4, len(WEIGHTS) - 1)]
        for word in group:
            others = related.setdefault(word, {})
            for other in group:
                if other != word:
                    others[other] = max(weight, others.get(other, 0.0))
    return related


@dataclass(frozen=True, slots=True)
class WordVectors:
    """The lexemes of a vocabulary, and their vectors by an embedding model, centred, as rows."""

    lexemes: Sequence[str]
    vectors: Matrix

    def near(self, vectors: Mapping[str, Vector], *, most: int) -> dict[str, dict[str, float]]:
        """For each memory the lexemes that are clearly nearer to it than most, with their weights."""
        if not vectors or not len(self.lexemes):
            return {}
        similarities = np.stack(list(vectors.values())) @ self.vectors.T
        spread = np.maximum(similarities.std(axis=1, keepdims=True), 1e-6)
        scores = (similarities - similarities.mean(axis=1, keepdims=True)) / spread
        result: dict[str, dict[str, float]] = {}
        for memory_id, row in zip(vectors, scores, strict=True):
            places = np.flatnonzero(row >= NEAR)
            places = places[np.argsort(-row[places])][:most]
            weights = np.minimum(STRONGEST, row[places] * STRENGTH).tolist()
            result[memory_id] = dict(
                zip((self.lexemes[place] for place in places.tolist()), weights, strict=True)
            )
        return result


async def word_vectors(engine: Engine) -> WordVectors | None:
    """The word vectors of the engine's model as they are on disk; None if they weren't made."""
    model = engine.vector_source.model
    if model is None:
        return None
    path = hooks_path(str(engine.settings.home), WORDS_FOLDER, _file_name(model))
    with suppress(OSError, ValueError, KeyError):
        return await asyncio.to_thread(_read, path, Path(path).stat().st_mtime_ns)
    return None


async def make_word_vectors(engine: Engine) -> None:
    """Make the word vectors of a local model, which takes some seconds, unless they are on disk."""
    model = engine.vector_source.model
    if model is None or await word_vectors(engine) is not None:
        return
    made = await _made(engine)
    if made is not None:
        with suppress(OSError):  # a full disk: they are made another time
            await asyncio.to_thread(_write, str(engine.settings.home), _file_name(model), made)


def _file_name(model: str) -> str:
    return sha256(model.encode()).hexdigest()[:16] + WORDS_SUFFIX


async def _made(engine: Engine) -> WordVectors | None:
    words = await engine.vector_source.words(MOST_WORDS)
    by_lexeme: dict[str, str] = {}
    for word in [*(_GROUPS.split() if words else ()), *words]:
        if len(of_word := lexemes(word)) == 1 and of_word[0] not in stop_lexemes():
            by_lexeme.setdefault(of_word[0], word)
    chosen = list(by_lexeme.values())
    parts: list[Matrix] = []
    for start in range(0, len(chosen), BATCH):
        vectors = await engine.vector_source.embed(chosen[start : start + BATCH])
        if vectors is None:
            return None
        parts.append(vectors)
    if not parts:
        return None
    centred = np.concatenate(parts)
    centred -= centred.mean(axis=0)
    centred /= np.maximum(np.linalg.norm(centred, axis=1, keepdims=True), 1e-6)
    return WordVectors(list(by_lexeme), centred)


@lru_cache(1)
def _read(path: str, modified: int) -> WordVectors:  # `modified` tells a new file from the one that was read
    with np.load(io.BytesIO(read_contents(path)), allow_pickle=False) as arrays:
        return WordVectors(arrays["lexemes"].tolist(), arrays["vectors"].astype(np.float32))


def _write(home: str, name: str, words: WordVectors) -> None:
    """Write the file, and remove those of other models."""
    folder = make_hooks_folder(home, WORDS_FOLDER)
    content = io.BytesIO()
    np.savez(content, lexemes=np.array(words.lexemes), vectors=words.vectors.astype(np.float16))
    write_whole(hooks_path(home, WORDS_FOLDER, name), content.getvalue())
    for other in list_names(folder, WORDS_SUFFIX):
        if other != name:
            remove(hooks_path(home, WORDS_FOLDER, other))


def with_related(
    memories: Sequence[dict[str, Any]],
    *,
    words: WordVectors | None = None,
    vectors: Mapping[str, Vector] | None = None,
) -> list[dict[str, Any]]:
    """The memories of a hook cache, each with `related`: the weights of words that it doesn't have itself."""
    known = related_lexemes()
    most = max(FEWEST_RELATED, min(MOST_RELATED, MOST_IN_ALL // max(1, len(memories))))
    near = words.near(vectors, most=most) if words is not None and vectors else {}
    result = []
    for memory in memories:
        own = set(lexemes(memory["text"])) - stop_lexemes()
        weights = near.get(memory["id"], {})
        for word in own & known.keys():
            for other, weight in known[word].items():
                weights[other] = max(weight, weights.get(other, 0.0))
        best = sorted(weights.keys() - own, key=lambda word: (-weights[word], word))[:most]
        result.append({**memory, "related": {word: round(weights[word], 2) for word in best}})
    return result
