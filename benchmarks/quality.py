"""Retrieval quality: every set of questions by plain BM25, plain cosine, our full text alone, and all of Mindhold.

Each text is remembered through the front door, in an empty SQLite file for each conversation or list of facts, and every
question recalled from there. By default the sets are LoCoMo's conversations (`locomo/dev.json` under MINDHOLD_BENCH_DATA,
default ../shared/data) and our own facts; options name those that have to be fetched. --store asks about LoCoMo on the
other stores as well.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from benchmarks.environment import RESULTS, machine
from benchmarks.learn_relevance import ASIAN, Case, cases_of, held_out, learning_pools, table
from benchmarks.peers.door import OWN_HOME, PRECISION
from benchmarks.quality_aims import DATED, UNDATED, aims, store_aims
from benchmarks.quality_tables import (
    MEASURES,
    SetResult,
    categories_table,
    intervals_table,
    measures_table,
    reliability_plot,
    reliability_table,
    with_parts,
)
from benchmarks.questions import (
    ASKED_IN,
    PARALLEL,
    Pool,
    across_languages,
    beam,
    facts,
    facts_of,
    locomo,
    memsim,
    realtalk,
)
from benchmarks.report import Table, aims_table, megabytes, milliseconds, share, text, write
from benchmarks.retrieval import (
    BM25,
    COSINE,
    METHODS,
    OURS,
    VECTORS,
    WORDS,
    Answer,
    by_bm25,
    by_cosine,
    by_front_door,
)
from benchmarks.sites import LOCAL, NAMES, STORES, Sites, site_folder
from benchmarks.vectors import KnownVectors, known_vectors

from mindhold.model.errors import ModelPullFailed
from mindhold.providers.model_folders import InstalledModel, model_file
from mindhold.providers.model_pull import PullOptions, pull
from mindhold.providers.model_registry import KNOWN_MODELS, LocalModelRegistry

DEFAULT_MODEL = KNOWN_MODELS[0].name
QUICK_QUESTIONS = 24  # of a set
TIMED = 60  # questions by which a model's time is measured


@dataclass(frozen=True, slots=True)
class QuestionSet:
    """A row: pools that are searched one by one, with the dates of their texts or without."""

    name: str
    pools: tuple[Pool, ...]
    dated: bool = True

    @property
    def alone(self) -> bool:
        """Whether these are facts that stand alone."""
        return self.pools[0].conversations[0] is None

    def sample(self) -> QuestionSet:
        """A few questions about the first pool, spread over all of its questions."""
        first = self.pools[0]
        count = min(QUICK_QUESTIONS, len(first.questions))
        few = [first.questions[place * len(first.questions) // count] for place in range(count)]
        return replace(self, pools=(replace(first, questions=few),))


def question_sets(chosen: argparse.Namespace) -> Iterator[QuestionSet]:
    """All that the options name, and our own."""
    for path in chosen.locomo:
        pools = tuple(locomo(path))
        yield QuestionSet(f"LoCoMo {path.stem} {DATED}", pools)
        yield QuestionSet(f"LoCoMo {path.stem} {UNDATED}", pools, dated=False)
    if chosen.beam:
        first, last = chosen.chats[0], chosen.chats[-1]
        yield QuestionSet(f"BEAM chats {first}-{last}", tuple(beam(chosen.beam, chosen.chats)))
    if chosen.realtalk:
        yield QuestionSet("REALTALK", tuple(realtalk(chosen.realtalk)))
    if chosen.memsim:
        yield QuestionSet("MemSim", tuple(memsim(chosen.memsim)))
    own = [*facts(), *facts(languages=("de", *ASIAN)), *map(facts_of, chosen.facts), *across_languages()]
    for pool in own:
        yield QuestionSet(pool.of, (pool,))


async def answered(one: QuestionSet, model: str, sites: Sites) -> SetResult:
    """Every question of a set by every method, ours on SQLite."""
    vectors = known_vectors(model)
    answers: dict[str, list[Answer]] = {method: [] for method in METHODS}
    for number, pool in enumerate(one.pools):
        settings = _settings(sites, LOCAL, f"{one.name} {number}", model)
        found = await by_front_door(pool, settings, dated=one.dated)
        found |= {COSINE: by_cosine(pool, vectors), BM25: by_bm25(pool)}
        for method in METHODS:
            answers[method] += found[method]
    vectors.keep()
    return SetResult(one.name, one.alone, answers)


async def by_store(one: QuestionSet, model: str, sites: Sites) -> dict[str, SetResult]:
    """The same set on every store that runs, in a database of its own for each pool."""
    results = {}
    for store in sites.stores:
        answers: dict[str, list[Answer]] = {OURS: [], WORDS: [], VECTORS: []}
        for number, pool in enumerate(one.pools):
            settings = _settings(sites, store, f"{store} {number}", model)
            found = await by_front_door(pool, settings, dated=one.dated, vectors_alone=True)
            for method, more in found.items():
                answers[method] += more
        results[store] = SetResult(NAMES[store], one.alone, answers)
    return results


def _settings(sites: Sites, store: str, name: str, model: str) -> dict[str, Any]:
    database = re.sub("[^a-z0-9]+", "_", f"quality {name} {model}".lower())
    return sites.settings(store, database) | {"embedding.model": model}


def stores_table(results: dict[str, SetResult], *, title: str) -> Table:
    """A column a store."""
    rows = [
        (f"{method}, {measure}", *(share(one.mean(measure, method)) for one in results.values()))
        for method in (OURS, WORDS, VECTORS)
        for measure in MEASURES
    ]
    return Table(title, ("", *(one.name for one in results.values())), rows)


def left_out_tables(model: str, chosen: argparse.Namespace) -> list[Table]:
    """Each set judged by the weights that the other sets of its kind teach, without the front door."""
    vectors = known_vectors(model)
    chats = chosen.beam if chosen.beam and (chosen.beam / "chats" / "100K" / "1").is_dir() else None
    made = []
    for kind, group in learning_pools(chosen.shared, chats).items():
        title = f"{model}, {kind}: each set judged by what the others teach"
        if len({pool.of for pool in group}) < 2:
            made.append(Table(title, ("", ""), [("There is only one set: --beam DIR gives another.",)]))
            continue
        cases = [case for pool in group for case in cases_of(pool, vectors, vectors.embedder.unrelated)]
        judged = held_out([replace(case, pool=_left_out_with(case)) for case in cases], kind)
        made.append(table(title, judged))
    vectors.keep()
    return made


def _left_out_with(case: Case) -> str:
    """The set; or the language, where two sets have the same questions."""
    return case.of.rpartition(ASKED_IN)[2].rpartition(f"{PARALLEL}-")[2]


@dataclass(frozen=True, slots=True)
class ModelRow:
    """A model: quality by set, the time of one question, and its size. `missing` says why there are none."""

    model: str
    results: Sequence[SetResult] = ()
    milliseconds: float = 0.0
    bytes: int = 0
    missing: str = ""


def models_table(rows: Sequence[ModelRow]) -> Table:
    """A row a model, a column a set with the two measures by which it is judged first."""
    sets = next((row.results for row in rows if row.results), ())
    heads = (
        "",
        "a question",
        "on disk",
        *(one.name.removeprefix("facts: ").removeprefix("parallel-") for one in sets),
    )
    made: list[Sequence[str]] = []
    for row in rows:
        if row.missing:
            made.append((f"{row.model}: {row.missing}",))
            continue
        quality = (" / ".join(share(one.mean(measure)) for measure in one.headline) for one in row.results)
        made.append((row.model, milliseconds(row.milliseconds), megabytes(row.bytes), *quality))
    return Table("Models: any@10 / all@10 of conversations, any@1 / any@5 of facts", heads, made)


def _question_time(vectors: KnownVectors, results: Sequence[SetResult]) -> float:
    questions = [answer.question.text for one in results for answer in one.answers[OURS]]
    took = []
    for question in questions[:: max(1, len(questions) // TIMED)]:
        start = perf_counter()
        vectors.embedder.embed_query_now(question)
        took.append((perf_counter() - start) * 1e3)
    return median(took)


def _size(installed: InstalledModel) -> int:
    """Bytes of what a user has who pulled it as we did."""
    others = {model_file(precision) for precision in installed.precisions} - {model_file(PRECISION)}
    return sum(file.bytes for name, file in installed.files.items() if name not in others)


def main() -> None:
    chosen = _options()
    with site_folder("quality") as folder, Sites(folder, [LOCAL, *chosen.store]) as sites:
        _run(chosen, sites)
        if sites.missing:
            raise SystemExit(f"Not every store took part: {sites.missing}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    data = Path(
        os.environ.get("MINDHOLD_BENCH_DATA", Path(__file__).resolve().parents[2] / "shared" / "data")
    )
    shared = data if data.suffix == ".json" else data / "locomo" / "dev.json"
    parser.add_argument(
        "--locomo",
        type=Path,
        action="append",
        metavar="FILE",
        help=f"conversations (default {shared.name}); repeat for several",
    )
    parser.add_argument("--beam", type=Path, metavar="DIR", help="a checkout of mohammadtavakoli78/BEAM")
    parser.add_argument(
        "--chats",
        type=_range,
        default=range(11, 21),
        metavar="N-M",
        help="which of its chats (default 11-20; the weights were learned from 1-10)",
    )
    parser.add_argument("--realtalk", type=Path, metavar="DIR", help="a checkout of danny911kr/REALTALK")
    parser.add_argument("--memsim", type=Path, metavar="DIR", help="a checkout of nuster1128/MemSim")
    parser.add_argument(
        "--facts",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="facts in the form of benchmarks/facts; repeat for several",
    )
    parser.add_argument(
        "--model",
        action="append",
        default=[],
        help=f"which model (default {DEFAULT_MODEL}); repeat for several",
    )
    parser.add_argument(
        "--models", choices=("all",), help="every model that is installed or can be pulled by name"
    )
    parser.add_argument(
        "--store",
        action="append",
        default=[],
        choices=STORES,
        help="ask about LoCoMo on this store too; repeat for several",
    )
    parser.add_argument("--quick", action="store_true", help="a few questions of every set")
    chosen = parser.parse_args()
    chosen.shared = shared
    chosen.locomo = chosen.locomo or [shared]
    for path in (*chosen.locomo, *chosen.facts):
        if not path.is_file():
            parser.error(f"There is no file {path}. MINDHOLD_BENCH_DATA says where conversations are.")
    for folder in filter(None, (chosen.beam, chosen.realtalk, chosen.memsim)):
        if not folder.is_dir():
            parser.error(f"There is no folder {folder}.")
    return chosen


def _range(value: str) -> range:
    first, _, last = value.partition("-")
    return range(int(first), int(last or first) + 1)


def _models(chosen: argparse.Namespace) -> list[str]:
    if not chosen.models:
        return chosen.model or [DEFAULT_MODEL]
    installed = [card.name for card in LocalModelRegistry(OWN_HOME / "models").installed()]
    return list(dict.fromkeys([*chosen.model, *(model.name for model in KNOWN_MODELS), *installed]))


def _run(chosen: argparse.Namespace, sites: Sites) -> None:
    printed: list[Table] = []
    plots: dict[str, str] = {}
    rows: list[ModelRow] = []
    sets = [one.sample() if chosen.quick else one for one in question_sets(chosen)]
    for wanted in _models(chosen):
        try:
            installed = pull(wanted, PullOptions(OWN_HOME / "models", PRECISION))
        except ModelPullFailed as failure:
            rows.append(ModelRow(wanted, missing=failure.message))
            continue
        model, results = installed.name, []
        for one in sets:
            asked = sum(len(pool.questions) for pool in one.pools)
            print(f"  {model}: {one.name}, {asked} questions", flush=True)
            results.append(asyncio.run(answered(one, model, sites)))
        made = _tables(results, model)
        checked = []
        if not chosen.quick:  # a few questions show that it runs
            made += left_out_tables(model, chosen) if chosen.shared.is_file() else []
            checked += aims(results)
        if len(sites.stores) > 1:
            stores = asyncio.run(by_store(sets[0], model, sites))
            made.append(stores_table(stores, title=f"{model}: {sets[0].name}, by store"))
            checked += store_aims(stores)
        if checked:
            made.append(aims_table(checked))
        for each in made:
            print("\n" + text(each), flush=True)
        printed += made
        plots[model] = reliability_plot(f"{model}: how often a first answer is right", _plotted(results))
        rows.append(ModelRow(model, results, _question_time(known_vectors(model), results), _size(installed)))
    models = models_table(rows)
    print("\n" + text(models))
    file = write(RESULTS, "quality", _facts(rows, quick=chosen.quick), [*printed, models])
    for model, plot in plots.items():
        file.with_name(f"{file.stem}-{model}.svg").write_text(plot, encoding="utf-8")
    print(f"\nwritten to {file.name}, with the plot of confidence beside it")


def _tables(results: Sequence[SetResult], model: str) -> list[Table]:
    conversations = [one for one in results if not one.alone]
    across = [one for one in results if ASKED_IN in one.name]
    alone = [one for one in results if one.alone and one not in across]
    plotted = _plotted(results)
    return [
        measures_table(f"{model}: conversations", conversations),
        measures_table(f"{model}: facts that stand alone", with_parts(alone)),
        measures_table(f"{model}: facts asked in another language", across),
        categories_table(f"{model}: by kind of question", conversations),
        intervals_table(
            f"{model}: every set, with 95 % intervals", [*conversations, *with_parts(alone), *across]
        ),
        reliability_table(f"{model}: share of first answers that are right, by confidence", plotted),
    ]


def _plotted(results: Sequence[SetResult]) -> list[SetResult]:
    """Without the sets that ask about the same texts again."""
    return [one for one in results if not one.name.endswith(UNDATED) and ASKED_IN not in one.name]


def _facts(rows: Sequence[ModelRow], *, quick: bool) -> dict[str, Any]:
    return {
        "machine": machine(),
        "quick": quick,
        "models": {
            row.model: {
                one.name: {
                    method: {measure: one.mean(measure, method) for measure in MEASURES}
                    for method in one.answers
                }
                for one in with_parts(row.results)
            }
            for row in rows
        },
    }


if __name__ == "__main__":
    main()
