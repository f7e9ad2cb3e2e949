"""What is counted, as Prometheus reads it. No label holds what a client made up."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest

from mindhold.model.job import JobState
from mindhold.model.memory import Status

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
OTHER = "other"
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
MOST_WORDS = 100
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Words:
    """The values of a label: the first so many keep their name, later ones share one."""

    def __init__(self, most: int = MOST_WORDS) -> None:
        self._most = most
        self._known: set[str] = set()

    def __call__(self, word: str) -> str:
        if word not in self._known:
            if (
                len(self._known) >= self._most
                or len(word) > 64
                or not word.isascii()
                or not word.isprintable()
            ):
                return OTHER
            self._known.add(word)
        return word


class Metrics:
    """One for a process."""

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        self._tools, self._outcomes, self._models = Words(), Words(), Words(20)
        self._requests = Counter(
            "mindhold_http_requests", "Requests answered.", ["route", "method", "status"], registry=registry
        )
        self._seconds = Histogram(
            "mindhold_http_request_seconds",
            "Time to answer a request; streams are not in it.",
            ["route", "method"],
            buckets=SECONDS,
            registry=registry,
        )
        self._calls = Counter(
            "mindhold_tool_calls", "Calls of tools.", ["tool", "outcome"], registry=registry
        )
        self._call_seconds = Histogram(
            "mindhold_tool_call_seconds",
            "Time of a tool's call.",
            ["tool"],
            buckets=SECONDS,
            registry=registry,
        )
        self._sessions = Gauge("mindhold_sessions", "Conversations that are open.", registry=registry)
        self._up = Gauge("mindhold_store_up", "1 while the store answers.", registry=registry)
        self._records = Gauge("mindhold_memories", "Memories kept.", ["status"], registry=registry)
        self._jobs = Gauge("mindhold_jobs", "Jobs in the queue.", ["state"], registry=registry)
        self._model_calls = Counter(
            "mindhold_model_calls", "Calls of language models.", ["model", "outcome"], registry=registry
        )
        self._model_tokens = Counter(
            "mindhold_model_tokens", "Tokens of language models.", ["model", "direction"], registry=registry
        )

    def observe_tool(self, tool: str, outcome: str, seconds: float) -> None:
        """A tool was called."""
        name = self._tools(tool)
        self._calls.labels(name, self._outcomes(outcome)).inc()
        self._call_seconds.labels(name).observe(seconds)

    def observe_request(self, *, route: str, method: str, status: int, seconds: float | None) -> None:
        """A request was answered; `seconds` is None for a stream. `route` is one of ours, not what was asked for."""
        verb = method if method in METHODS else OTHER
        self._requests.labels(route, verb, str(status)).inc()
        if seconds is not None:
            self._seconds.labels(route, verb).observe(seconds)

    def observe_model(
        self, model: str, *, outcome: str = "ok", tokens_in: int = 0, tokens_out: int = 0
    ) -> None:
        """A language model was asked; a client's own one, by sampling, too."""
        name = self._models(model)
        self._model_calls.labels(name, self._outcomes(outcome)).inc()
        self._model_tokens.labels(name, "in").inc(tokens_in)
        self._model_tokens.labels(name, "out").inc(tokens_out)

    def count_sessions(self, count: Callable[[], int]) -> None:
        """Ask this when the gauge is read."""
        self._sessions.set_function(lambda: float(count()))

    def set_store(self, *, up: bool, records: Mapping[str, int], jobs: Mapping[str, int]) -> None:
        """How the store is, as of now."""
        self._up.set(1.0 if up else 0.0)
        if up:  # a store that doesn't answer leaves the last that was known
            for status in Status:
                self._records.labels(status).set(records.get(status, 0))
            for state in JobState:
                self._jobs.labels(state).set(jobs.get(state, 0))

    def text(self) -> bytes:
        """Everything, in Prometheus' text format."""
        return generate_latest(self._registry)
