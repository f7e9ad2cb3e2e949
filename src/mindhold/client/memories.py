"""What can be asked of memories and of the server as a whole, for both clients."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mindhold.client.download import Download
from mindhold.client.methods import Method, Page, Pages, Talking, Turn
from mindhold.client.wire import Ask, Talk

if TYPE_CHECKING:
    from mindhold.operations.forgetting import ForgetResult, UnforgetResult
    from mindhold.operations.keeping import ExportResult, ListScopesResult, ScopeView
    from mindhold.operations.knowing import AskResult, ContextResult
    from mindhold.operations.reading import RecallResult, ShowResult, TagsResult
    from mindhold.operations.safekeeping import StatsResult
    from mindhold.operations.timing import TimelineResult
    from mindhold.operations.upkeep import StatusResult
    from mindhold.operations.views import MemoryView
    from mindhold.operations.writing import AmendResult, LinkResult, RememberManyResult, RememberResult

PAGE = 200
Words = Iterable[str]


class MemoryMethods(Talking):
    """Memories, scopes, and what is known of everything.

    Each takes the fields of its operation; the rarer ones go by as `more`. What is None is as if it weren't given.
    """

    @Method
    def run(self, name: str, /, **fields: Any) -> Talk[Any]:
        """Any operation that the server has, by its name in /openapi.json. Answers the operation's own output."""
        return self.wire.run(name, fields)

    @Method
    def remember(
        self,
        /,
        content: str,
        *,
        kind: str | None = None,
        scope: str | None = None,
        topic: str | None = None,
        tags: Words | None = None,
        importance: float | None = None,
        occurred: datetime | None = None,
        metadata: Mapping[str, Any] | None = None,
        key: str | None = None,
        **more: Any,
    ) -> Talk[RememberResult]:
        """Store one memory. The same `key` again within a day stores nothing new and answers as before."""
        return self.wire.run(
            "remember",
            {
                "content": content,
                "kind": kind,
                "scope": scope,
                "topic": topic,
                "tags": _listed(tags),
                "importance": importance,
                "occurred": occurred,
                "metadata": metadata,
                "idempotency_key": key,
                **more,
            },
        )

    @Method
    def remember_many(
        self, /, items: Iterable[Mapping[str, Any]], *, scope: str | None = None, **more: Any
    ) -> Talk[RememberManyResult]:
        """Store several, each with the fields of `remember`; each has its own answer."""
        return self.wire.run("remember_many", {"items": list(items), "scope": scope, **more})

    @Method
    def recall(
        self,
        /,
        query: str = "",
        *,
        scope: str | None = None,
        everywhere: bool | None = None,
        tags: Words | None = None,
        kinds: Words | None = None,
        topic: str | None = None,
        when: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int | None = None,
        token_budget: int | None = None,
        **more: Any,
    ) -> Talk[RecallResult]:
        """The right few for a question, best first; `when` is a time in words, such as "last week"."""
        return self.wire.run(
            "recall",
            {
                "query": query,
                "scope": scope,
                "everywhere": everywhere,
                "tags": _listed(tags),
                "kinds": _listed(kinds),
                "topic": topic,
                "when": when,
                "since": since,
                "until": until,
                "limit": limit,
                "token_budget": token_budget,
                **more,
            },
        )

    @Pages
    def memories(
        self,
        /,
        *,
        scope: str | None = None,
        tags: Words | None = None,
        kinds: Words | None = None,
        topic: str | None = None,
        when: str | None = None,
        order: str | None = None,
        page: int = PAGE,
        **more: Any,
    ) -> Turn[MemoryView]:
        """Every memory that the filters let through, newest first unless asked otherwise; fetched `page` by page."""
        given = {
            "scope": scope,
            "tags": _listed(tags),
            "kinds": _listed(kinds),
            "topic": topic,
            "when": when,
            "order": order,
            "limit": page,
            **more,
        }

        def turn(cursor: str | None) -> Talk[Page[MemoryView]]:
            found = yield from self.wire.run("list", {**given, "cursor": cursor})
            return Page(found.memories, found.next)

        return turn

    @Method
    def show(self, id: str) -> Talk[ShowResult]:
        """One memory with its links and earlier versions; the beginning of its id is enough."""
        return self.wire.run("show", {"id": id})

    @Method
    def amend(
        self,
        /,
        id: str,
        *,
        content: str | None = None,
        tags: Words | None = None,
        importance: float | None = None,
        **more: Any,
    ) -> Talk[AmendResult]:
        """Change what is given and keep the rest; what it said before stays among its versions."""
        given = {"id": id, "content": content, "tags": _listed(tags), "importance": importance, **more}
        return self.wire.run("amend", given)

    @Method
    def forget(self, /, *ids: str, hard: bool | None = None, **more: Any) -> Talk[ForgetResult]:
        """Hide memories at once, everywhere; or, `hard`, remove them for good."""
        return self.wire.run("forget", {"ids": list(ids), "hard": hard, **more})

    @Method
    def unforget(self, *ids: str) -> Talk[UnforgetResult]:
        """Bring back what was forgotten, but not for good."""
        return self.wire.run("unforget", {"ids": list(ids)})

    @Method
    def link(self, origin: str, target: str, *, relation: str | None = None) -> Talk[LinkResult]:
        """Say how two memories relate."""
        return self.wire.run("link", {"origin": origin, "target": target, "relation": relation})

    @Method
    def scopes(self) -> Talk[ListScopesResult]:
        """Every scope, with its counts."""
        return self.wire.run("list_scopes", {})

    @Method
    def create_scope(
        self, /, name: str, *, description: str | None = None, parent: str | None = None, **more: Any
    ) -> Talk[ScopeView]:
        """Make a scope."""
        return self.wire.run(
            "create_scope", {"name": name, "description": description, "parent": parent, **more}
        )

    @Method
    def tags(self, *, scope: str | None = None) -> Talk[TagsResult]:
        """Tags, and how many memories have each."""
        return self.wire.run("tags", {"scope": scope})

    @Method
    def timeline(
        self,
        /,
        when: str | None = None,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        scope: str | None = None,
        limit: int | None = None,
        **more: Any,
    ) -> Talk[TimelineResult]:
        """Memories by the day that they are about."""
        given = {"when": when, "since": since, "until": until, "scope": scope, "limit": limit, **more}
        return self.wire.run("timeline", given)

    @Method
    def context(
        self, /, *, token_budget: int | None = None, scope: str | None = None, **more: Any
    ) -> Talk[ContextResult]:
        """What an agent has in mind when a conversation begins, within a budget."""
        return self.wire.run("context", {"token_budget": token_budget, "scope": scope, **more})

    @Method
    def ask(self, question: str, *, scope: str | None = None, limit: int | None = None) -> Talk[AskResult]:
        """An answer from memory, with what it rests on."""
        return self.wire.run("ask", {"question": question, "scope": scope, "limit": limit})

    @Method
    def status(self) -> Talk[StatusResult]:
        """How the server is."""
        return self.wire.run("status", {})

    @Method
    def memory_stats(self) -> Talk[StatsResult]:
        """How much is remembered: by kind, tier, scope and status."""
        return self.wire.run("stats", {})

    @Method
    def export(
        self, path: str | Path, *, project: str | None = None, scope: str | None = None
    ) -> Talk[ExportResult]:
        """Everything, or one project or scope, as JSON lines into a file of yours; `mindhold import` reads it."""
        target = self.wire.target("export_project" if project else "export", {"scope": project or scope})
        ask = Ask("GET", target, self.wire.headers(Accept="application/x-ndjson"))
        return self._downloaded(ask, Path(path))

    def _downloaded(self, ask: Ask, path: Path) -> Talk[ExportResult]:
        with Download(path) as file:
            whole = Ask(ask.method, ask.target, ask.headers, sink=file)
            yield from self.wire.exchange(whole, again=False)
            return file.finish()


def _listed(words: Words | None) -> list[str] | None:
    """One word is a list of one, not of its letters."""
    if words is None:
        return None
    return [words] if isinstance(words, str) else list(words)
