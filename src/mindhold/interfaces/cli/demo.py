"""`mindhold demo`: a short tour on a temporary database."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from mindhold.interfaces.cli.command import command, with_session
from mindhold.interfaces.cli.output import one_line, plural
from mindhold.interfaces.cli.session import CliSession, OpenSession

FACTS: tuple[tuple[str, str, dict[str, Any]], ...] = (  # kind, content, other fields
    ("fact", "The staging database of Lighthouse listens on port 5433.", {"tags": ["staging"]}),
    ("decision", "We chose SQLite for the desktop client because nobody has to install a server.", {}),
    (
        "gotcha",
        "Deploys fail when the CDN cache is not purged first; purge it, then deploy.",
        {"tags": ["deploy"]},
    ),
    ("preference", "Error messages are written in plain English and say what to do next.", {}),
    ("procedure", "To rotate the signing key, run the rotate script on both build machines.", {}),
    ("error", "The importer runs out of memory on files above two gigabytes.", {}),
    ("architecture", "Map tiles are rendered by the tile service, which scales out by region.", {}),
    ("fact", "The mobile app polls every fifteen minutes to spare the battery.", {}),
    ("progress", "The search page was redesigned and shipped.", {"when": "last week"}),
    ("procedure", "Integration tests need the queue emulator running on port 9324.", {}),
)
FIRST_FACT = FACTS[0][1]
QUESTIONS = (
    "why did we not use a database server?",
    "what is the tone of our messages to users?",
    "how do I change the key that signs builds?",
    "why does importing big files crash?",
)
NEXT_STEPS = """\
  mindhold remember "..."        store something of your own
  mindhold recall "..."          ask for it in other words
  mindhold list, tags, timeline  look around
  mindhold status, doctor        see how things are
{pull}  mindhold mcp                   give it to an agent: claude mcp add mindhold -- mindhold mcp
  mindhold --help                everything else; each command has examples"""
SECRET = "The deploy token is ghp_" + "x7Kp2Qm9Zt4Rv8Wn1Yb6Dc3Fh5Jg0LsAeUoI"


@command("demo", local=True, examples=["mindhold demo", "mindhold demo --json"])
@with_session
async def demo(cli: CliSession) -> None:
    """Show a short guided tour.

    It uses a temporary database.
    """
    console = cli.console
    with tempfile.TemporaryDirectory(prefix="mindhold-demo-", ignore_cleanup_errors=True) as folder:
        overrides = {"store.path": str(Path(folder) / "demo.db"), "scope": "Global", "agent": "default"}
        overrides |= {"intake.redact": "true", "intake.noise_gate": "true"}
        overrides |= {"store.mode": "local", "redis.enabled": "false"}  # nothing of the tour reaches a server
        async with cli.open(**overrides) as session:
            tour = Tour(session)
            await tour.remember()
            await tour.recall()
            await tour.refuse()
            await tour.time()
            await tour.forget()
        if console.as_json({"steps": tour.steps}):
            return
    settings = cli.loaded().settings
    place = f"{settings.home} and nowhere else" if settings.store.mode == "local" else settings.store.mode
    tour.heading("Now yours")
    pull = "  mindhold models pull           let recall go by meaning, not by words alone\n"
    console.line(NEXT_STEPS.format(pull="" if tour.by_meaning else pull))
    console.line(f"\nYour memories will live in {place}. This tour's database is gone again.")


class Tour:
    """The steps of the tour."""

    def __init__(self, session: OpenSession) -> None:
        self._session = session
        self._console = session.console
        self.steps: list[dict[str, Any]] = []
        self.by_meaning = False

    async def remember(self) -> None:
        """Store ten facts about an imaginary project."""
        from mindhold.lifecycle.status import STATUS
        from mindhold.memories.remember import REMEMBER_MANY

        status = await self._session.run(STATUS)
        self.by_meaning = status.model is not None and not status.notice
        self.heading("Remembering ten things about a made-up project, Lighthouse")
        items = []
        for kind, content, others in FACTS:
            fields = {"content": content, "kind": kind, **others}
            if phrase := fields.pop("when", None):
                fields["occurred"] = await self._session.instant(phrase)
            items.append(fields)
        stored = await self._session.run(REMEMBER_MANY, items=items)
        self._say(
            f"Stored {plural(stored.created, 'memory')}. Search: {status.rung.replace('/int8', ' (int8)')}."
        )
        if status.notice:
            self._say(status.notice)
        self._note("remember", created=stored.created, rung=status.rung)

    async def recall(self) -> None:
        """Ask questions in other words than the facts."""
        from mindhold.memories.recall import RECALL

        self.heading("Recalling, in other words than they were stored in")
        nothing = "  nothing found" if self.by_meaning else "  nothing found by words alone"
        for question in QUESTIONS:
            result = await self._session.run(RECALL, query=question, limit=1)
            best = next(iter(result.hits or result.nearest), None)
            doubtful = " (doubtful)" if result.nearest else ""
            self._say(f"? {question}")
            self._say(f"  {best.score:.2f}  {one_line(best.content)}{doubtful}" if best else nothing)
            self._note("recall", question=question, answer=best.content if best else None)

    async def refuse(self) -> None:
        """Try to store a duplicate and a secret."""
        from mindhold.memories.remember import REMEMBER

        self.heading("What is not stored twice, and what is not stored at all")
        again = await self._session.run(REMEMBER, content=FIRST_FACT)
        self._say(f"The first fact again: {again.outcome}, known as {again.id}.")
        self._note("duplicate", outcome=again.outcome, id=again.id)
        secret = await self._session.run(REMEMBER, content=SECRET)
        content = secret.memory.content if secret.memory else ""
        self._say(f"A text with a token in it was kept as: {one_line(content)}")
        self._note("redaction", content=content, redacted=secret.redacted)

    async def time(self) -> None:
        """Ask by a phrase of time."""
        from mindhold.memories.recall import RECALL

        self.heading('Asking by time: mindhold recall shipped --when "last week"')
        result = await self._session.run(RECALL, query="what was shipped", when="last week")
        words = result.timeframe.words if result.timeframe else ""
        self._say(f"Understood as {words}.")
        hits = result.hits or result.nearest
        for hit in hits[:1]:
            self._say(f"  {hit.score:.2f}  {one_line(hit.content)}")
        self._note("time", range=words, answer=[hit.content for hit in hits])

    async def forget(self) -> None:
        """Hide a memory and bring it back."""
        from mindhold.memories.forget import FORGET, UNFORGET
        from mindhold.memories.recall import RECALL

        self.heading("Forgetting, and changing one's mind")
        result = await self._session.run(RECALL, query=FIRST_FACT, limit=1)
        first = result.hits[0].id
        forgotten = await self._session.run(FORGET, ids=[first])
        after = await self._session.run(RECALL, query=FIRST_FACT)
        is_hidden = first not in {hit.id for hit in after.hits}
        await self._session.run(UNFORGET, ids=[first])
        self._say(
            f"Forgot {plural(forgotten.count, 'memory')}: {'recall no longer finds it' if is_hidden else 'still found'}."
        )
        self._say("With --undo it is back; with --hard it would be gone for good, with a receipt.")
        self._note("forget", id=first, hidden=is_hidden)

    def heading(self, text: str) -> None:
        """Print a heading, unless --json was given."""
        if not self._console.json:
            self._console.line("\n" + self._console.style(text, bold=True))

    def _say(self, text: str) -> None:
        if not self._console.json:
            self._console.line(f"  {text}")

    def _note(self, step: str, **facts: Any) -> None:
        self.steps.append({"step": step, **facts})
