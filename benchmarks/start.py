"""`make bench-start`: from the start of `mindhold mcp` to its first answers, against what importing the SDK alone takes."""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from typing import Any

from benchmarks import texts
from benchmarks.environment import HERE, RESULTS, machine, surroundings
from benchmarks.report import Aim, Table, aims_table, milliseconds, spread, text, times, write
from benchmarks.served import WAIT, Filled, ask, data_folder, filled, program

MEMORIES, QUICK_MEMORIES = 100_000, 10_000
ROUNDS, QUICK_ROUNDS = 15, 5
MOST_OF_IMPORT = 1.5
FIRST_ANSWER = 1_500.0  # milliseconds to an answer by words and meaning, at the full size
CLIENT = {"name": "start", "version": "1"}
OPENINGS: dict[str, dict[str, Any]] = {
    "initialize": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": CLIENT},
    "server/discover": {
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": CLIENT,
            "io.modelcontextprotocol/clientCapabilities": {},
        }
    },
}
BARE = {"python": "pass", "import mcp": "import mcp"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help=f"{QUICK_MEMORIES:,} memories, {QUICK_ROUNDS} rounds"
    )
    arguments = parser.parse_args()
    rounds = QUICK_ROUNDS if arguments.quick else ROUNDS
    store = filled(QUICK_MEMORIES if arguments.quick else MEMORIES, data=data_folder())
    facts = {"machine": machine(), "memories": store.memories, "model": store.model, "rounds": rounds}
    samples, by_meaning = _interleaved(store, rounds)
    facts["by_meaning"] = by_meaning
    facts["milliseconds"] = {name: spread(values) for name, values in samples.items()}
    ratios = [ours / bare for ours, bare in zip(samples["initialize"], samples["import mcp"], strict=True)]
    facts["ratio"] = statistics.median(ratios)
    facts["ratio_of_medians"] = statistics.median(samples["initialize"]) / statistics.median(
        samples["import mcp"]
    )
    tables = _tables(facts)
    print("\n" + "\n\n".join(map(text, tables)))
    path = write(RESULTS, "start", facts, tables)
    print(f"\n{path.relative_to(HERE.parent)} and .md")


def _interleaved(store: Filled, rounds: int) -> tuple[dict[str, list[float]], float]:
    """Each in turn, so that a busy moment of the machine meets all alike; the first round warms up.

    Also which share of the first recalls was answered by meaning too, not by words alone.
    """
    hybrid: list[bool] = []
    samples: dict[str, list[float]] = defaultdict(list)
    questions = texts.questions(rounds + 1)
    for number in range(rounds + 1):
        print(f"\r  round {number} of {rounds}", end="", flush=True)
        taken = {name: _bare(code) for name, code in BARE.items()}
        for method in OPENINGS:
            opened, recalled, by_meaning = _served(store, method, questions[number])
            hybrid.append(by_meaning)
            taken[method] = opened
            taken[f"{method}, then a recall"] = recalled
        if number:
            for name, value in taken.items():
                samples[name].append(value)
    print()
    return samples, sum(hybrid) / len(hybrid)


def _bare(code: str) -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], env=surroundings(), check=True)
    return (time.perf_counter() - began) * 1e3


def _served(store: Filled, method: str, question: str) -> tuple[float, float, bool]:
    """Milliseconds from the start of the process to the answer of its first request, and to that of a recall.

    Also whether the recall was answered by meaning too.
    """
    opening = OPENINGS[method]
    began = time.perf_counter()
    process = subprocess.Popen(
        [*program(), "mcp"],
        env=surroundings() | store.variables,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    try:
        ask(process, 1, method, opening)
        opened = time.perf_counter() - began
        meta = {"_meta": opening["_meta"]} if "_meta" in opening else {}
        call = {"name": "recall", "arguments": {"text": question}, **meta}
        answer = ask(process, 2, "tools/call", call)
        recalled = time.perf_counter() - began
        if not answer["structuredContent"]["fragments"]:
            raise SystemExit(f"nothing was recalled for {question!r}")
        by_meaning = "L3" in answer["structuredContent"]["layers"]
        assert process.stdin is not None
        process.stdin.close()
        process.wait(WAIT)
    finally:
        process.kill()
        process.wait(WAIT)
    return opened * 1e3, recalled * 1e3, by_meaning


def _tables(facts: dict[str, Any]) -> list[Table]:
    taken = facts["milliseconds"]
    bare = taken["import mcp"]["p50"]
    rows = [
        (name, milliseconds(row["p50"]), milliseconds(row["best"]), times(row["p50"] / bare))
        for name, row in taken.items()
    ]
    start = Table(
        f"From the start of the process, {facts['memories']:,} memories, {facts['rounds']} rounds",
        ("until", "p50", "best", "of import mcp"),
        rows,
    )
    about = facts["machine"]
    conditions = Table(
        "Conditions",
        ("what", "measured"),
        [
            ("model", facts["model"]),
            ("first recalls answered by meaning too", f"{facts['by_meaning']:.0%}"),
            (
                "machine",
                f"{about['system']}, {about['cores']} cores, Python {about['python']}, load {about['load_average']}",
            ),
        ],
    )
    ratio = facts["ratio"]
    aims = [
        Aim(
            f"initialize within {MOST_OF_IMPORT} times the import of the SDK",
            times(ratio),
            ratio <= MOST_OF_IMPORT,
        )
    ]
    if facts["memories"] == MEMORIES:
        answered = taken["initialize, then a recall"]["p50"]
        aims.append(
            Aim(
                f"a first answer by meaning within {milliseconds(FIRST_ANSWER)}",
                f"{milliseconds(answered)}, {facts['by_meaning']:.0%} by meaning",
                answered <= FIRST_ANSWER and facts["by_meaning"] == 1,
            )
        )
    return [start, conditions, aims_table(aims)]


if __name__ == "__main__":
    main()
