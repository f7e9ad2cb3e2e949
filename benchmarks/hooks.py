"""`make bench-hooks`: what Claude Code waits for, a process for every event, against the bare start of Python."""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks import texts
from benchmarks.environment import HERE, RESULTS, machine, surroundings
from benchmarks.report import Aim, Table, aims_table, milliseconds, spread, text, times, write

from mindhold.capture.related_words import FEWEST_RELATED
from mindhold.hooks import hook_cache_writer
from mindhold.hooks.lease import Lease
from mindhold.hooks.project_identity import identity_key, project_identity
from mindhold.model.error_signs import error_signs
from mindhold.model.lexemes import lexemes

MEMORIES, ERRORS = 1_000, 200
ROUNDS, QUICK_ROUNDS = 30, 8
MOST_OF_BARE = 3.0
MOST_MILLISECONDS = 150.0
BARE = "python -c pass"
FAILURE = "Exit code 1\nTraceback (most recent call last):\n  File \"run.py\"\nModuleNotFoundError: No module named 'yaml'"

SCRIPT = Path(sys.executable).with_name("mindhold")  # what Claude Code runs
PROGRAM = [str(SCRIPT)] if SCRIPT.is_file() else [sys.executable, "-m", "mindhold"]


@dataclass(frozen=True, slots=True)
class Event:
    """One call, and whether it is to be told something."""

    title: str
    name: str
    given: dict[str, Any] = field(default_factory=dict)
    told: bool = False
    worker: bool = False  # whether it starts one


def events(known: str) -> list[Event]:
    """`known` is what one of the memories says."""
    ls = {
        "tool_input": {"command": "ls"},
        "tool_response": {"stdout": "a\nb", "stderr": "", "interrupted": False},
    }
    return [
        Event("Stop", "Stop", {"last_assistant_message": "Done. " * 200}),
        Event("SubagentStop", "SubagentStop", {"agent_id": "a1", "agent_transcript_path": "/none.jsonl"}),
        Event("PreCompact", "PreCompact", {"trigger": "auto"}),
        Event("SessionEnd", "SessionEnd", {"reason": "other"}),
        Event("SessionStart", "SessionStart", {"source": "startup"}, told=True),
        Event("UserPromptSubmit, about a memory", "UserPromptSubmit", {"prompt": known}, told=True),
        Event(
            "UserPromptSubmit, about none",
            "UserPromptSubmit",
            {"prompt": "rename foo to bar in all files, please"},
        ),
        Event(
            "UserPromptSubmit, in Korean", "UserPromptSubmit", {"prompt": "모든 파일에서 이름을 바꿔 주세요"}
        ),
        Event("PostToolUseFailure, seen before", "PostToolUseFailure", {"error": FAILURE}, told=True),
        Event(
            "PostToolUseFailure, a new one",
            "PostToolUseFailure",
            {"error": "Exit code 2\nmake: *** [all] Error 2"},
        ),
        Event("PostToolUse, no failure", "PostToolUse", ls),
        Event("Stop, starts the worker", "Stop", {"last_assistant_message": "Done."}, worker=True),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_ROUNDS} rounds")
    arguments = parser.parse_args()
    rounds = QUICK_ROUNDS if arguments.quick else ROUNDS
    with tempfile.TemporaryDirectory() as folder:
        place = _Place(Path(folder))
        wall, used = place.measured(rounds)
    facts: dict[str, Any] = {"machine": machine(), "memories": MEMORIES, "errors": ERRORS, "rounds": rounds}
    facts["milliseconds"] = {name: spread(values) for name, values in wall.items()}
    facts["processor_milliseconds"] = {name: spread(values) for name, values in used.items()}
    facts["ratios"] = {
        name: statistics.median(ours / bare for ours, bare in zip(values, wall[BARE], strict=True))
        for name, values in wall.items()
    }
    tables = _tables(facts)
    print("\n" + "\n\n".join(map(text, tables)))
    path = write(RESULTS, "hooks", facts, tables)
    print(f"\n{path.relative_to(HERE.parent)} and .md")


class _Place:
    """A home with a leaflet, and a project."""

    def __init__(self, folder: Path) -> None:
        self._home = str(folder / "home")
        self._working = str(folder / "home of a worker")  # which makes leaflets of its own
        self._project = folder / "project"
        self._project.mkdir()
        self._environ = surroundings() | {
            "MINDHOLD_HOME": self._home,
            "MINDHOLD_EMBEDDING_PROVIDER": "hashing",
        }
        known = texts.memories(MEMORIES)
        self._known = known[7]
        memories = [{"id": str(number), "kind": "fact", "text": one} for number, one in enumerate(known)]
        for number, memory in enumerate(
            memories
        ):  # as many related words as a model gives to so many memories
            others = lexemes(" ".join(known[(number + step) % MEMORIES] for step in range(1, 40)))
            related = list(dict.fromkeys(others))[:FEWEST_RELATED]
            memory["related"] = dict.fromkeys(related, 0.4)
        errors = [
            {
                "id": f"e{number}",
                "text": f"Solved by {one}",
                "signs": [f"someerror: no part {number} of the harbour"],
            }
            for number, one in enumerate(known[:ERRORS])
        ]
        errors.append(
            {"id": "known", "text": "Solved by pip install pyyaml", "signs": list(error_signs(FAILURE))}
        )
        sheet = {"start": "\n".join(f"- {one}" for one in known[:40]), "memories": memories, "errors": errors}
        hook_cache_writer.write_cache(self._home, identity_key(project_identity(str(self._project))), sheet)

    def measured(self, rounds: int) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
        """Wall and processor time of each. In turn, so that a busy moment meets all alike; the first round warms up."""
        wall: dict[str, list[float]] = defaultdict(list)
        used: dict[str, list[float]] = defaultdict(list)
        for number in range(rounds + 1):
            print(f"\r  round {number} of {rounds}", end="", flush=True)
            _note(_timed([sys.executable, "-c", "pass"], b"", self._environ), wall[BARE], used[BARE])
            for event in events(self._known):
                environ = self._environ | ({"MINDHOLD_HOME": self._working} if event.worker else {})
                with self._surrounded(event):
                    taken = _timed(self._command(event), self._input(event, number), environ, told=event.told)
                _note(taken, wall[event.title], used[event.title])
        print()
        for samples in (*wall.values(), *used.values()):
            del samples[0]
        return wall, used

    @contextmanager
    def _surrounded(self, event: Event) -> Iterator[None]:
        """A worker that is at it already, or room for a new one, which is waited for."""
        if not event.worker:
            with Lease(self._home):
                yield
            return
        yield
        while self._is_worked_for():
            time.sleep(0.02)
        time.sleep(0.1)  # it has to end as well

    def _is_worked_for(self) -> bool:
        with Lease(self._working) as free:
            return not free

    def _command(self, event: Event) -> list[str]:
        return [*PROGRAM, "hook", event.name]

    def _input(self, event: Event, number: int) -> bytes:
        common = {
            "session_id": f"{event.title} {number}",
            "transcript_path": str(self._project / "none.jsonl"),
            "cwd": str(self._project),
            "hook_event_name": event.name,
        }
        return json.dumps(common | event.given).encode()


def _timed(
    command: list[str], given: bytes, environ: dict[str, str], *, told: bool = False
) -> tuple[float, float]:
    before = _children()
    began = time.perf_counter()
    done = subprocess.run(command, input=given, env=environ, capture_output=True, check=True)
    taken = time.perf_counter() - began
    if bool(done.stdout) != told:
        raise SystemExit(f"{command} said {done.stdout[:200]!r}")
    return taken * 1e3, (_children() - before) * 1e3


def _children() -> float:
    """Processor seconds of all that were waited for; Windows doesn't say."""
    if sys.platform == "win32":
        return 0.0
    import resource

    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def _note(taken: tuple[float, float], wall: list[float], used: list[float]) -> None:
    wall.append(taken[0])
    used.append(taken[1])


def _tables(facts: dict[str, Any]) -> list[Table]:
    taken, used, ratios = facts["milliseconds"], facts["processor_milliseconds"], facts["ratios"]
    rows = [
        (
            name,
            milliseconds(row["p50"]),
            milliseconds(row["p95"]),
            milliseconds(used[name]["p50"]),
            times(ratios[name]),
            times(used[name]["p50"] / used[BARE]["p50"] if used[BARE]["p50"] else None),
        )
        for name, row in taken.items()
    ]
    shown = Table(
        f"A hook's whole process, {facts['memories']:,} memories and {facts['errors']} errors on the leaflet, "
        f"{facts['rounds']} rounds",
        ("event", "p50", "p95", "processor", "of bare", "processor, of bare"),
        rows,
    )
    about = facts["machine"]
    load = (
        f"{about['system']}, {about['cores']} cores, Python {about['python']}, load {about['load_average']}"
    )
    conditions = Table("Conditions", ("what", "measured"), [("machine", load)])
    ours = {name: ratio for name, ratio in ratios.items() if name != BARE}
    worst = max(ours, key=lambda name: ours[name])
    own = max(taken[name]["p50"] - taken[BARE]["p50"] for name in ours)
    aims = [
        Aim(
            f"every hook within {MOST_OF_BARE:g} times the bare start",
            f"{times(ours[worst])} ({worst})",
            ours[worst] <= MOST_OF_BARE,
        ),
        Aim(f"under {MOST_MILLISECONDS:g} ms of its own", milliseconds(own), own < MOST_MILLISECONDS),
    ]
    return [shown, conditions, aims_table(aims)]


if __name__ == "__main__":
    main()
