"""One request to an embedding service and what its answer means. The key goes into a header and nowhere else."""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import math
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from recollect.model.errors import ModelAway, ModelBroken, ModelDenied, ModelError, ModelMissing
from recollect.ports.embedder import Matrix
from recollect.providers.embedding.address import host_of, is_loopback
from recollect.providers.embedding.patience import LONGEST_HOLD

if TYPE_CHECKING:
    import httpx2

LARGEST_ANSWER = 128 * 1024 * 1024
LONGEST_WORDS = 200
_CONNECT_SECONDS = 3.0
_LATER = "It is tried again by itself; recall goes by words meanwhile."
_DENIED = (401, 402, 403)
_PASSING = (408, 425, 429)
_SPENT = "insufficient_quota"
_TOO_MANY_TOKENS = 1_000_000_000  # for one call; whoever says so can't count


@dataclass(frozen=True, slots=True)
class Reply:
    """Vectors as they came, a row a text, and the tokens that the service counted; None when it didn't say."""

    vectors: Matrix
    tokens: int | None


class Fault(Exception):
    """What became of a request that failed: whether another may succeed, and when, and whether to ask at all."""

    def __init__(
        self,
        error: ModelError,
        *,
        passing: bool = False,
        after: float | None = None,
        holds: float | None = 0.0,
    ) -> None:
        super().__init__(error.message)
        self.error = error
        self.passing = passing
        self.after = after
        self.holds = holds  # None: the fault is the request's, and says nothing about the next


class Line:
    """The connections to one service, opened at first use."""

    def __init__(self, title: str, address: str, key: str) -> None:
        self._title = title
        self._address = address
        self._key = key
        self._client: httpx2.AsyncClient | None = None
        self._opening = threading.Lock()

    def load(self) -> None:
        """The client library and its certificates, which take their time; nothing is asked. Blocks. Raises ModelBroken."""
        import httpx2

        with self._opening:
            if self._client is None:
                try:
                    self._client = httpx2.AsyncClient(
                        # A proxy that the environment names is for other machines than this one.
                        trust_env=not is_loopback(host_of(self._address)),
                        # No certificates are read for an address without TLS; redirects are not followed.
                        verify=self._address.startswith("https:"),
                    )
                except (ImportError, OSError, ValueError, httpx2.InvalidURL) as error:
                    raise self._unusable(error) from error

    async def send(self, body: Mapping[str, Any], *, patience: float) -> Reply:
        """Raises Fault; within the patience."""
        try:
            client = await self._opened()
        except ModelBroken as error:
            raise Fault(error, holds=LONGEST_HOLD) from error
        import httpx2  # loaded by a thread just now

        try:
            async with asyncio.timeout(patience):
                timeout = httpx2.Timeout(None, connect=min(_CONNECT_SECONDS, patience))
                return await self._send(client, body, timeout=timeout)
        except TimeoutError as error:
            raise self._away(f"didn't answer within {patience:.0f} seconds") from error
        except httpx2.TimeoutException as error:
            raise self._away("can't be reached in time") from error
        except httpx2.HTTPError as error:
            raise self._away(
                f"can't be reached: {self._words(str(error)) or type(error).__name__}"
            ) from error
        except httpx2.InvalidURL as error:
            wrong = ModelBroken(
                f"{self._title} can't be asked: its address is none.", advice="Correct embedding.base_url."
            )
            raise Fault(wrong, holds=LONGEST_HOLD) from error

    async def close(self) -> None:
        """Idempotent."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def _send(
        self, client: httpx2.AsyncClient, body: Mapping[str, Any], *, timeout: httpx2.Timeout
    ) -> Reply:
        headers = {"Authorization": f"Bearer {self._key}"} if self._key else {}
        async with client.stream(
            "POST", self._address, json=body, headers=headers, timeout=timeout
        ) as response:
            content = bytearray()
            async for piece in response.aiter_bytes():
                content += piece
                if len(content) > LARGEST_ANSWER:
                    raise Fault(ModelBroken(f"{self._title} answers without end."))
        if response.status_code != 200:
            raise self._refusal(response.status_code, response.headers, bytes(content), str(body["model"]))
        try:
            return parsed(bytes(content), len(body["input"]))
        except ValueError as error:
            raise Fault(
                ModelBroken(
                    f"{self._title} answers what can't be read as vectors: {error}.",
                    advice="Check embedding.base_url: it usually ends in /v1.",
                )
            ) from error

    async def _opened(self) -> httpx2.AsyncClient:
        while self._client is None:
            await asyncio.to_thread(self.load)
        return self._client

    def _refusal(self, status: int, headers: Mapping[str, str], content: bytes, model: str) -> Fault:
        code, words = _complaint(content)
        if status in _DENIED or code == _SPENT:
            # Its own words are left out: they repeat a part of the key.
            what = "says that the account is spent" if code == _SPENT or status == 402 else "refuses the key"
            error: ModelError = ModelDenied(
                f"{self._title} {what} (HTTP {status}).",
                advice="Correct the key or the account; a new key is read at the next start.",
            )
            return Fault(error, holds=LONGEST_HOLD)
        if status in _PASSING or status >= 500:
            after = retry_after(headers, now=datetime.now(UTC))
            what = "takes no more calls for now" if status == 429 else f"fails (HTTP {status})"
            return self._away(what, after=after)
        if status == 404:
            error = ModelMissing(
                f"{self._title} has no model {model!r} at {host_of(self._address)}.",
                advice="Check embedding.model and embedding.base_url, which usually ends in /v1.",
            )
            return Fault(error, holds=LONGEST_HOLD)
        if 300 <= status < 400:
            error = ModelBroken(
                f"{self._title} sends callers elsewhere (HTTP {status}).",
                advice="Correct embedding.base_url.",
            )
            return Fault(error, holds=LONGEST_HOLD)
        told = f": {said}" if (said := self._words(words)) else ""
        error = ModelBroken(
            f"{self._title} refuses a call (HTTP {status}){told}.",
            advice="Check embedding.model and embedding.dimensions; too long texts call for embedding.window_tokens.",
        )
        return Fault(error, holds=None)

    def _unusable(self, error: Exception) -> ModelBroken:
        """A client can't be made. Words about a proxy's address are left out: it may hold a password."""
        told = str(error) if isinstance(error, ImportError) else getattr(error, "strerror", None)
        return ModelBroken(
            f"{self._title} can't be asked with the proxy or the certificates that the environment names "
            f"({self._words(told or type(error).__name__)}).",
            advice="Correct ALL_PROXY, HTTPS_PROXY, SSL_CERT_FILE or SSL_CERT_DIR, or unset them for Recollect.",
        )

    def _away(self, what: str, *, after: float | None = None) -> Fault:
        return Fault(ModelAway(f"{self._title} {what}.", advice=_LATER), passing=True, after=after)

    def _words(self, text: str) -> str:
        """Theirs, on one line, bounded, and without the key."""
        hidden = text.replace(self._key, "(hidden)") if self._key else text
        return " ".join(hidden.split())[:LONGEST_WORDS].rstrip(".")


def parsed(content: bytes, count: int) -> Reply:
    """Rows in the order of the texts. Raises ValueError."""
    document = _document(content)
    if not isinstance(document, dict) or not isinstance(document.get("data"), list):
        raise ValueError("there is no list of data")
    rows: dict[int, npt.NDArray[np.float64]] = {}
    for place, item in enumerate(document["data"]):
        if not isinstance(item, dict):
            raise ValueError("an embedding is no object")
        index = item.get("index", place)
        if not isinstance(index, int) or not 0 <= index < count or index in rows:
            raise ValueError("an embedding has no place")
        rows[index] = _row(item.get("embedding"))
    if len(rows) != count:
        raise ValueError(f"{len(rows)} embeddings came for {count} texts")
    if len({len(row) for row in rows.values()}) > 1:
        raise ValueError("the embeddings differ in length")
    vectors = np.stack([rows[index] for index in range(count)])
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    if not np.isfinite(norms).all() or not norms.all():
        raise ValueError("an embedding has no direction")
    return Reply((vectors / norms).astype(np.float32), _tokens(document.get("usage")))


def retry_after(headers: Mapping[str, str], *, now: datetime) -> float | None:
    """Seconds that the service asks to be left alone; None when it doesn't say."""
    for name, scale in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        given = headers.get(name, "").strip()
        try:
            seconds = float(given) / scale
        except ValueError:
            seconds = _seconds_until(given, now)
        if math.isfinite(seconds):
            return max(0.0, seconds)
    return None


def _seconds_until(given: str, now: datetime) -> float:
    from email.utils import parsedate_to_datetime  # a tenth of a start, for what is rarely sent

    try:
        moment = parsedate_to_datetime(given)
    except ValueError:
        return math.nan
    return (moment.replace(tzinfo=moment.tzinfo or UTC) - now).total_seconds()


def _document(content: bytes) -> Any:
    try:
        return json.loads(content)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def _row(embedding: Any) -> npt.NDArray[np.float64]:
    if isinstance(embedding, str):
        try:
            raw = base64.b64decode(embedding, validate=True)
            return np.frombuffer(raw, dtype="<f4").astype(np.float64)
        except (binascii.Error, ValueError) as error:
            raise ValueError("an embedding is no base64") from error
    if not isinstance(embedding, list) or not embedding:
        raise ValueError("an embedding is no list of numbers")
    try:
        row = np.array(embedding, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError("an embedding is no list of numbers") from error
    if row.ndim != 1:
        raise ValueError("an embedding is no list of numbers")
    return row


def _tokens(usage: Any) -> int | None:
    for name in ("total_tokens", "prompt_tokens"):
        count = usage.get(name) if isinstance(usage, dict) else None
        if isinstance(count, int) and 0 < count < _TOO_MANY_TOKENS:
            return count
    return None


def _complaint(content: bytes) -> tuple[str, str]:
    """The code and the words of an error, in whichever of the usual shapes."""
    try:
        document = _document(content)
    except ValueError:
        return "", ""
    inner = document.get("error", document) if isinstance(document, dict) else document
    if not isinstance(inner, dict):
        return "", inner if isinstance(inner, str) else ""
    words = inner.get("message") or inner.get("detail") or ""
    return str(inner.get("code") or inner.get("type") or ""), words if isinstance(words, str) else ""
