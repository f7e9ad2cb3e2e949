"""Whether a sentence can be understood without the conversation, and how it is written down."""

from __future__ import annotations

import re
from functools import lru_cache

from mindhold.engine.capture.rules.candidate import LONGEST
from mindhold.engine.text.expression import Expression
from mindhold.engine.text.worth import worth

SHORTEST = 24  # characters

# What stands before the statement: agreement, praise, a report that something is done.
_OPENING = Expression(
    r"^(?:(?:ok(?:ay)?|yes|yeah|yep|no|nope|sure|right|great|good|perfect|excellent|nice|alright|done|fixed(?!:)|found it|found the (?:issue|problem|bug)"
    r"|found|interesting|confirmed|correct|exactly|hmm?|ah|oh|well|wait|hey|hi|thanks|thank you|sorry|actually|understood|got it|i see"
    r"|you'?re (?:absolutely )?right|good (?:catch|point|news|question|idea)|fair (?:point|enough)|valid (?:point|feedback)|much (?:cleaner|better)"
    r"|that makes sense|makes sense|sounds good|all (?:good|set|done)|success|complete[d]?|in summary|summary|in short|bottom line|tl;?dr"
    r"|great question|to summarize|overall|(?:it )?turns out(?: that)?|it turned out(?: that)?|note that|keep in mind that|so|and|but|also|then|now|plus|however|still|instead|additionally|furthermore|similarly)"
    r"(?:\s*[!,.:;—–-]+\s+|\s*[!.:]+$|(?<=so)\s+|(?<=out)\s+|(?<=that)\s+|(?<=and)\s+|(?<=but)\s+|(?<=also)\s+|(?<=now)\s+(?=[`\w]+ (?:is|are|uses?|will|has|have)\b|`)))+",
    re.IGNORECASE,
)
# What is said for politeness, or to be heard.
_FILLER = Expression(
    r"^(?:(?:please|pls|plz|btw|fyi|by the way|just so you know|for your information|quick note|side note|ok(?:ay)? so|hey|hm+|um+|reminder|(?:please )?(?:remember|don't forget|do not forget|note)(?= that\b|:)|also(?=,))(?:\s*[,:;—–-]+\s*|\s+that\s+|\s+)(?:also,?\s+)?)+(?=\S)",
    re.IGNORECASE,
)
_TRAILER = Expression(
    r"[,;]?\s+(?:please|pls|plz|thanks|thank you|thx|okay|ok|btw|fyi)(?=[.!]*$)", re.IGNORECASE
)
_LABELLED = Expression(
    r"^(?:before|after|clear|result|conclusion|verdict|fix|finding|status|impact|context|observation|clarification|question)\s*:\s+",
    re.IGNORECASE,
)
_TAIL = Expression(r"\s[-–—]\s(`[^`]+`.*)$")
_LINES = Expression(
    r"\s*\((?:[^()`]*\s)?(?:lines?|L)\s?~?\d+[^()]*\)|\s(?:at|on|in|around|from|see|to) lines? ~?\d+(?:\s?[-–&,]\s?\d+|\sand \d+)*\b|:\d+(?:-\d+)?(?=`|\b)(?<=\.\w{2}:\d)"
)
_LINE_LABEL = Expression(r"^lines? \d+(?:[-–,] ?\d+)*\s*[-–—:]\s+", re.IGNORECASE)
_PLACE = Expression(r"(?<=[\w/]\.)(\w{1,5}):\d+(?:[-:]\d+)?\b")  # explain.go:515
_BLANKS = Expression(r"\s+")
_DANGLING = Expression(
    r"^(?:it|its|it's|it'll|they|them|their|he|she|this|that|these|those|here|there|both|neither|either|each|one|ones|same|such|the (?!\w+(?: \w+)? (?:in |of |for |from |to |on |at )?`)(?:above|former|latter"
    r"|other|first|second|third|last|next|new|old|current|previous|following|remaining|rest|same|change|changes|fix|code|test|tests|function|file|files|issue|error"
    r"|problem|plan|result|results|output|diff|feedback|bug|script|command|method|class|step|branch|pr|commit|approach|logic|updated?|key|main|real|actual"
    r"|only|answer|idea|reason|two|three|four|five|linter|user|question|solution|implementation|refactor(?:ing)?)"
    r"|my|your|his|her|what|which|who|where|when i|why|how|if you|if so|as (?:you|i|mentioned|discussed|above|for)"
    r"|similar|another|also|too|because|since then|like|otherwise|not|no more|nothing|everything|anything|all (?:of|three|four|five|tests?|set|done|good|other|the)"
    r"|two|three|four|five|several|some|most|many|everyone|someone)\b"
    r"|^(?:그거|이거|저거|그것|이것|저것|그건|이건|저건|그게|이게|저게|그걸|이걸|여기|거기|위의|아래)",
    re.IGNORECASE,
)
_LOOKS_BACK = Expression(
    r"\b(?:as (?:mentioned|discussed|described|shown|noted|requested|above|below)|mentioned above|see (?:above|below)|the above|listed above|above\b(?= \w*$)"
    r"|you (?:asked|mentioned|said|requested|want(?:ed)?|described|pointed)|as you|your (?:concern|question|request|feedback|point|suggestion)"
    r"|earlier|previously mentioned|i (?:mentioned|said|noted|showed|read|saw|see|was|am|think|believe|guess|found|need|have|had|can|could|don't|didn't|would"
    r"|should|might|notice|noticed|understand|want|suspect|tried|made|removed|added|just|also|should)|i'm|i've|i'd|we've just|let me|let's|shall i|should i|want me"
    r"|would you|do you|can you|could you|please (?:let|confirm|check|review)|which (?:one|option|would)|for you\b|same pattern\b|\byou(?:'ll| will| should| can)? (?:now )?see\b|already fixed|in all the|more fundamental|your note|\bat all\b|\b\d\d:\d\d:\d\d\b|\b(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{7,40}\b|\bwe just\b|just fixed| · |the same (?:fix|change|way|pattern|thing|treatment|issue|problem)|(?:in|from|of) the (?:diff|pr|branch)\b|last turn|pre-existing)",
    re.IGNORECASE,
)
_FIRST_PERSON = Expression(r"\b(?:I|I'\w+|[Mm]y|[Mm]e|[Mm]yself)\b")
# A report whose subject was left out: "Prevents panic", "Cleaner to consume".
_ELLIPTIC = Expression(
    r"^(?:prevents|fixes|adds|ensures|makes|allows|avoids|keeps|handles|returns|uses|provides|supports|creates|removes|updates|reads|writes|loads|stores|scans|checks|gets|sets|shows|works|covers|matches|getting|looking|have|means|gives|takes|needs|runs"
    r"|calls|includes|contains|follows|replaces|wraps|tests|verifies|validates|cleaner|better|simpler|faster|easier|slower|worse|consider|then|first|next|finally|second|third|lastly|used|which|with|same|before|after|now|pre-existing|done|example|let|line \d+|re:|if we|at all)\b",
    re.IGNORECASE,
)
_CUT_OFF = Expression(r"\b(?:or|and|but|the|an?|to|with|of|for|which|that)[.:,]*$", re.IGNORECASE)
_HEDGED = Expression(
    r"\b(?:maybe|perhaps|probably|possibly|likely|might|may(?! \d)|seems?|seemed|appears?|appeared|apparently|presumably|i think|i guess|not sure|unclear|could be|may be"
    r"|could|would|looks like|looks as|suspect|wonder\w*|hopefully|guess|assum\w+|potentially|theoretically|supposedly)\b|\?",
    re.IGNORECASE,
)
_ANNOUNCING = Expression(
    r"^(?:(?:now|first|next|then|ok(?:ay)?|great|good|so|alright|perfect|and)[,:]?\s+)*(?:let me|let's|i'?ll|i will|i'm going|i am|i'm|i need|i should|i can|i want|i see"
    r"|i have|i've|i found|i understand|i notice|we need to|we'll|time to|going to|checking|looking|reading|running|verifying|trying|starting|updating|adding (?:the|a|an)\b"
    r"|fixing|creating|writing|investigating|exploring|searching|continuing|proceeding|moving on|ready|want me|would you|should i|shall|do you|can you|could you)\b",
    re.IGNORECASE,
)
_NAMED = Expression(
    r"`[^`\s][^`]*`|\b\w+\.(?:py|go|rs|ts|tsx|js|jsx|json|ya?ml|toml|md|sh|rb|java|kt|swift|c|cc|cpp|h|cs|php|sql|html|css|lock|cfg|ini|env|txt)\b"
    r"|\b[a-z]+[A-Z]\w+|\b[A-Z][a-z]+[A-Z]\w*|\b[A-Z]{2,}[a-z]+\w*|\b\w+_\w+|(?<![\w.])/[\w.-]+/[\w./-]+|\b[\w-]+/[\w./-]+|--[a-z][\w-]+|\b[A-Z]{2,}[A-Z0-9]*\b|\b(?:[A-Z][a-z]+){2,}\b|\bv?\d+\.\d+|\bfrom \S+ to \S+|^[A-Z][a-z]+'s\b"
)
_KNOWN = Expression(
    r"^the (?:(?:root |real |actual |main )?(?:cause|reason|problem|issue|bug|error|crash|failure|culprit|hang|leak)(?= (?:of|for|with|behind|when|in|on|is|was|were|turned|came) )|(?:unit |integration |e2e |flaky )?tests?|build|script|command|linter|user|users|code|page|login|current|new|old|first|main|only|key|test suite|last)\b ?|^fixed: ",
    re.IGNORECASE,
)
_LEAD = Expression(
    r"^(?:if|when|unless|without|because|since|once|after|before) (?:you |we |your |the |your )?(?:don't |do not |never )?|^(?:you|we) (?:must(?:n't)?|have to|need to|can't|cannot|should(?:n't)?|only|got|get|had) |^there(?:'s| is| are) (?:an? )?|^(?:never|don't|do not|always|make sure|both) (?:that )?",
    re.IGNORECASE,
)
_REPORT = Expression(
    r"^(?:`[^`]+`\s*[-–—:]\s*)?(?:added|updated|fixed|removed|created|implemented|refactored|replaced|renamed|moved|changed|switched|extracted|restructured|wrote|rewrote|converted|introduced|deleted|merged|bumped)\b",
    re.IGNORECASE,
)
_STATUS = Expression(
    r"^(?:all |the |unit |integration |both |build |full |every(?:thing)? |\d+ )*(?:tests?|builds?|lint(?:er|ing)?|checks?|suites?|compil\w+|type ?checks?|ci|code|changes?|working tree|it|everything)\b[^.;]{0,40}"
    r"\b(?:pass(?:es|ed|ing)?|succeed(?:s|ed)?|green|clean(?:ly)?|compil\w+|works?|fine|good|ok|up to date|unchanged|0 (?:issues|errors|failures))\b[^.]{0,60}\.?$",
    re.IGNORECASE,
)


@lru_cache(4_096)
def tidy(text: str) -> str:
    """As it is written down: without what it was begun with, and without places in files."""
    text = _LABELLED.sub("", _OPENING.sub("", _FILLER.sub("", _OPENING.sub("", text.strip()))))
    text = _TRAILER.sub("", text)
    if _DANGLING.match(text) and (tail := _TAIL.search(text)):
        text = tail[1]
    text = _PLACE.sub(r"\1", _LINES.sub("", _LINE_LABEL.sub("", text)))
    text = _BLANKS.sub(" ", text).strip(" -–—:;,")
    if text.endswith(")") and "(" not in text:
        text = text[:-1]
    if not text:
        return ""
    text = (
        text[0].upper() + text[1:]
        if text.split(maxsplit=1)[0].rstrip(",:;").islower() and text[0].isalpha()
        else text
    )
    return text if text[-1] in ".!?…。" else f"{text}."


@lru_cache(2_048)
def stands_alone(text: str, *, fewest: int = 4) -> bool:
    """Whether it names what it speaks of, in so many words, and speaks of nothing that only the conversation knows."""
    if not SHORTEST <= len(text) <= LONGEST or _DANGLING.match(text) or _LOOKS_BACK.search(text):
        return False
    if _FIRST_PERSON.search(text) or _ELLIPTIC.match(text) or _CUT_OFF.search(text):
        return False
    if text.count("(") != text.count(")") or text.count("`") % 2 or _STATUS.match(text):
        return False
    found = worth(text)
    return not found.chatter and not found.dangling and found.words >= fewest


def stands_as_told(text: str) -> bool:
    """As `stands_alone`, where one may speak of the build or the tests as everybody knows them, and in fewer words."""
    softened = _KNOWN.sub("CI ", text)
    return stands_alone(softened, fewest=3) or stands_alone(_LEAD.sub("", softened), fewest=3)


def hedged(text: str) -> bool:
    """Whether the speaker only supposes, or asks."""
    return _HEDGED.search(text) is not None


def announces(text: str) -> bool:
    """Whether it says what the speaker does next."""
    return _ANNOUNCING.match(text) is not None


def names(text: str) -> int:
    """How many things it names that can be looked up: code, files, options, versions."""
    return len({match[0] for match in _NAMED.finditer(text)})


def dangling(text: str) -> bool:
    """Whether it begins with what only the conversation knows."""
    return _DANGLING.match(text) is not None


def elliptic(text: str) -> bool:
    """Whether its subject was left out."""
    return _ELLIPTIC.match(text) is not None


def reports(text: str) -> bool:
    """Whether it says what was done, not how something is."""
    return _REPORT.match(text) is not None
