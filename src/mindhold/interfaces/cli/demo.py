"""`mindhold demo`: a short tour on a temporary database."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from mindhold.interfaces.cli.command import command, with_session
from mindhold.interfaces.cli.output import Console, one_line, plural
from mindhold.interfaces.cli.session import CliSession, OpenSession

FACTS: tuple[dict[str, Any], ...] = (
    {
        "content": "The staging database of Lighthouse listens on port 5433.",
        "kind": "fact",
        "tags": ["staging"],
    },
    {
        "content": "We chose SQLite for the desktop client because nobody has to install a server.",
        "kind": "decision",
    },
    {
        "content": "Deploys fail when the CDN cache is not purged first; purge it, then deploy.",
        "kind": "gotcha",
        "tags": ["deploy"],
    },
    {"content": "Error messages are written in plain English and say what to do next.", "kind": "preference"},
    {
        "content": "To rotate the signing key, run the rotate script on both build machines.",
        "kind": "procedure",
    },
    {"content": "The importer runs out of memory on files above two gigabytes.", "kind": "error"},
    {
        "content": "Map tiles are rendered by the tile service, which scales out by region.",
        "kind": "architecture",
    },
    {"content": "The mobile app polls every fifteen minutes to spare the battery.", "kind": "fact"},
    {"content": "The search page was redesigned and shipped.", "kind": "progress", "when": "last week"},
    {"content": "Integration tests need the queue emulator running on port 9324.", "kind": "procedure"},
)
QUESTIONS = (
    "why did we not use a database server?",
    "what is the tone of our messages to users?",
    "how do I change the key that signs builds?",
    "why does importing big files crash?",
)
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
    _heading(console, "Now yours")
    console.line('  mindhold remember "..."        store something of your own')
    console.line('  mindhold recall "..."          ask for it in other words')
    console.line("  mindhold list, tags, timeline  look around")
    console.line("  mindhold status, doctor        see how things are")
    if not tour.by_meaning:
        console.line("  mindhold models pull           let recall go by meaning, not by words alone")
    console.line(
        "  mindhold mcp                   give it to an agent: claude mcp add mindhold -- mindhold mcp"
    )
    console.line("  mindhold --help                everything else; each command has examples")
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
        self._heading("Remembering ten things about a made-up project, Lighthouse")
        items = []
        for fact in FACTS:
            fields = dict(fact)
            phrase = fields.pop("when", None)
            items.append({**fields, "occurred": await self._session.instant(phrase)} if phrase else fields)
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

        self._heading("Recalling, in other words than they were stored in")
        for question in QUESTIONS:
            result = await self._session.run(RECALL, query=question, limit=1)
            best = result.hits[0] if result.hits else None
            self._say(f"? {question}")
            self._say(f"  {best.score:.2f}  {one_line(best.content)}" if best else self._empty)
            self._note("recall", question=question, answer=best.content if best else None)

    async def refuse(self) -> None:
        """Try to store a duplicate and a secret."""
        from mindhold.memories.remember import REMEMBER

        self._heading("What is not stored twice, and what is not stored at all")
        again = await self._session.run(REMEMBER, content=FACTS[0]["content"])
        self._say(f"The first fact again: {again.outcome}, known as {again.id}.")
        self._note("duplicate", outcome=again.outcome, id=again.id)
        secret = await self._session.run(REMEMBER, content=SECRET)
        content = secret.memory.content if secret.memory else ""
        self._say(f"A text with a token in it was kept as: {one_line(content)}")
        self._note("redaction", content=content, redacted=secret.redacted)

    async def time(self) -> None:
        """Ask by a phrase of time."""
        from mindhold.memories.recall import RECALL

        self._heading('Asking by time: mindhold recall shipped --when "last week"')
        result = await self._session.run(RECALL, query="what was shipped", when="last week")
        words = result.timeframe.words if result.timeframe else ""
        self._say(f"Understood as {words}.")
        for hit in result.hits[:1]:
            self._say(f"  {hit.score:.2f}  {one_line(hit.content)}")
        self._note("time", range=words, answer=[hit.content for hit in result.hits])

    async def forget(self) -> None:
        """Hide a memory and bring it back."""
        from mindhold.memories.forget import FORGET, UNFORGET
        from mindhold.memories.recall import RECALL

        self._heading("Forgetting, and changing one's mind")
        result = await self._session.run(RECALL, query=FACTS[0]["content"], limit=1)
        first = result.hits[0].id
        forgotten = await self._session.run(FORGET, ids=[first])
        after = await self._session.run(RECALL, query=FACTS[0]["content"])
        is_hidden = first not in {hit.id for hit in after.hits}
        await self._session.run(UNFORGET, ids=[first])
        self._say(
            f"Forgot {plural(forgotten.count, 'memory')}: {'recall no longer finds it' if is_hidden else 'still found'}."
        )
        self._say("With --undo it is back; with --hard it would be gone for good, with a receipt.")
        self._note("forget", id=first, hidden=is_hidden)

    @property
    def _empty(self) -> str:
        return "  nothing found" if self.by_meaning else "  nothing found by words alone"

    def _heading(self, text: str) -> None:
        if not self._console.json:
            _heading(self._console, text)

    def _say(self, text: str) -> None:
        if not self._console.json:
            self._console.line(f"  {text}")

    def _note(self, step: str, **facts: Any) -> None:
        self.steps.append({"step": step, **facts})


def _heading(console: Console, text: str) -> None:
    console.line("\n" + console.style(text, bold=True))
