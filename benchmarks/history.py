"""`make bench-history`: a gigabyte of past conversations, indexed and asked, side by side with ripgrep over the same files.

The conversations are those in `transcripts/*.jsonl` under MINDHOLD_BENCH_DATA (default ../shared/data), replicated with ids, times and
some words of their own. Indexing is by words, without vectors, as `mindhold history index --no-vectors` does it, in a process of its own
whose memory, with that of the processes it starts, is watched. Each question is put to memory_recall and to ripgrep in turn. ripgrep
lists the lines that have any of the words, in files; it has no ranking, so that the comparison is of time alone.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import psutil
from benchmarks.environment import HERE, RESULTS, machine
from benchmarks.replicas import replicate
from benchmarks.report import Aim, Table, aims_table, megabytes, milliseconds, percentile, text, times, write
from benchmarks.served import data_folder

from mindhold.app.application import App, open_app
from mindhold.history.search import SEARCH_HISTORY
from mindhold.model.lexemes import query_lexemes
from mindhold.settings.loader import LoadedSettings, load_settings

GIGABYTE, QUICK = 1_000_000_000, 100_000_000
CONVERSATIONS, FEWER = 1_000, 100
QUESTIONS, WORDS = 40, 6
LEAST_SPEED, MOST_MEMORY, MOST_AGAIN, MOST_RECALL = 20e6, 500e6, 1.0, 0.050


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help=f"{megabytes(QUICK)} in {FEWER} conversations")
    parser.add_argument("--ask", nargs=3, metavar=("HOME", "CLAUDE", "QUESTIONS"), help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.ask:
        home, claude, questions = chosen.ask
        print(json.dumps(asyncio.run(_asked(Path(home), Path(claude), json.loads(questions)))))
        return
    size, many = (QUICK, FEWER) if chosen.quick else (GIGABYTE, CONVERSATIONS)
    with TemporaryDirectory() as folder:
        facts = _measured(Path(folder), size=size, conversations=many)
    tables = [_table(facts), aims_table(_aims(facts))]
    print("\n" + "\n\n".join(map(text, tables)))
    path = write(RESULTS, "history", facts, tables)
    print(f"\n{path.relative_to(HERE.parent)} and .md")


def _measured(folder: Path, *, size: int, conversations: int) -> dict[str, Any]:
    print(f"writing {megabytes(size)} of conversations", flush=True)
    home, claude = folder / "home", folder / "claude"
    files = replicate(data_folder() / "transcripts", claude, size=size, conversations=conversations)
    written = sum(file.stat().st_size for file in files)
    facts: dict[str, Any] = {"machine": machine(), "bytes": written, "conversations": len(files)}
    print("indexing", flush=True)
    facts["first"] = _indexed(home, claude)
    facts["again"] = _indexed(home, claude)
    facts["index"] = sum(one.stat().st_size for one in (home / "data").glob("history.db*"))
    questions = _questions(files)
    print(f"asking {len(questions)} questions", flush=True)
    command = [
        sys.executable,
        "-m",
        "benchmarks.history",
        "--ask",
        str(home),
        str(claude),
        json.dumps(questions),
    ]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=HERE.parent)
    facts |= json.loads(done.stdout.splitlines()[-1])
    return facts


def _indexed(home: Path, claude: Path) -> dict[str, float]:
    """One run of the command: what it took, by the clock and in memory."""
    shell = [
        sys.executable,
        "-m",
        "mindhold",
        "--home",
        str(home),
        "history",
        "index",
        "--no-vectors",
        "--json",
    ]
    others = {"codex": "CODEX_DIR", "gemini": "GEMINI_DIR"}
    surroundings = {f"MINDHOLD_HISTORY_{name}": str(home / "none") for name in others.values()}
    surroundings |= {"MINDHOLD_HISTORY_CLAUDE_DIR": str(claude), "MINDHOLD_EMBEDDING_PROVIDER": "hashing"}
    begun, peak = time.perf_counter(), 0
    with psutil.Popen(shell, stdout=subprocess.PIPE, env=_environment(surroundings), text=True) as running:
        while running.poll() is None:
            peak = max(peak, _resident(running))
            time.sleep(0.02)
        answer = json.loads(running.stdout.read())
    seconds = time.perf_counter() - begun
    if running.returncode:
        raise SystemExit(f"Indexing ended with {running.returncode}.")
    return {"seconds": seconds, "peak": peak, "inside": answer["seconds"], "passages": answer["passages"]}


def _environment(given: dict[str, str]) -> dict[str, str]:
    import os

    kept = {key: value for key, value in os.environ.items() if not key.startswith("MINDHOLD_")}
    kept.pop("PYTHONDONTWRITEBYTECODE", None)
    return kept | given


def _resident(process: psutil.Process) -> int:
    """Of a process and all that it started. What they share is counted for each, so that it is rather too much."""
    total = 0
    try:
        for one in (process, *process.children(recursive=True)):
            try:
                total += one.memory_info().rss
            except psutil.Error:  # it has just ended
                continue
    except psutil.Error:
        return total
    return total


def _questions(files: list[Path]) -> list[str]:
    """Words that stand together in some of the conversations' prompts and answers."""
    chance = random.Random(11)
    found: list[str] = []
    for file in chance.sample(files, len(files)):
        said = [one for line in file.read_text(encoding="utf-8").splitlines() if (one := _said(line))]
        words = query_lexemes(chance.choice(said)) if said else []
        if len(words) >= WORDS:
            start = chance.randrange(len(words) - WORDS + 1)
            found.append(" ".join(words[start : start + WORDS]))
        if len(found) == QUESTIONS:
            break
    return found


def _said(line: str) -> str:
    try:
        message = json.loads(line).get("message")
    except (ValueError, AttributeError):
        return ""
    content = message.get("content") if isinstance(message, dict) else None
    if isinstance(content, list):
        return " ".join(one.get("text", "") for one in content if isinstance(one, dict))
    return content if isinstance(content, str) else ""


def _loaded(home: Path, claude: Path) -> LoadedSettings:
    none = str(home / "none")
    given = {
        "home": home,
        "embedding.provider": "hashing",
        "time_zone": "UTC",
        "history.claude_dir": str(claude),
        "history.codex_dir": none,
        "history.gemini_dir": none,
    }
    return load_settings(given, environ={})


async def _asked(home: Path, claude: Path, questions: list[str]) -> dict[str, Any]:
    grep = shutil.which("rg", path=str(Path(sys.executable).parent)) or shutil.which("rg")
    ours: list[float] = []
    theirs: list[float] = []
    found = 0
    async with open_app(_loaded(home, claude)) as app:
        await _ask(app, questions[0])  # what is loaded once is loaded
        for question in questions:
            seconds, results = await _ask(app, question)
            ours.append(seconds)
            found += results > 0
            if grep:
                theirs.append(_grepped(grep, question, claude))
    return {"ours": ours, "ripgrep": theirs, "answered": found, "questions": len(questions)}


async def _ask(app: App, question: str) -> tuple[float, int]:
    begun = time.perf_counter()
    answer = await app.run(SEARCH_HISTORY, SEARCH_HISTORY.takes(query=question))
    return time.perf_counter() - begun, len(answer.results)


def _grepped(program: str, question: str, claude: Path) -> float:
    words = [part for word in question.split() for part in ("-e", word)]
    begun = time.perf_counter()
    command = [program, "--count-matches", "--ignore-case", "--fixed-strings", *words, str(claude)]
    subprocess.run(command, check=False, capture_output=True)
    return time.perf_counter() - begun


def _table(facts: dict[str, Any]) -> Table:
    ours, theirs = facts["ours"], facts["ripgrep"]
    first, again = facts["first"], facts["again"]
    speed = facts["bytes"] / first["seconds"]
    rows = [
        ("conversations", f"{facts['conversations']:,}, {megabytes(facts['bytes'])}"),
        ("indexed by words, whole command", f"{first['seconds']:.1f} s, {speed / 1e6:.0f} MB/s"),
        ("most memory, all processes", megabytes(first["peak"])),
        (
            "again with nothing new, whole command",
            f"{again['seconds']:.2f} s ({again['inside']:.2f} s of it looking)",
        ),
        (
            "the index",
            f"{megabytes(facts['index'])}, {facts['index'] / facts['bytes']:.3f} of the transcripts",
        ),
        ("memory_recall p50 (p95)", _both(ours)),
        ("ripgrep p50 (p95)", _both(theirs) if theirs else "not here"),
        ("ripgrep, times ours", times(median(theirs) / median(ours)) if theirs else "-"),
        ("questions that found something", f"{facts['answered']} of {facts['questions']}"),
    ]
    return Table("Past conversations", ("", "measured"), rows)


def _both(seconds: list[float]) -> str:
    return f"{milliseconds(median(seconds) * 1_000)} ({milliseconds(percentile(seconds, 0.95) * 1_000)})"


def _aims(facts: dict[str, Any]) -> list[Aim]:
    first, again = facts["first"], facts["again"]
    speed, recall = facts["bytes"] / first["seconds"], median(facts["ours"])
    return [
        Aim("indexing at 20 MB/s or more", f"{speed / 1e6:.0f} MB/s", speed >= LEAST_SPEED),
        Aim("in less than 500 MB", megabytes(first["peak"]), first["peak"] < MOST_MEMORY),
        Aim("nothing new: less than 1 s", f"{again['seconds']:.2f} s", again["seconds"] < MOST_AGAIN),
        Aim("memory_recall p50 below 50 ms", milliseconds(recall * 1_000), recall < MOST_RECALL),
    ]


if __name__ == "__main__":
    main()
