"""Requests to a remote service: its address, timeouts, retries, rate limits, and the meaning of its refusals."""

from __future__ import annotations

import asyncio
import json
import math
import random
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from mindhold.model.errors import ModelAway, ModelBroken, ModelDenied, ModelError, ModelMissing, SettingsError
from mindhold.model.host import is_service_here

if TYPE_CHECKING:
    import httpx2


MINUTE = 60.0
FIRST_HOLD = 5.0
LONGEST_HOLD = 60.0
LONGEST_RETRY_AFTER = 600.0  # the longest Retry-After that is respected
_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 8.0
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Timing:
    """The clock, injected so that tests need no sleep. `jitter` returns a number from 0 to 1."""

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    jitter: Callable[[], float] = random.random


def as_unsent(error: ModelError) -> ModelError:
    """Copy the error and mark it as one of a call that was never sent."""
    copy = type(error)(error.message, advice=error.advice)
    copy.unasked = True
    return copy


class Circuit:
    """A circuit breaker: after a failure, calls fail at once until one of them is allowed to try again."""

    def __init__(self, timing: Timing) -> None:
        self._timing = timing
        self._error: ModelError | None = None
        self._until = 0.0
        self._hold = 0.0
        self._trying = False

    @contextmanager
    def guard(self) -> Iterator[bool]:
        """Guard a call: a ServiceFault opens the circuit and its error is raised, success closes it.

        Yields whether the call is the trial of an open circuit. Raises the error that opened it while it is open.
        """
        trial = self._enter()
        try:
            yield trial
        except ServiceFault as fault:
            if fault.hold_seconds is not None:
                self._open(fault.error, at_least=max(fault.hold_seconds, fault.after or 0.0))
            raise fault.error from fault
        finally:
            if trial:
                self._trying = False
        self._error, self._hold = None, 0.0

    def _enter(self) -> bool:
        if self._error is None:
            return False
        if self._trying or self._timing.now() < self._until:
            raise as_unsent(self._error)
        self._trying = True
        return True

    def _open(self, error: ModelError, *, at_least: float) -> None:
        """Open the circuit: 5 seconds at first, doubled up to a minute, or as long as the service asked for."""
        if self._error is None or self._trying:  # of many calls that fail at once, the first counts
            self._hold = min(LONGEST_HOLD, max(FIRST_HOLD, self._hold * 2))
        self._error = error
        hold = max(self._hold, min(at_least, LONGEST_RETRY_AFTER))
        self._until = max(self._until, self._timing.now() + hold)


class RateLimiter:
    """A rate limiter: at most so many requests and tokens a minute; 0 means no limit.

    Unused allowance is saved for at most a minute. `section` names the settings section of the limits.
    """

    def __init__(self, requests: int, tokens: int, timing: Timing, *, section: str) -> None:
        self._timing = timing
        self._section = section
        self._rates = (requests / MINUTE, tokens / MINUTE)
        self._allowance = [float(requests), float(tokens)]
        self._last_time = timing.now()

    async def take(self, tokens: int, *, patience: float) -> None:
        """Wait until one request with so many tokens is allowed. Raises ModelAway if that takes longer than `patience` seconds."""
        now = self._timing.now()
        elapsed, self._last_time = now - self._last_time, now
        due = 0.0
        for index, (rate, cost) in enumerate(zip(self._rates, (1.0, float(tokens)), strict=True)):
            if not rate:
                continue
            self._allowance[index] = min(rate * MINUTE, self._allowance[index] + elapsed * rate)
            # A request larger than a minute's allowance is sent once a full minute is saved.
            shortage = min(cost, rate * MINUTE) - self._allowance[index]
            due = max(due, shortage / rate)
        if due >= patience:
            raise ModelAway(
                f"The next call of the service is due in {due:.0f} seconds by the limits set here.",
                advice=f"Raise {self._section}.requests_per_minute or {self._section}.tokens_per_minute, or wait.",
            )
        # Subtracted before the wait, so that later callers queue behind this one.
        self._allowance[0] -= 1.0
        self._allowance[1] -= tokens
        if due > 0:
            await self._timing.sleep(due)


def endpoint(base_url: str, *, plain_http: bool, path: str, section: str) -> str:
    """Build the URL of an endpoint; `section` names the settings section of `base_url`. Raises SettingsError."""
    setting = f"{section}.base_url"
    if not base_url.strip().isprintable() or " " in base_url.strip():
        raise _setting_error(setting, "holds characters that no address has", advice="Copy it anew.")
    try:
        parts = urlsplit(base_url.strip())
        host, _ = parts.hostname or "", parts.port
    except ValueError as error:
        raise _setting_error(setting, "is no address") from error
    if parts.scheme not in ("http", "https") or not host:
        raise _setting_error(setting, "is no address", advice="Give one such as http://localhost:11434/v1.")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise _setting_error(
            setting,
            "holds more than a place",
            advice=f"Give the address alone; a key has a setting of its own, such as {section}.openai_key.",
        )
    if parts.scheme == "http" and not is_service_here(host) and not plain_http:
        raise _setting_error(
            setting,
            f"leads to {host} by plain http, where others can read every text and the key",
            advice=f"Use https://, or say {section}.plain_http = true for a network that you trust.",
        )
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/').removesuffix(path)}{path}"


def host_of(address: str) -> str:
    """Return the host of a URL, for messages."""
    return urlsplit(address).hostname or address


def _setting_error(setting: str, what: str, *, advice: str = "Correct it.") -> SettingsError:
    return SettingsError(f"{setting} {what}.", advice=advice)


LARGEST_ANSWER = 128 * 1024 * 1024
LONGEST_MESSAGE = 200
HIDDEN_SECRET = "(hidden)"
_CONNECT_SECONDS = 3.0
_DENIED_STATUSES = (401, 402, 403)
_TEMPORARY_STATUSES = (408, 425, 429)
_QUOTA_SPENT = "insufficient_quota"


@dataclass(frozen=True, slots=True)
class Advice:
    """The advice for the user, by kind of failure."""

    later: str  # the service is away for a while
    address: str
    model: str
    call: str


@dataclass(frozen=True, slots=True)
class RemoteService:
    """A service: its display name, address, key and headers."""

    title: str
    address: str
    advice: Advice
    key: str = field(default="", repr=False)
    key_header: str = "Authorization"
    key_scheme: str = "Bearer "
    headers: Mapping[str, str] = field(default_factory=dict)  # besides the key
    largest_answer: int = LARGEST_ANSWER


class ServiceFault(Exception):
    """A failed request: the error, whether a retry may succeed and when, and how long to leave the service alone."""

    def __init__(
        self,
        error: ModelError,
        *,
        temporary: bool = False,
        after: float | None = None,
        hold_seconds: float | None = 0.0,
    ) -> None:
        super().__init__(error.message)
        self.error = error
        self.temporary = temporary
        self.after = after
        self.hold_seconds = hold_seconds  # None: the request was at fault, not the service


async def with_retries(
    send: Callable[[], Awaitable[Answer]], *, attempts: int, deadline: float, timing: Timing
) -> Answer:
    """Call `send` until it succeeds or another attempt before the deadline can't help. Raises ServiceFault."""
    attempt = 1
    while True:
        try:
            return await send()
        except ServiceFault as fault:
            delay = _retry_delay(fault, attempt, timing)
            if not fault.temporary or attempt == attempts or timing.now() + delay >= deadline:
                raise
        await timing.sleep(delay)
        attempt += 1


def _retry_delay(fault: ServiceFault, attempt: int, timing: Timing) -> float:
    """Return the seconds before the next attempt: as long as the service asked for, else doubled each time.

    They are randomised, so that callers don't retry together.
    """
    if fault.after is not None:
        return fault.after * (1 + timing.jitter() / 4)
    longest: float = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** (attempt - 1))
    return longest * (0.5 + timing.jitter() / 2)


class ServiceConnection:
    """The HTTP connections to one service, opened at first use."""

    def __init__(self, remote: RemoteService) -> None:
        self._remote = remote
        self._client: httpx2.AsyncClient | None = None
        self._open_lock = threading.Lock()

    def load(self) -> None:
        """Load the client library and its certificates, which takes a while; sends nothing. Blocks. Raises ModelBroken."""
        import httpx2

        address = self._remote.address
        with self._open_lock:
            if self._client is None:
                try:
                    self._client = httpx2.AsyncClient(
                        # A proxy of the environment is not used for this machine.
                        trust_env=not is_service_here(host_of(address)),
                        # No certificates are loaded for plain HTTP. Redirects are not followed.
                        verify=address.startswith("https:"),
                    )
                except (ImportError, OSError, ValueError, httpx2.InvalidURL) as error:
                    raise self._client_error(error) from error

    async def post(self, body: Mapping[str, Any], *, patience: float) -> bytes:
        """POST the body as JSON and return the answer's content within `patience` seconds. Raises ServiceFault."""
        try:
            while (client := self._client) is None:
                await asyncio.to_thread(self.load)
        except ModelBroken as error:
            raise ServiceFault(error, hold_seconds=LONGEST_HOLD) from error
        import httpx2  # already loaded, in a thread

        try:
            async with asyncio.timeout(patience):
                timeout = httpx2.Timeout(None, connect=min(_CONNECT_SECONDS, patience))
                return await self._post(client, body, timeout=timeout)
        except TimeoutError as error:
            raise self.away(f"didn't answer within {patience:.0f} seconds", lost=True) from error
        except httpx2.TimeoutException as error:
            raise self.away("can't be reached in time") from error
        except httpx2.HTTPError as error:
            message = f"can't be reached: {self.shorten(str(error)) or type(error).__name__}"
            raise self.away(message, lost=not isinstance(error, httpx2.ConnectError)) from error
        except httpx2.InvalidURL as error:
            title, advice = self._remote.title, self._remote.advice.address
            wrong = ModelBroken(f"{title} can't be asked: its address is none.", advice=advice)
            raise ServiceFault(wrong, hold_seconds=LONGEST_HOLD) from error

    async def close(self) -> None:
        """Close the connections. Idempotent."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    def away(self, what: str, *, after: float | None = None, lost: bool = False) -> ServiceFault:
        """Make the fault of a service that is away for a while. `lost`: it may still work on the request."""
        error = ModelAway(f"{self._remote.title} {what}.", advice=self._remote.advice.later)
        error.lost = lost
        return ServiceFault(error, temporary=True, after=after)

    def shorten(self, text: str) -> str:
        """Shorten the service's own words to one line without the key."""
        return one_line(text, (self._remote.key,))

    async def _post(
        self, client: httpx2.AsyncClient, body: Mapping[str, Any], *, timeout: httpx2.Timeout
    ) -> bytes:
        remote = self._remote
        headers = dict(remote.headers)
        if remote.key:
            headers[remote.key_header] = remote.key_scheme + remote.key
        async with client.stream(
            "POST", remote.address, json=body, headers=headers, timeout=timeout
        ) as response:
            content = bytearray()
            async for piece in response.aiter_bytes():
                content += piece
                if len(content) > remote.largest_answer:
                    raise ServiceFault(ModelBroken(f"{remote.title} answers without end."))
        if response.status_code != 200:
            raise self._refusal_fault(
                response.status_code, response.headers, bytes(content), str(body["model"])
            )
        return bytes(content)

    def _refusal_fault(
        self, status: int, headers: Mapping[str, str], content: bytes, model: str
    ) -> ServiceFault:
        title, advice = self._remote.title, self._remote.advice
        code, words = parse_error(content)
        if (status in _TEMPORARY_STATUSES or status >= 500) and code != _QUOTA_SPENT:
            after = retry_after(headers, now=datetime.now(UTC))
            what = "takes no more calls for now" if status == 429 else f"fails (HTTP {status})"
            return self.away(what, after=after)
        error: ModelError
        if status in _DENIED_STATUSES or code == _QUOTA_SPENT:
            # The service's own words are left out: they repeat a part of the key.
            spent = code == _QUOTA_SPENT or status == 402
            what = "says that the account is spent" if spent else "refuses the key"
            error = ModelDenied(
                f"{title} {what} (HTTP {status}).",
                advice="Correct the key or the account; a new key is read at the next start.",
            )
        elif status == 404:
            where = host_of(self._remote.address)
            error = ModelMissing(f"{title} has no model {model!r} at {where}.", advice=advice.model)
        elif 300 <= status < 400:
            error = ModelBroken(f"{title} sends callers elsewhere (HTTP {status}).", advice=advice.address)
        else:
            detail = f": {shortened}" if (shortened := self.shorten(words)) else ""
            error = ModelBroken(f"{title} refuses a call (HTTP {status}){detail}.", advice=advice.call)
            return ServiceFault(error, hold_seconds=None)
        return ServiceFault(error, hold_seconds=LONGEST_HOLD)

    def _client_error(self, error: Exception) -> ModelBroken:
        """Make the error for a client that can't be created; a proxy's address is left out, because it may hold a password."""
        reason = str(error) if isinstance(error, ImportError) else getattr(error, "strerror", None)
        return ModelBroken(
            f"{self._remote.title} can't be asked with the proxy or the certificates that the environment names "
            f"({self.shorten(reason or type(error).__name__)}).",
            advice="Correct ALL_PROXY, HTTPS_PROXY, SSL_CERT_FILE or SSL_CERT_DIR, or unset them for Mindhold.",
        )


def one_line(text: str, secrets: tuple[str, ...] = ()) -> str:
    """Shorten foreign text to one bounded line without any of the secrets."""
    for secret in secrets:
        text = text.replace(secret, HIDDEN_SECRET) if secret else text
    return " ".join(text.split())[:LONGEST_MESSAGE].rstrip(".")


def encodable(text: str) -> str:
    """Replace lone surrogates, which can't be encoded."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def retry_after(headers: Mapping[str, str], *, now: datetime) -> float | None:
    """Return the seconds that the service asks to wait; None when it doesn't say."""
    for name, scale in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        value = headers.get(name, "").strip()
        try:
            seconds = float(value) / scale
        except ValueError:
            seconds = _seconds_until(value, now)
        if math.isfinite(seconds):
            return max(0.0, seconds)
    return None


def parse_json(content: bytes | str) -> Any:
    """Parse JSON. Raises ValueError, also for nesting that is too deep."""
    try:
        return json.loads(content)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def parse_error(content: bytes) -> tuple[str, str]:
    """Return code and message of an error document, in any of the usual shapes."""
    try:
        document = parse_json(content)
    except ValueError:
        return "", ""
    inner = document.get("error", document) if isinstance(document, dict) else document
    if not isinstance(inner, dict):
        return "", inner if isinstance(inner, str) else ""
    words = inner.get("message") or inner.get("detail") or ""
    return str(inner.get("code") or inner.get("type") or ""), words if isinstance(words, str) else ""


def _seconds_until(value: str, now: datetime) -> float:
    from email.utils import parsedate_to_datetime  # slow to import, rarely needed

    try:
        moment = parsedate_to_datetime(value)
    except ValueError:
        return math.nan
    return (moment.replace(tzinfo=moment.tzinfo or UTC) - now).total_seconds()
