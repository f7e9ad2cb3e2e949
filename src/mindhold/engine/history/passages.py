"""A conversation in passages: what somebody asked and what followed, in lengths that are found and read as one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from mindhold.engine.history.digest import digest_of, looked_at
from mindhold.engine.text.clean import clean
from mindhold.engine.text.redact import redact
from mindhold.engine.text.split import split
from mindhold.model.words import Words
from mindhold.ports.history import Passage, Utterance
from mindhold.ports.transcripts import Role, Step, beginning, shortened

LENGTH = 2_000  # characters of a passage, about
LONGEST_ASKED = 1_000  # of what a tool was given
_SEEN = 4_000  # of it, for secrets to be known as such
_FOREIGN = "mcp__"  # how tools are called whose names tell what they are about


def passages_of(steps: Sequence[Step], *, words: Words, redacting: bool) -> list[Passage]:
    """In order; together they have every step that says something once, without secrets if `redacting`."""
    return [_passage(held, words) for held in _grouped(_utterances(steps, redacting=redacting))]


def joined(last: Passage, passages: Sequence[Passage], words: Words) -> list[Passage]:
    """The passages of a conversation that went on behind its `last` one, as they were if it had been read at once: the first
    has what the last one had, unless nothing is added to that."""
    said = (*last.utterances, *(one for passage in passages for one in passage.utterances))
    if next(_grouped(said)) == last.utterances:
        return list(passages)
    made = {passage.utterances: passage for passage in passages}
    return [made.get(held) or _passage(held, words) for held in _grouped(said)]


def head_of(title: str, summary: str, note: str, words: Words) -> Passage:
    """The passage that tells of the whole conversation."""
    texts = [title, *([summary] if summary != title else []), *split(note, limit=LENGTH)]
    utterances = tuple(Utterance(Role.CLAUDE, 0, text) for text in texts if text.strip())
    return Passage(utterances, " ".join(filter(None, (words.of(one.text) for one in utterances))), head=True)


def without_secrets(text: str, *, redacting: bool) -> str:
    """Clean, and without secrets if so wanted."""
    cleaned = clean(text) if text else ""
    return redact(cleaned).text if redacting and cleaned else cleaned


def _grouped(utterances: Iterable[Utterance]) -> Iterator[tuple[Utterance, ...]]:
    held: list[Utterance] = []
    length = 0
    for utterance in utterances:
        begins = utterance.role is Role.USER and any(one.role is not Role.USER for one in held)
        if held and (begins or length + len(utterance.text) > LENGTH):
            yield tuple(held)
            held, length = [], 0
        held.append(utterance)
        length += len(utterance.text)
    if held:
        yield tuple(held)


def _passage(held: tuple[Utterance, ...], words: Words) -> Passage:
    return Passage(held, " ".join(filter(None, (_lexemes(one, words) for one in held))))


def _lexemes(one: Utterance, words: Words) -> str:
    named = one.role is Role.TOOL and one.tool.startswith(_FOREIGN)
    return words.of(f"{one.tool.replace('__', ' ')} {one.text}" if named else one.text)


def _utterances(steps: Sequence[Step], *, redacting: bool) -> Iterator[Utterance]:
    for step in steps:
        text = _kept(step, [without_secrets(seen, redacting=redacting) for seen in _seen(step)])
        if not text and step.role is not Role.TOOL:
            continue
        tool = step.tool if step.tool.isascii() and step.tool.isprintable() else clean(step.tool)
        for part in split(text, limit=LENGTH) if len(text) > LENGTH else (text,):
            yield Utterance(step.role, step.line, part, step.timestamp, tool, step.failed)


def _seen(step: Step) -> tuple[str, ...]:
    """What of its text is looked through for secrets: more than is kept."""
    if step.role is Role.RESULT:
        return looked_at(step)
    if step.role is Role.TOOL and len(step.text) > _SEEN:
        return (beginning(step.text, _SEEN),)
    return (step.text,)


def _kept(step: Step, texts: Sequence[str]) -> str:
    if step.role is Role.RESULT:
        return digest_of(*texts, tool=step.tool)
    return shortened(
        texts[0], min(step.enough, LONGEST_ASKED if step.role is Role.TOOL else step.enough)
    ).strip()
