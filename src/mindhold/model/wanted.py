"""What somebody wants kept, by what they said of it: the profile, and what was called important."""

from __future__ import annotations

import re

from mindhold.model.memory import Memory

PROFILE = "profile"  # the tag of what the profile has
PROFILE_SOURCE = "user_profile"
IMPORTANT = "important"  # the tag
IMPORTANT_FROM = 0.9  # who gives so much importance means it
ROLE = "message_type"  # in the metadata of a message: who said it
PERSON = "user"
LONGEST_READ = 4_000  # characters: who means it says so at the beginning

_DENIED = r"(?:not|n't|n’t|no longer|never|hardly|less|un)"
_MUCH = r"(?:(?:very|really|so|extremely|absolutely|super|especially) )?"
_WEIGHTY = r"(?:important|crucial|critical|vital|essential)"
# "It is important to note that ..." is how some people, and all models, clear their throats.
_SAID = re.compile(
    rf"(?:^|[.!?\n]\s*){_MUCH}important(?:\s+(?:note|fact|thing|information))?\s*[:!]"
    rf"|\b(?:this|that|what follows|the following)(?: is|['’]s| are) {_MUCH}{_WEIGHTY}\b(?! (?:to|for)\b(?! (?:me|us)\b))"
    rf"|\bit(?: is|['’]s) {_MUCH}{_WEIGHTY} (?:to me|to us|that you|that we)\b"
    r"|\b(?:remember|memori[sz]e) this\b"
    r"|\b(?:don['’]t|do not|never|must not|mustn['’]t)(?: ever)? forget (?:this|that|it)\b"
    r"|\b(?:mark|keep|store|save) (?:this|that|it) as important\b"
    r"|(?:이건|이것은|이것이|매우|정말|아주) ?중요(?:해|합니다|하다|한 (?:내용|정보|사실))"
    r"|(?:이것|이거|이 내용)(?:을|를)? ?(?:꼭 )?(?:기억해|잊지 ?마)",
    re.IGNORECASE,
)
_REFUSED = re.compile(
    rf"\b(?:is|are|was|it)\s?{_DENIED}[^.!?\n]{{0,12}}$|\bwhether\b[^.!?\n]{{0,12}}$", re.IGNORECASE
)


def says_it_matters(text: str) -> bool:
    """Whether the words themselves ask to be kept: "this is important", "don't forget that". A question asks for nothing."""
    read = text[:LONGEST_READ]
    for found in _SAID.finditer(read):
        sentence = re.split(r"[.!\n]", read[found.start() :].lstrip(".!?\n "), maxsplit=1)[0]
        if not sentence.rstrip().endswith("?") and not _REFUSED.search(read[: found.start()]):
            return True
    return False


def is_marked(memory: Memory) -> bool:
    """Whether it is of the profile, or has the tag of what is important."""
    tags = {tag.casefold() for tag in memory.tags}
    return bool(tags & {PROFILE, IMPORTANT}) or memory.provenance.source == PROFILE_SOURCE


def is_wanted(memory: Memory) -> bool:
    """Whether somebody said that it matters, by a mark, by its importance, or in so many words.

    Of a message only a person's words count: an assistant calls everything important.
    """
    if is_marked(memory) or memory.importance >= IMPORTANT_FROM:
        return True
    return memory.metadata.get(ROLE, PERSON) == PERSON and says_it_matters(memory.content)
