"""What the person tells of the project and its surroundings: where things are, what they are made with, who works on them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mindhold.engine.capture.rules.candidate import Candidate
from mindhold.engine.capture.rules.manner import owned, passing, telling
from mindhold.engine.capture.rules.speech import Sentence
from mindhold.engine.text.expression import Expression
from mindhold.model.memory import Kind
from mindhold.ports.transcripts import Role

FEWEST_WORDS = 3

# Of whom or what: a thing that stays, of which the sentence says how it is.
_VERBS = (
    r"(?:lives?|runs?|uses?|has|have|talks?|sits?|belongs?|goes|go|comes?|happens?|handles?|reads?|writes?|sends?|supports?|loads?|owns?|needs?|requires?|deploys?|contains?|consists?"
    r"|works? (?:with|on|in|like)|stores?|depends?|listens?|logs? (?:in|to)|points?|targets?|builds?|serves?|covers?|expects?|follows?|provides?|pulls?|publishes|connects?|imports?|exports?|starts?|speaks?|syncs?|ships?|holds?|wraps?|exposes?|receives?|polls?|streams?|renders?|compiles?|responds?|resets?|expires?|accepts?|updates?|flashes|boots?)"
)
_PARTICIPLES = r"(?:\w+(?:ed|en)|built|kept|sent|run|made|done|split|set|held|sold|read)"
_STATES = rf"(?:is|are|'s|'re)(?: (?:all|both|always|only|mostly|currently|also|usually|automatically))? (?:{_PARTICIPLES} (?:at|in|on|under|behind|by|with|from|to|via|through|as|per|every|into|inside|for|over|using|automatically|manually|hourly|daily|nightly|weekly|once|when|after|before)\b|(?:called|named|licen[sc]ed|written|shared)\b|(?:at|in|on|under|behind|inside|from|for|of|via|by) |(?:an?|the|our|my|called|named) |(?-i:[A-Z`]\S*|\S*\d\S*|`)|\S*[/.]\w)|(?:default|main|primary|production|release|target|current|minimum) [\w ]{{2,20}} (?:is|are) \S+|(?:branch|name|port|region|language|os|framework|database|shell|editor|time ?zone|licen[sc]e|default|budget|domain) is \S+"
_SUBJECT = r"(?:(?:the|our|my|your|all|every|each|both|this|a|an) )?(?:[\w`'./+#&-]+ ){1,6}?(?:(?:also|only|always|currently|usually|mostly|automatically|all|both|still) )?"
_FACT = Expression(
    rf"^(?:for [\w /-]{{3,30}},? |in (?:production|prod|staging|dev|ci|this \w+),? |on \w+,? )?{_SUBJECT}(?:{_VERBS} |{_STATES})"
)
_LASTING_SUBJECT = Expression(
    r"^(?:(?:the|our|my|this|all|every|each|a|an) )?(?:[\w`'./+#-]+ ){0,3}?(?:servers?|databases?|db|apis?|apps?|applications?|backend|frontend|services?|repo(?:sitory)?|monorepo|project|product|codebase|team|company|customers?|users?|clients?|cluster|queue|cache|branch(?:es)?|ci|pipelines?|deploys?|deployments?|production|prod|staging"
    r"|environments?|releases?|backups?|logs?|metrics|secrets?|tickets?|docs|documentation|designs?|assets?|levels?|shaders?|firmware|board|devices?|sensors?|hardware|registry|payments?|auth\w*|login|flags?|models?|tables?|schemas?|warehouse|etl|jobs?|workers?|gateway|proxy|domain|website|site|sdk|library|package|plugin|game|engine|licen[sc]e|style|network|vpn|storage|bucket|data|migrations?|translations?|hotfix(?:es)?|frontends?|backends?|machine|laptop|editor)\b"
)
_LASTING_VERB = Expression(
    r"^(?:each|every|all) |\b(?:owns?|lives? in|talks? to|depends? on|consists? of|(?:is|are) responsible for|maintains?)\b"
)
_FLEETING = Expression(
    r"^(?:(?:the|our|my|your|a|an) )?(?:\w+ )?(?:bug|errors?|problem|issue|typo|button|text|output|file|function|line|change|changes|fix|pr|diff|meeting|call|demo|deadline|question|idea|answer|reason|point|thing|plan|rest|test|tests|build|page|result|results|first|second|code looks|screenshot|message|ticket|review|log says|task|goal)\s(?!server|machine|pipeline|agent|tool|system|runner|suite|data|environment|database)"
    r"|^my (?:branch|tests?|code|changes?|build|pr|script|screen|terminal|browser tab|question|guess|idea|bad|fault)\b|^(?:it|its|they|he|she|you|your|that|these|those|there|here|what|which|who|if|when|once|so|and|but|please|let|make|can|could|add|fix|use|do|don't|try|run|write|create|remove|delete|move|check|look|show|give|open|read|change|rename|put|set|update|keep|see|go|stop|then|first|also|now|no|yes|not|never|always|to|with|by|as|because|since|after|before|i|we)\b"
    r"|\b(?:broken|blank|wrong|weird|slow|empty|fine|ok|okay|failing|missing|stuck|red|green|gone|great|good|bad|nice|cool|ugly|confusing|done for|running fine|down|back up)\b"
)
_UNWELL = Expression(
    r"\b(?:errors?|bugs?|typos?|problems?|issues?|warnings?|mistakes?|leaks?|way|need|reason|difference|files?|lines?|tests?)\b"
)
_BAD_NEWS = Expression(
    r"\b(?:doesn't|don't|didn't|isn't|aren't|wasn't|was|were|did|had|has been|fails?|failed|crash(?:es|ed|ing)|an? (?:error|bug|problem|issue|typo|mess)|should|must|needs? (?:a|an|to|some|more)|has (?:an? )?(?:error|bug|problem|issue|typo)s?)\b"
)
# Of the speaker and those they work with.
_OURS = Expression(
    r"^(?:(?:in|for|on) (?:this|our|the) \w+,? |at work,? )?(?:we(?:'re| are) (?:all |mostly |currently |only |both )*(?:using|an?|the|on|hosted|based|in|deploying|running|building|targeting)\b"
    r"|we (?:all |mostly |usually |generally |currently |also |only |both |still )*(?!(?:need|should|could|can|can't|would|will|won't|want|are|aren't|were|was|did|didn't|don't|do|does|may|might|must|got|get|see|saw|know|think|thought|went|go|just|almost|already|had|hope|guess|tried|try|forgot|agree|found|made|lost|met|ran|talked|did|left|began|chose|took|gave|said|told|came|like|wait|start|stop|look|discuss)\b)(?!\w+ed\b)[a-z]+\b)"
)
_MINE = Expression(
    r"^(?:i'?m|i am) (?:on (?:an? )?\S|using |the |an? |based in|in charge|responsible|new to|not (?:a|an|the) |working (?:with|from)|color ?blind|colou?r ?blind|left-handed|from )"
    r"|^i (?:work (?:on|with|in|at|for|as|from)|use|maintain|own|run|manage|develop on|live in|speak|know|don't know|have (?:an? |no |only )|only have|usually work|mostly (?:use|work))\s|^my (?:name|role|job|editor|shell|time ?zone|os|laptop|machine|team|company|setup|github|handle|email|background|native language)\b.*\b(?:is|are|has|runs)\b"
)
_NOT_MINE = Expression(
    r"^(?:i'?m|i am) (?:the one who|a bit|a little|an idiot|on (?:it|a call|my way|the (?:phone|train|wrong|right|same))|in a|using (?:it|this|that)|not a fan)|^i have (?:an? |no )?(?:question|problem|issue|idea|error|bug|feeling|look|to|time|clue|few|meeting|doubt)"
    r"|^i (?:run|use|know) (?:it|this|that|what|how|why|the (?:command|tests?|app|script))|^we(?:'re| are)? (?:in|on|the|an?) (?:the (?:same|right|wrong|middle)|(?:good|bad|same|it|track|time|hurry|little|bit))|^we have (?:to|an? (?:problem|bug|issue|error|meeting|deadline))|^we (?:put|call|use|keep|store|run) (?:it|this|that|them)\b"
)
_OF_PEOPLE = Expression(
    r"\b(?:team|tickets?|customers?|users?|clients?|company|product|designers?|developers?|release (?:every|on)|we are|we're|every (?:second|other)|licen[sc]ed|deadline|legal|hospital|linear|jira|slack|figma|notion|name)\b"
)
_PLACED = Expression(
    r"\b(?:lives?|(?:is|are) (?:in|at|on|under|checked|done|kept|stored|run|hosted|managed)|runs?|goes|go)\b"
)
_THERE = Expression(
    r"^there(?:'s| is| are) (?:an? |one |two |three |four |five |\d+ |also |no ).* (?:in|on|for|under|behind) (?:this|our|the|every|each|`?\w+/)"
)
_STYLE = Expression(
    r"\b(?:indent\w*|tabs|spaces|commit messages?|commits|branch(?:es)? (?:names?|feature)|name branches|naming|snake_case|camelcase|kebab-case|pascalcase|quotes|semicolons|comments|docstrings|squash\w*|rebase|indent|pull requests|prs|tests? with|write tests|code style|convention\w*|result types|error handling|exceptions)\b"
)


def surroundings(said: Sequence[Sentence]) -> Iterator[Candidate]:
    """What is so, and will be so tomorrow. Nobody else's words count."""
    for sentence in said:
        if sentence.role == Role.USER and (text := owned(sentence)) and (kind := _kind(text)):
            yield Candidate(kind, text, sentence.line, 0.8)


def _kind(text: str) -> Kind | None:
    low = text.lower()
    if len(text.split()) < FEWEST_WORDS or passing(_without_habit(text)):
        return None
    ours, mine = _OURS.match(low), _MINE.match(low)
    if ours or mine:
        if _NOT_MINE.match(low) or not (telling(text) or len(text.split()) > FEWEST_WORDS + 1):
            return None
        if ours and _STYLE.search(low):
            return Kind.PREFERENCE
        return Kind.CONTEXT if mine or _OF_PEOPLE.search(low) else Kind.ARCHITECTURE
    if _THERE.match(low) and not _BAD_NEWS.search(low) and not _UNWELL.search(low):
        return Kind.ARCHITECTURE
    if _FLEETING.search(low) or _BAD_NEWS.search(low) or not _FACT.match(_lower_first(text)):
        return None
    if not (telling(text) or _LASTING_SUBJECT.match(low) or _LASTING_VERB.search(low)):
        return None
    if _STYLE.search(low) and not telling_place(low):
        return Kind.PREFERENCE
    return Kind.CONTEXT if _OF_PEOPLE.search(low) else Kind.ARCHITECTURE


def telling_place(low: str) -> bool:
    """Whether it says where something is or by what it is done, which is no matter of style."""
    return _PLACED.search(low) is not None


def _without_habit(text: str) -> str:
    """What is done "every night" or "currently" is no matter of this moment."""
    return text.replace("tonight", "").replace("currently", "")


def _lower_first(text: str) -> str:
    return text[:1].lower() + text[1:] if text[1:2].islower() or text[1:2] == " " else text
