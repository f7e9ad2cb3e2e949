"""Preferences: what the person wants to be done always, or never. Nobody else's words count."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from mindhold.engine.capture.rules.candidate import LONGEST, Candidate
from mindhold.engine.capture.rules.manner import asks, korean, telling
from mindhold.engine.capture.rules.speech import Sentence
from mindhold.engine.capture.rules.standing import tidy
from mindhold.engine.text.expression import Expression
from mindhold.engine.text.worth import worth
from mindhold.model.memory import Kind
from mindhold.ports.transcripts import Role

SHORTEST = 12  # characters
FEWEST_WORDS = 3

_GENERAL = Expression(
    r"(?:^|\b(?:please|you|you should|you must|you can|we|we should|i|and|but|so|ok|then|should|must)[, ]+)(?:always|never)(?! (?:mind|worked?|actually|happened|seen|saw|been|had|heard|used to|did|shows|showed|gets?|got|fails|failed|returns|runs|ran|ends|had|was|were|\w+ed\b))\b"
    r"|\b(?:from now on|going forward|in (?:the )?future,|every time you|whenever you|each time you|as a rule|by default i|in general,? (?:i|we|please|don't|use)"
    r"|i (?:really |strongly |generally |usually |much |would |'d )?(?:prefer|hate|dislike|like it when|don't like|do not like|(?<!would )like to (?!add|see|have|build|change|try|know|understand|make|get|find|use|do|create|implement|write|start|ask|go|move|fix|remove|update)|want you to always|expect you)"
    r"|we use [^.,]{2,60},? (?:not|never|instead of|rather than|everywhere)\b|i(?:'d| would) rather|make sure (?:to|you|that)\b[^.]*\b(?:every|each|always|all)\b|^(?:please )?(?:prefer|avoid|favou?r) \w+|^(?:please )?keep \w+(?: \w+)? (?:under|below|short|small|simple|within)\b|we (?:prefer|never|always|don't (?:use|do|want|like|allow|write|need)|do not (?:use|do|want|allow)|only use|use \S+ (?:not|instead of|rather than|for all))"
    r"|keep (?:it|things|everything) (?:simple|minimal|short|small|clean|concise)|our (?:convention|style|policy|standard|rule)|make sure (?:to always|you always|you never|to never)|remember (?:to|that we|that i)|don't ever|do not ever|no need to ever|stop (?:adding|using|writing|creating|doing|asking|saying|putting|committing))",
    re.IGNORECASE,
)
_CORRECTION = Expression(
    r"^(?:no|nope|nah|wrong|not like that|not that)[,.!]*\s+(?:please\s+)?(?:use|do|don't|write|put|call|keep|make|always|never|i want|we use)\b"
    r"|^(?:please\s+)?(?:don't|do not|never|avoid) (?:use|add|write|create|put|mock|commit|push|include|mention|touch|change|modify|generate|hard-?code|import|skip|make|run|install|call|rely|repeat|introduce|wrap|log|print|leave)\b"
    r"|^(?:please\s+)?use [^.,;]{2,60}(?:, not |,? instead of | rather than | and not | over )"
    r"|\b(?:don't|do not) (?:add|use|write|mention|include) [^.]{3,60} (?:in|to|for) (?:commits?|commit messages|prs?|tests?|code|comments|docs|the docs)\b",
    re.IGNORECASE,
)
# Orders that are meant for more than once, by what they are about and when they hold.
_THINGS = (
    r"(?:commits?|commit messages?|tests?|unit tests|test files?|functions?|methods|class(?:es)?|components?|hooks|variables?|variable names|names|comments?|docs|docstrings?|branch(?:es)?|branch names|prs?|pull requests?|quer(?:y|ies)|endpoints?|migrations?|types|imports|exports|errors?|error messages|exceptions"
    r"|logs?|dates?|timestamps?|answers|replies|responses|explanations|code|indentation|styles?|dependencies|packages|strings|constants|apis?|api responses|models|modules|scripts?|releases?|versions|reviews|code reviews|config\w*|secrets|text|messages|keywords|sql|money|prices|amounts|units|emojis|files|css|html|js|ts|typescript|javascript|python|rust|go|java|kotlin|swift|markdown|json|yaml|c\+\+"
    r"|translations|ids|urls|routes|tables|columns|fixtures|mocks|assertions|shaders|scenes|assets|dags?|notebooks|dashboards|images|interrupts|handlers|services|settings|changelogs?|entries|prod(?:uction)?(?: code)?)"
)
_WHEN = r"\b(?:every|each|any|everywhere|whenever|when (?:you|in doubt|we|writing|adding|changing|creating|naming)|before (?:you |we |every |each |any |i )?(?:commit|push|merg|finish|install|delet|chang|writ|start|deploy|releas|cod|implement|touch|mak|edit)\w*|after (?:you|every|each|any)|without (?:asking|my|tests|a )|unless i|by default|at all times|in all|for all|all (?:new|public|our|the) \w+|new \w+s\b)"
_STYLE_ORDER = Expression(
    rf"^(?:just |only )?(?:use|using|keep|prefer|avoid|format|name|prefix|put|place|answer|reply|respond|speak|talk|explain|write|document|indent|sort|group|spell|wrap|order|pin|handle|log|return|limit|stick (?:to|with)|follow)\b[^.]*(?:{_WHEN}|\b(?:in|for|with|inside|on|to|of) (?:the |our |your |all |new |any |every )?(?:\w+ )?{_THINGS}\b(?! (?:below|above|i )))",
    re.IGNORECASE,
)
_HABIT_ORDER = Expression(
    rf"^(?:(?:ask|tell|show|warn|check with|consult) me\b[^.]*\b(?:before|first|when|if|whenever|every)|(?:please )?(?:answer|reply|respond|speak|talk|write (?:to me|comments|docs|commit messages|everything)|explain things) in [A-Z]\w+|keep (?:your |the |all )?(?:answers?|replies|responses|explanations|messages|functions|methods|files|classes|commits|prs|diffs|changes|components)\b"
    rf"|(?:for|in) (?!this\b|that\b|the\b|now\b|it\b|case\b)[^,]{{3,40}}?,? (?:please |always )?(?:use|prefer|avoid|write|never use|don't use|do not use) |use (?!this|that|it\b|an? |the (?:same|first|second|other|new|old|above))[^,.]{{2,40}} for (?!now|this|that|it\b|the |me\b|an? )\w+|write in (?:\w+ )?(?-i:[A-Z])\w+|keep (?:the|our|your) [\w -]{{2,30}} (?:small|simple|stable|minimal|clean|short|consistent|thin|flat|readable|backwards)\b"
    rf"|(?:only )?(?:use|sort|prefix|name|keep|group|avoid|format|suffix|capitali[sz]e|order|quote|type|annotate) (?:only |all |every |each |any )(?!of\b|the\b|this|that|these|those)[\w`-]+|(?:use|sort|prefix|name|group|keep|order|annotate) (?:[a-z-]+ )?(?!this\b|as\b|css\b|less\b|class\b)[a-z-]{{3,}}(?<!s)s\b(?! (?:from|in|of) (?:this|that|the)\b)|only (?:use|write|import|log|commit|test|mock)\b|(?:nobody|no one) (?:\w+s|may|should|must)\b"
    rf"|if (?:you are|you're|in doubt|something is) ?(?:unsure|uncertain|in doubt|stuck|unclear)?, (?:please )?(?:ask|stop|tell|use|choose|prefer|don't)\b|(?:don't|do not) (?!worry|bother|forget|wait|mind|panic|go|stop|do|know|think|care|need|have|delete|test)\w+ (?!the\b|this|that|it\b|them|yet|anything|everything|any\b|now|to\b|about|with\b|on\b|my\b|your\b|me\b|so\b|too\b|until|for now)[\w`.-]+ \w+"
    rf"|(?:be|stay) (?:brief|concise|terse|short|precise|consistent)\b|stop [a-z]+ing\b|(?:don't|do not) \w+[^.]* without (?:asking|my|tests|telling|checking)|(?:put|place|keep) (?:all |the |new |unit )?{_THINGS} (?:in|next to|under|inside|into|close)\b"
    rf"|(?:when(?:ever)?|each time|every time|before|after) (?:you |we |in doubt|writing |adding |changing |committing|naming )[^,]*, (?:please |also |always )*(?:use|run|write|add|choose|update|keep|ask|put|make|prefer|check|do|don't|never|go|pick|start|follow|include|bump|tell|show|format)"
    r"|use (?:the |our )?[\w`./-]+(?: [\w`./-]+)? (?:instead|rather than|and not|over|not) |use (?:single|double|british|american|metric|imperative|semantic|conventional|two|four|2|4|tabs|spaces|snake_case|camelcase|kebab-case|pascalcase|strict|type hints|early returns)\b|format \w+ with \w+)",
    re.IGNORECASE,
)
# What is so of all things of a sort is to be so.
_RULE = Expression(
    rf"^(?:(?:all|every|each|any|no|new|our|public) )+(?:[\w`-]+ ){{0,3}}?{_THINGS} (?:\w+ )?(?:should|must|need to|needs? |have to|has to|may not|can't|cannot|are (?:always|never)|is (?:always|never)|go(?:es)? (?:in|next|under|into)|follow|start with|end (?:in|with)|never|always)"
    rf"|^(?!(?:the|this|that|these|those|it|he|she|they|you|we|i|tests|things|changes|results)\b)(?:[\w`-]+ ){{0,2}}?[\w`-]+s (?:(?:should|must|need to|have to|may)(?: not|n't)?(?: always| never| only| all)? (?!be (?:running|started|up)\b)\w+|should(?:n't)? \w+|always \w+|never \w+)"
    rf"|^(?!(?:the|this|that)\b)(?:[\w`-]+ ){{0,2}}?{_THINGS} (?:go(?:es)? (?:in|next|under|into)|need|must|should) |^(?:one|a single|at most \w+|max(?:imum)?|no more than \w+) [^.]{{3,50}}\bper \w+"
    r"|^(?:import order|indentation|quotes|naming|line length|commit (?:format|style)|branch names?|code style|formatting|style|file names|test names|log format)\s*:\s",
    re.IGNORECASE,
)
_BAN = Expression(
    r"^no (?:more )?(?:[\w`.-]+ ){1,4}?(?:in|for|on|inside|outside|without|anywhere|ever|allowed|unless)\b|^no (?:[\w-]+ )?(?:emojis?|comments|classes|globals|magic numbers|abbreviations|default exports|inline styles|semicolons|tabs|todos|console\.log\S*|mocks|snapshots?|any\b)",
    re.IGNORECASE,
)
_LIKING = Expression(
    r"^(?:(?:personally|generally|honestly),? )?(?:i (?:really |always |generally |usually |just |only )*(?:like|love|hate|dislike|prefer|don't like|do not like|don't want|can't stand|want (?:all|every|each|you to (?:always|never|use|write|keep|ask|explain|show|stop|avoid|be|prefer|stick|follow)|no|to (?:see|review|approve|be asked))|expect|need all)\b|i(?:'d| would) like (?:you to )?(?:always|never|all|every|each|no)\b|we (?:like|love|hate|dislike|value|prefer|avoid|try to)\b|(?:it'?s |it is )?important (?:to me )?that (?:every|all|each|no|we|you)\b|in this (?:project|repo|codebase) (?:all|every|we)\b|in general,? )",
    re.IGNORECASE,
)
_A_TASK = Expression(
    r"^(?:use|put|keep|write|name|return|handle|log|wrap|add|document|explain|follow)\b.*\b(?:the (?:\w+ )?(?:button|page|form|modal|header|footer|sidebar|dialog|login|screen|following|script|function|class|method|file|endpoint)\b|a (?:test|unit test|comment|function|script|class|method|file|loop|for|while|smaller|bigger|larger|different)\b|an? \w+ (?:test|function|script)\b)"
    r"|^explain (?:how|why|what|the)\b|^write (?:the|some|me|tests? for (?:the|it))\b|^i (?:like|love) (?:it|this|that|the|your|where|how)\b|^i(?: really)? (?:like|want|need) (?:to (?:know|see (?:the|how|what|if|why|it)|understand|go|add|change|make|try))\b",
    re.IGNORECASE,
)
_UNSURE = Expression(r"\b(?:maybe|perhaps|not sure|might|could|wonder\w*|i guess)\b|\?", re.IGNORECASE)
_LIKE_THAT = Expression(
    r"^(?:as (?:lightweight|simple|small|minimal|short|concise|few|little|clean|quick|cheap) as possible|keep (?:it|things|everything) (?:simple|minimal|short|small|clean|concise))\b[^.]{0,20}\.?$",
    re.IGNORECASE,
)
_YOU_SHOULD = Expression(
    r"^you (?:should|must|need to|have to|can) (?:always )?(?=use|write|keep|run|put|ask|add|prefer|avoid|never|not )"
)
_POINTED_AT = Expression(r"\b(?:it|this|that|them|those|these)\b[.!]?$", re.IGNORECASE)
_THIS_TIME = Expression(
    r"\b(?:yet|for now|(?<!from )now|this time|(?:at|for) the (?:moment|time being)|today|tonight|tomorrow|this (?:week|morning|afternoon|evening|once)|in a hurry|until (?:i|we|the|it|tomorrow|later|then|next)\b|here|this (?:one|file|pr|commit|branch|time|case|function|test|line|change|step|script|part)|that (?:one|file|function|test|line|part)|the (?:last|first|second|other) (?:one|commit|change|part)"
    r"|anymore|again|so far|currently|already|wasn't|didn't|doesn't|isn't|happen\w*|why|because it|weird|still|i mean|if it|if the|sure if|it (?:always|never))\b|\?",
    re.IGNORECASE,
)


def preferences(said: Sequence[Sentence]) -> Iterator[Candidate]:
    """Only what is meant for more than the step at hand."""
    for sentence in said:
        if sentence.role != Role.USER or sentence.aside or korean(sentence.text):
            continue
        text = tidy(sentence.text)
        text = own = (
            _YOU_SHOULD.sub("", text[:1].lower() + text[1:]) if _YOU_SHOULD.match(text.lower()) else text
        )
        weight = _weight(text, sentence.text.strip())
        if weight and SHORTEST <= len(text) <= LONGEST and not passing_order(own):
            found = worth(text)
            if not (found.chatter or found.dangling or (found.words < 2 and not telling(own))):
                yield Candidate(Kind.PREFERENCE, text, sentence.line, weight)


def _weight(text: str, raw: str) -> float:
    """How surely it is meant for good; 0 when it isn't."""
    if _UNSURE.search(text) or asks(raw) or len(text.split()) < FEWEST_WORDS or _LIKE_THAT.match(text):
        return 0.0
    if _GENERAL.search(text):
        return 0.9
    if _CORRECTION.search(raw) or _CORRECTION.search(text):
        return 0.85
    if _HABIT_ORDER.match(text) or _RULE.match(text) or _BAN.match(text) or _LIKING.match(text):
        return 0.85 if not _A_TASK.match(text) else 0.0
    return 0.8 if _STYLE_ORDER.match(text) and not _A_TASK.match(text) else 0.0


def passing_order(text: str) -> bool:
    """Whether it only holds for the step at hand."""
    return _THIS_TIME.search(text) is not None or _POINTED_AT.search(text) is not None
