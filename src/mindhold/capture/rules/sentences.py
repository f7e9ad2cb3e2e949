"""The sentences of a conversation: split, cleaned, and checked for whether they stand alone and how they are meant."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from mindhold.capture.extracted_items import LONGEST
from mindhold.ports.transcripts import Role, TranscriptStep
from mindhold.text.noise import rate_worth
from mindhold.text.pattern import LazyPattern, any_case

SHORTEST = 24  # characters

# What comes before the statement: agreement, praise, a report that something is done.
_OPENING = any_case(
    r"^(?:(?:ok(?:ay)?|yes|yeah|yep|no|nope|sure|right|great|good|perfect|excellent|nice|alright|done|fixed(?!:)|found it|found the (?:issue|problem|bug)"
    r"|found|interesting|confirmed|correct|exactly|hmm?|ah|oh|well|wait|hey|hi|thanks|thank you|sorry|actually|understood|got it|i see"
    r"|you'?re (?:absolutely )?right|good (?:catch|point|news|question|idea)|fair (?:point|enough)|valid (?:point|feedback)|much (?:cleaner|better)"
    r"|that makes sense|makes sense|sounds good|all (?:good|set|done)|success|complete[d]?|in summary|summary|in short|bottom line|tl;?dr"
    r"|great question|to summarize|overall|(?:it )?turns out(?: that)?|it turned out(?: that)?|note that|keep in mind that|so|and|but|also|then|now|plus|however|still|instead|additionally|furthermore|similarly)"
    r"(?:\s*[!,.:;—–-]+\s+|\s*[!.:]+$|(?<=so)\s+|(?<=out)\s+|(?<=that)\s+|(?<=and)\s+|(?<=but)\s+|(?<=also)\s+|(?<=now)\s+(?=[`\w]+ (?:is|are|uses?|will|has|have)\b|`)))+"
)
# Polite words and calls for attention.
_FILLER = any_case(
    r"^(?:(?:please|pls|plz|btw|fyi|by the way|just so you know|for your information|quick note|side note|ok(?:ay)? so|hey|hm+|um+|reminder|(?:please )?(?:remember|don't forget|do not forget|note)(?= that\b|:)|also(?=,))(?:\s*[,:;—–-]+\s*|\s+that\s+|\s+)(?:also,?\s+)?)+(?=\S)"
)
_TRAILER = any_case(r"[,;]?\s+(?:please|pls|plz|thanks|thank you|thx|okay|ok|btw|fyi)(?=[.!]*$)")
_LABELLED = any_case(
    r"^(?:before|after|clear|result|conclusion|verdict|fix|finding|status|impact|context|observation|clarification|question)\s*:\s+"
)
_TAIL = LazyPattern(r"\s[-–—]\s(`[^`]+`.*)$")
_LINE_NUMBERS = LazyPattern(
    r"\s*\((?:[^()`]*\s)?(?:lines?|L)\s?~?\d+[^()]*\)|\s(?:at|on|in|around|from|see|to) lines? ~?\d+(?:\s?[-–&,]\s?\d+|\sand \d+)*\b|:\d+(?:-\d+)?(?=`|\b)(?<=\.\w{2}:\d)"
)
_LINE_LABEL = any_case(r"^lines? \d+(?:[-–,] ?\d+)*\s*[-–—:]\s+")
_FILE_POSITION = LazyPattern(r"(?<=[\w/]\.)(\w{1,5}):\d+(?:[-:]\d+)?\b")  # explain.go:515
_BLANKS = LazyPattern(r"\s+")
_DANGLING_START = any_case(
    r"^(?:it|its|it's|it'll|they|them|their|he|she|this|that|these|those|here|there|both|neither|either|each|one|ones|same|such|the (?!\w+(?: \w+)? (?:in |of |for |from |to |on |at )?`)(?:above|former|latter"
    r"|other|first|second|third|last|next|new|old|current|previous|following|remaining|rest|same|change|changes|fix|code|test|tests|function|file|files|issue|error"
    r"|problem|plan|result|results|output|diff|feedback|bug|script|command|method|class|step|branch|pr|commit|approach|logic|updated?|key|main|real|actual"
    r"|only|answer|idea|reason|two|three|four|five|linter|user|question|solution|implementation|refactor(?:ing)?)"
    r"|my|your|his|her|what|which|who|where|when i|why|how|if you|if so|as (?:you|i|mentioned|discussed|above|for)"
    r"|similar|another|also|too|because|since then|like|otherwise|not|no more|nothing|everything|anything|all (?:of|three|four|five|tests?|set|done|good|other|the)"
    r"|two|three|four|five|several|some|most|many|everyone|someone)\b"
    r"|^(?:그거|이거|저거|그것|이것|저것|그건|이건|저건|그게|이게|저게|그걸|이걸|여기|거기|위의|아래)"
)
_LOOKS_BACK = any_case(
    r"\b(?:as (?:mentioned|discussed|described|shown|noted|requested|above|below)|mentioned above|see (?:above|below)|the above|listed above|above\b(?= \w*$)"
    r"|you (?:asked|mentioned|said|requested|want(?:ed)?|described|pointed)|as you|your (?:concern|question|request|feedback|point|suggestion)"
    r"|earlier|previously mentioned|i (?:mentioned|said|noted|showed|read|saw|see|was|am|think|believe|guess|found|need|have|had|can|could|don't|didn't|would"
    r"|should|might|notice|noticed|understand|want|suspect|tried|made|removed|added|just|also|should)|i'm|i've|i'd|we've just|let me|let's|shall i|should i|want me"
    r"|would you|do you|can you|could you|please (?:let|confirm|check|review)|which (?:one|option|would)|for you\b|same pattern\b|\byou(?:'ll| will| should| can)? (?:now )?see\b|already fixed|in all the|more fundamental|your note|\bat all\b|\b\d\d:\d\d:\d\d\b|\b(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{7,40}\b|\bwe just\b|just fixed| · |the same (?:fix|change|way|pattern|thing|treatment|issue|problem)|(?:in|from|of) the (?:diff|pr|branch)\b|last turn|pre-existing)"
)
_FIRST_PERSON = LazyPattern(r"\b(?:I|I'\w+|[Mm]y|[Mm]e|[Mm]yself)\b")
# A report without its subject: "Prevents panic", "Cleaner to consume".
_ELLIPTIC = any_case(
    r"^(?:prevents|fixes|adds|ensures|makes|allows|avoids|keeps|handles|returns|uses|provides|supports|creates|removes|updates|reads|writes|loads|stores|scans|checks|gets|sets|shows|works|covers|matches|getting|looking|have|means|gives|takes|needs|runs"
    r"|calls|includes|contains|follows|replaces|wraps|tests|verifies|validates|cleaner|better|simpler|faster|easier|slower|worse|consider|then|first|next|finally|second|third|lastly|used|which|with|same|before|after|now|pre-existing|done|example|let|line \d+|re:|if we|at all)\b"
)
_CUT_OFF = any_case(r"\b(?:or|and|but|the|an?|to|with|of|for|which|that)[.:,]*$")
_HEDGE = any_case(
    r"\b(?:maybe|perhaps|probably|possibly|likely|might|may(?! \d)|seems?|seemed|appears?|appeared|apparently|presumably|i think|i guess|not sure|unclear|could be|may be"
    r"|could|would|looks like|looks as|suspect|wonder\w*|hopefully|guess|assum\w+|potentially|theoretically|supposedly)\b|\?"
)
_ANNOUNCEMENT = any_case(
    r"^(?:(?:now|first|next|then|ok(?:ay)?|great|good|so|alright|perfect|and)[,:]?\s+)*(?:let me|let's|i'?ll|i will|i'm going|i am|i'm|i need|i should|i can|i want|i see"
    r"|i have|i've|i found|i understand|i notice|we need to|we'll|time to|going to|checking|looking|reading|running|verifying|trying|starting|updating|adding (?:the|a|an)\b"
    r"|fixing|creating|writing|investigating|exploring|searching|continuing|proceeding|moving on|ready|want me|would you|should i|shall|do you|can you|could you)\b"
)
_NAME = LazyPattern(
    r"`[^`\s][^`]*`|\b\w+\.(?:py|go|rs|ts|tsx|js|jsx|json|ya?ml|toml|md|sh|rb|java|kt|swift|c|cc|cpp|h|cs|php|sql|html|css|lock|cfg|ini|env|txt)\b"
    r"|\b[a-z]+[A-Z]\w+|\b[A-Z][a-z]+[A-Z]\w*|\b[A-Z]{2,}[a-z]+\w*|\b\w+_\w+|(?<![\w.])/[\w.-]+/[\w./-]+|\b[\w-]+/[\w./-]+|--[a-z][\w-]+|\b[A-Z]{2,}[A-Z0-9]*\b|\b(?:[A-Z][a-z]+){2,}\b|\bv?\d+\.\d+|\bfrom \S+ to \S+|^[A-Z][a-z]+'s\b"
)
_COMMON_SUBJECT = any_case(
    r"^the (?:(?:root |real |actual |main )?(?:cause|reason|problem|issue|bug|error|crash|failure|culprit|hang|leak)(?= (?:of|for|with|behind|when|in|on|is|was|were|turned|came) )|(?:unit |integration |e2e |flaky )?tests?|build|script|command|linter|user|users|code|page|login|current|new|old|first|main|only|key|test suite|last)\b ?|^fixed: "
)
_LEAD = any_case(
    r"^(?:if|when|unless|without|because|since|once|after|before) (?:you |we |your |the |your )?(?:don't |do not |never )?|^(?:you|we) (?:must(?:n't)?|have to|need to|can't|cannot|should(?:n't)?|only|got|get|had) |^there(?:'s| is| are) (?:an? )?|^(?:never|don't|do not|always|make sure|both) (?:that )?"
)
_REPORT = any_case(
    r"^(?:`[^`]+`\s*[-–—:]\s*)?(?:added|updated|fixed|removed|created|implemented|refactored|replaced|renamed|moved|changed|switched|extracted|restructured|wrote|rewrote|converted|introduced|deleted|merged|bumped)\b"
)
_STATUS = any_case(
    r"^(?:all |the |unit |integration |both |build |full |every(?:thing)? |\d+ )*(?:tests?|builds?|lint(?:er|ing)?|checks?|suites?|compil\w+|type ?checks?|ci|code|changes?|working tree|it|everything)\b[^.;]{0,40}"
    r"\b(?:pass(?:es|ed|ing)?|succeed(?:s|ed)?|green|clean(?:ly)?|compil\w+|works?|fine|good|ok|up to date|unchanged|0 (?:issues|errors|failures))\b[^.]{0,60}\.?$"
)


@lru_cache(4_096)
def clean_sentence(text: str) -> str:
    """Clean a sentence for storage: without its opening words, and without line numbers of files."""
    text = _LABELLED.sub("", _OPENING.sub("", _FILLER.sub("", _OPENING.sub("", text.strip()))))
    text = _TRAILER.sub("", text)
    if _DANGLING_START.match(text) and (tail := _TAIL.search(text)):
        text = tail[1]
    text = _FILE_POSITION.sub(r"\1", _LINE_NUMBERS.sub("", _LINE_LABEL.sub("", text)))
    text = _BLANKS.sub(" ", text).strip(" -–—:;,")
    if text.endswith(")") and "(" not in text:
        text = text[:-1]
    if text.startswith("(") and text.rstrip(".").endswith(")") and text.count("(") == 1:
        text = text.rstrip(".")[1:-1]
    if not text:
        return ""
    if text.split(maxsplit=1)[0].rstrip(",:;").islower() and text[0].isalpha():
        text = text[0].upper() + text[1:]
    return text if text[-1] in ".!?…。？！" else f"{text}."


@lru_cache(2_048)
def stands_alone(text: str, *, fewest: int = 4) -> bool:
    """Whether it names its subject, in at least `fewest` words, and refers to nothing that only the conversation knows."""
    if not SHORTEST <= len(text) <= LONGEST or _DANGLING_START.match(text) or _LOOKS_BACK.search(text):
        return False
    if _FIRST_PERSON.search(text) or _ELLIPTIC.match(text) or _CUT_OFF.search(text):
        return False
    if text.count("(") != text.count(")") or text.count("`") % 2 or _STATUS.match(text):
        return False
    judgement = rate_worth(text)
    return not judgement.chatter and not judgement.dangling and judgement.words >= fewest


def stands_alone_loosely(text: str) -> bool:
    """Do the same as `stands_alone` with fewer words, and allow "the build" or "the tests" as known."""
    softened = _COMMON_SUBJECT.sub("CI ", text)
    return stands_alone(softened, fewest=3) or stands_alone(_LEAD.sub("", softened), fewest=3)


def is_hedged(text: str) -> bool:
    """Whether the speaker only supposes, or asks."""
    return _HEDGE.search(text) is not None


def announces(text: str) -> bool:
    """Whether it says what the speaker does next."""
    return _ANNOUNCEMENT.match(text) is not None


def count_names(text: str) -> int:
    """Count the things that can be looked up: code, files, options, versions."""
    return len(names_in(text))


@lru_cache(4_096)
def names_in(text: str) -> frozenset[str]:
    """Return the things that can be looked up: code, files, options, versions."""
    return frozenset(match[0] for match in _NAME.finditer(text))


def is_dangling(text: str) -> bool:
    """Whether it begins with a reference into the conversation."""
    return _DANGLING_START.match(text) is not None


def reports_work(text: str) -> bool:
    """Whether it says what was done, not how something is."""
    return _REPORT.match(text) is not None


LONGEST_TURN = 40_000  # characters of a turn that are read
LONGEST_LEAD = 120
LONGEST_SENTENCE = 600
LONGEST_ABBREVIATION = 40  # with the word before it
LONG_MESSAGE = 500  # characters: a longer message is more than the announcement of a step
LONGEST_OWN = 1_500  # characters of a turn that are the user's own words
LONGEST_TYPED = 4_000  # longer text was pasted, not typed

_FENCE = LazyPattern(r"^[ \t]*(```+|~~~+)[^\n]*\n.*?(?:^[ \t]*\1[^\n]*$|\Z)", re.DOTALL | re.MULTILINE)
_QUOTED_BLOCK = LazyPattern(r'"""(?:.*?)(?:"""|\Z)', re.DOTALL)
_TAGGED = LazyPattern(
    r"<(system-reminder|task-notification|persisted-output|example)\b.*?(?:</\1>|\Z)", re.DOTALL
)
_BULLET = LazyPattern(r"^(\s*)(?:[-*+•✅❌✓✔✗⚠️→▸►]+|\d{1,2}[.)]|[a-z][.)])\s+(?:\[[ xX]\]\s+)?(.*)$")
_HEADING = LazyPattern(r"^\s{0,3}#{1,6}\s+(.*?)\s*#*$")
_BOLD_LINE = LazyPattern(r"^\s*(?:\*\*|__)([^*]+?)(?:\*\*|__)\s*:?\s*$")
_LOG = LazyPattern(
    r"^\s*(?:\d+[→|:\t]|\$ |> |❯ |% |\+{1,3} |-{3} |@@|at \S+\(|File \"|Traceback|\d{4}-\d\d-\d\d[T ]\d\d:|\[\d\d:\d\d|---|\||\{|\}|<[/\w]"
    r"|[\w./-]+:\d+(?::\d+)?:|#\d+ |.*[{};]\s*$|(?:import|from|const|let|var|func|def|class|return|if|for) .*[({:;]\s*$)"
)
_LINK = LazyPattern(r"!?\[([^\]\n]*)\]\([^)\s]*\)")
_EMPHASIS = LazyPattern(r"\*\*|__(?=\w)|(?<=\w)__(?!\w)|(?<![\w*])\*(?=[^\s*])|(?<=[^\s*])\*(?![\w*])")
_PICTURE = LazyPattern(r"[\u2190-\u21ff\u2600-\u27bf\u2b00-\u2bff\ufe0f\U0001f000-\U0001faff]\s*")
_ARROW = LazyPattern(r"\s*[→⇒➜]\s*")
_SENTENCE_END = LazyPattern(
    r"(?<=[.!?])[\"')\]]*\s+(?=[\"'(\[`*]*[A-Z0-9\uac00-\ud7a3`/.~-])|(?<=[。！？])\s*|(?<=[다요]\.)\s+"
)
# Users also begin a sentence with a small letter.
_TYPED_END = LazyPattern(r"(?<=[a-z0-9)`\"'][.!?])\s+(?=[a-z])")
_ABBREVIATION = any_case(
    r"(?:\b(?:e\.g|i\.e|vs|etc|cf|approx|incl|resp|no|fig|Mr|Dr|St|a\.k\.a)|(?:^|\s)\d{1,2}|\b[A-Z])\.$"
)
# A number that ends a sentence, where others number an item.
_COUNTED = LazyPattern(
    r"(?:[A-Z]\w+|node|python|version|to|of|is|are|was|port|level|than|under|below|least|most|at|over|only|from|until)\s\d{1,2}\.$"
)
_SUBJECT = any_case(r"^(?:the )?`[^`]+`(?:\s*\([^)]*\))?:$")
_ASIDE = any_case(r"^(?:looking at|based on|according to|in|from) [^,]{3,80}, (?=the |an? |`)")
_DOING = any_case(
    r"^(?:\w+ed|\w+ is|set|made|rewrote|split)\b|^[\w ]{3,30} (?:resolved|fixed|added|removed|combined|updated|implemented)\b"
)
_REPORTS = any_case(
    r"^\W*(?:done|fixed|complete[d]?|all (?:set|done)|implemented|finished|added|updated|removed|created|summary|review)\b"
)
_PASTED = LazyPattern(
    r"^(?:@@ |\+\+\+ |diff --git|=== )|implement the following plan", re.MULTILINE | re.IGNORECASE
)
_NUMBER = LazyPattern(r"^\d{1,2}[.)]\s+")
_SPECULATIVE = LazyPattern(
    r"\boptions?\b|alternative|workaround|idea|possib|could|pros\b|cons\b|recommend|suggest|consider|scenario|example|\bquestions?\b|what if|proposal|potential|improvement|"
    r"comparison|risk|before\b|old (?:behavio|flow|way)|current (?:behavio|state|flow)|how to (?:test|verify|reproduce)|feedback|nitpick|minor|concern"
)
_NEXT_TRY = any_case(
    r"\b(?:let me|let's|i'll|i need to) (?:also |first |now |just |quickly )*(?:try|check|look|see|verify|test|add some|measure|investigate|confirm|run|set|suppress)\b"
)
_CONTINUATION = any_case(
    r"^(?:this|these|it|they) (?!one\b|is (?:the|a) (?:good|great)|looks?\b)[a-z]|^otherwise\b|^or else\b|^(?:그렇지 않으면|안 그러면)"
)
_CODE = LazyPattern(r"`[^`\n]*`")


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence. `closing`: it belongs to the last message before the other side speaks. `section`: its heading."""

    text: str
    line: int
    role: Role
    closing: bool = False
    bullet: bool = False
    section: str = ""
    aside: bool = False
    tentative: bool = False  # its turn ends with another look or attempt, so it concludes nothing

    @property
    def speculative(self) -> bool:
        """Whether it is under a heading of options, proposals or examples."""
        return _SPECULATIVE.search(self.section) is not None


@dataclass(slots=True)
class _Block:
    """Lines that belong together: a paragraph, or a list item with the lines below it."""

    text: str
    depth: int
    bullet: bool
    section: str


def conversation_sentences(steps: Sequence[TranscriptStep]) -> Iterator[Sentence]:
    """Yield the sentences of the user and the assistant, in order."""
    for number, step in enumerate(steps):
        if step.role not in (Role.USER, Role.CLAUDE) or is_pasted(step):
            continue
        closing = step.role == Role.CLAUDE and _is_closing(steps, number)
        yield from step_sentences(step, closing=closing)


def step_sentences(step: TranscriptStep, *, closing: bool = False) -> Iterator[Sentence]:
    """Yield the sentences of one step."""
    tentative = _NEXT_TRY.search(step.text[-200:]) is not None
    for block in split_blocks(spoken_text(step)):
        parts = (
            [block.text]
            if block.bullet and block.text.count(": ") and ";" in block.text
            else split_sentences(block.text, typed=step.role == Role.USER)
        )
        for part in _join_continuations(parts):
            text = _NUMBER.sub("", part.strip())
            if text and len(text) <= LONGEST_SENTENCE and not text.endswith(":"):
                yield Sentence(
                    text, step.line, step.role, closing, block.bullet, block.section, step.aside, tentative
                )


def _join_continuations(parts: Sequence[str]) -> Iterator[str]:
    """Join each sentence with the next one if that only makes sense with it: "X uses Y. This avoids Z." """
    pending = ""
    for part in parts:
        if (
            pending
            and _CONTINUATION.match(part)
            and len(pending) + len(part) < LONGEST
            and not (is_hedged(part) or announces(pending))
        ):
            pending = f"{pending} {part}"
            continue
        if pending:
            yield pending
        pending = part
    if pending:
        yield pending


def spoken_text(step: TranscriptStep) -> str:
    """Return the text without code, quotations and what the program inserted."""
    text = step.text[:LONGEST_TURN]
    text = _TAGGED.sub("", _FENCE.sub("\n", text))
    if step.role == Role.USER:
        text = _QUOTED_BLOCK.sub("", text)
        lines = text.splitlines()
        logs = sum(_LOG.match(line) is not None for line in lines)
        if logs >= 3 and logs * 2 > len(lines):
            lines = lines[:1]
        text = "\n".join(lines)[:LONGEST_TYPED]
    return text


def is_pasted(step: TranscriptStep) -> bool:
    """Whether the user pasted it: a plan, a review, a log."""
    return step.role == Role.USER and (len(step.text) > LONGEST_OWN or _PASTED.search(step.text) is not None)


def split_blocks(text: str) -> Iterator[_Block]:
    """Yield paragraphs and items; a line that ends with a colon takes the short items below it along."""
    parsed: list[_Block] = []
    section = ""
    open_paragraph = False
    for line in text.splitlines():
        heading = _HEADING.match(line) or _BOLD_LINE.match(line)
        bullet = None if heading else _BULLET.match(line)
        if heading:
            section, open_paragraph = strip_markdown(heading[1]).lower(), False
        elif bullet:
            depth = 1 + len(bullet[1].expandtabs(4)) // 2
            parsed.append(_Block(strip_markdown(bullet[2]), depth, True, section))
            open_paragraph = True
        elif not line.strip() or _LOG.match(line):
            open_paragraph = False
        elif open_paragraph and parsed:
            parsed[-1].text = f"{parsed[-1].text} {strip_markdown(line)}"
        else:
            parsed.append(_Block(strip_markdown(line), 0, False, section))
            open_paragraph = True
    yield from _join_leads(parsed)


def _join_leads(parsed: list[_Block]) -> Iterator[_Block]:
    number = 0
    while number < len(parsed):
        block = parsed[number]
        number += 1
        if not block.text.endswith(":"):
            yield block
            continue
        end = number
        while end < len(parsed) and parsed[end].bullet and parsed[end].depth > block.depth:
            end += 1
        *before, lead = split_sentences(block.text)
        joined = _join_items(lead, [item.text for item in parsed[number:end]])
        if joined:
            if before:
                yield _Block(" ".join(before), block.depth, block.bullet, block.section)
            yield _Block(joined, block.depth, True, block.section)
            number = end
        else:
            lead = block.text.rstrip(":").lower()
            for item in parsed[number:end]:
                if item.section == block.section and len(lead) < LONGEST_LEAD:
                    item.section = lead
            yield block


def _join_items(lead: str, items: Sequence[str]) -> str:
    """Join a lead that names something with the items below it; empty where it is only a heading."""
    lead = _ASIDE.sub("", lead)
    words = len(lead.split())
    subject = _SUBJECT.match(lead) is not None or (
        words > 1 and all(map(_ELLIPTIC.match, items)) and not is_dangling(lead)
    )
    if not items or not (
        subject or (words >= 4 and count_names(f"{lead} {items[0]}") and _DOING.search(lead))
    ):
        return ""
    text = lead
    for number, item in enumerate(items):
        longer = f"{text}{'; ' if number else ' '}{item.rstrip('.')}"
        if len(longer) > LONGEST or item.endswith(":"):
            return text if subject and number >= 2 else ""
        text = longer
    return text


def strip_markdown(text: str) -> str:
    """Return one line without Markdown; code keeps its backticks."""
    parts = re.split(r"(`[^`\n]*`)", _LINK.sub(r"\1", text))
    parts[::2] = map(_strip_marks, parts[::2])  # between the code
    return re.sub(r"\s+", " ", "".join(parts)).strip()


def _strip_marks(text: str) -> str:
    return _PICTURE.sub("", _EMPHASIS.sub("", _ARROW.sub(" -> ", text)))


def split_sentences(text: str, *, typed: bool = False) -> list[str]:
    """Split a text into sentences, but not inside code or behind an abbreviation; `typed` ones may begin small."""
    spans = [match.span() for match in _CODE.finditer(text)]
    ends = [match.span() for match in _SENTENCE_END.finditer(text)]
    if typed:
        ends = sorted([*ends, *(match.span() for match in _TYPED_END.finditer(text))])
    parts: list[str] = []
    sentence_start = 0
    for place, end in ends:
        if any(code_start < place < code_end for code_start, code_end in spans):
            continue
        # Without this limit a line of numbers would take quadratic time.
        near = max(sentence_start, place - LONGEST_ABBREVIATION)
        if _ABBREVIATION.search(text, near, place) and not _COUNTED.search(text, near, place):
            continue
        parts.append(text[sentence_start:end].strip())
        sentence_start = end
    parts.append(text[sentence_start:].strip())
    return [part for part in parts if part]


def _is_closing(steps: Sequence[TranscriptStep], number: int) -> bool:
    """Whether the step is a report: it says so, it is long, or only the assistant's own words follow until the user speaks."""
    step = steps[number]
    if len(step.text) >= LONG_MESSAGE or _REPORTS.match(step.text):
        return True
    following = (later for later in steps[number + 1 :] if later.aside == step.aside)
    next_step = next(
        (later for later in following if later.role != Role.CLAUDE or later.line != step.line), None
    )
    return next_step is None or next_step.role == Role.USER


SHORTEST_OWNED = 12  # characters

_QUESTION = LazyPattern(
    r"\?|^(?:can|could|would|will|should|shall|do|does|did|is|are|was|were|what|why|how|where|which|who|whose|have|has)(?:n't)?\s+"
    r"(?:you|we|i|it|the|there|this|that|they|does|do|is|are|our|my|should|would|can|about|if)\b|(?:나요|까요|는가|습니까|ㄹ까)\W*$"
)
_SUPPOSITION = LazyPattern(
    r"\b(?:maybe|perhaps|probably|possibly|not sure|might|could|would|wonder\w*|i guess|i think (?:it|that|this|the)\b|suppose|assuming|imagine|what if|if (?:we|i|you) (?:used|had|were|did|went|chose|switched)|in theory|hypothetical\w*|for example|e\.g\.|unless you)\b"
    r"|\bsaid [\"'“]|(?:아마|혹시|만약|것 같|면 어떨|모르겠)"
)
_MOMENT = LazyPattern(
    r"\b(?:yet|for now|(?<!from )now|this time|at the moment|at this point|today|tonight|tomorrow|yesterday|soon|(?<!and )(?<!or )later|here|already|again|anymore|so far|still|currently|meanwhile|temporarily"
    r"|this (?!project\b|repo|codebase|app\b|service\b|package\b|library\b|plugin\b|game\b|product\b|team\b|company\b|machine\b|is (?:an?|our)\b)\w+|that (?:one|file|function|test|line|part|page|button|change|branch|commit)|these|those|the (?:last|previous|other|second|third|above|next|same) (?!version|minute)\w+"
    r"|in (?:\w+ )?(?:a |an )?(?:few )?(?:seconds?|minutes?|hours?)(?= *[.,!]|$)|i have to\b|(?:i|you) (?:just|already|got|get|had|forgot|ran|tried|see|saw|pushed|did|made|changed|sent|meant|mean)\b)"
    r"|(?:^|\s)(?:이|그|저|요)(?:번(?:에는?|만)?)? (?:파일|함수|버튼|줄|부분|테스트|커밋|코드|페이지|한 번)|(?:지금|일단|잠깐|여기|아까|방금|이번에는?|이번만|다시|오늘|내일|아직|우선|먼저)(?:은|는|만)?(?=\s)"
)
_POINTING = LazyPattern(r"\b(?:it|this|that|them|those|these|one|here|there)[.!]?$")
_HANGUL = LazyPattern("[가-힣]")


def is_question(text: str) -> bool:
    """Whether it is a question, or only a supposition."""
    low = text.lower()
    return _QUESTION.search(low) is not None or _SUPPOSITION.search(low) is not None


def is_momentary(text: str) -> bool:
    """Whether it speaks of the current step, or of a passing state."""
    low = text.lower()
    return _MOMENT.search(low) is not None or _POINTING.search(low) is not None


def is_korean(text: str) -> bool:
    return _HANGUL.search(text) is not None


def user_statement(sentence: Sentence) -> str:
    """Return the user's statement, cleaned; empty for others' words, questions, and what says too little."""
    if sentence.role != Role.USER or sentence.aside or sentence.speculative:
        return ""
    text = clean_sentence(sentence.text)
    if not SHORTEST_OWNED <= len(text) <= LONGEST or is_question(sentence.text) or text.count("`") % 2:
        return ""
    judgement = rate_worth(text)
    if judgement.chatter or judgement.dangling or (judgement.words < 2 and not count_names(text)):
        return ""
    return text


def is_specific(text: str) -> bool:
    """Whether it names something: by a capital inside, a number, an address, a path, or code."""
    return count_names(text) > 0 or _SPECIFIC.search(text) is not None


_SPECIFIC = LazyPattern(
    r"(?<=[\w,;] )[A-Z][\w.+#-]*[a-z0-9]\w*|\b\d|\w\.\w{2,}\b|\w/\w|^[A-Z][a-z]+ (?:is|was|runs|has) (?:the|our|an?)\b"
)
