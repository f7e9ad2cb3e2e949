"""How the project is built: architecture, environment, dependencies, and tables of components."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence

from mindhold.capture.extracted_items import LONGEST, RuleCandidate
from mindhold.capture.rules.sentences import (
    Sentence,
    announces,
    clean_sentence,
    count_names,
    is_hedged,
    is_korean,
    is_momentary,
    is_specific,
    spoken_text,
    stands_alone,
    strip_markdown,
    user_statement,
)
from mindhold.capture.rules.tool_calls import ToolCall, base_name
from mindhold.model.memory import Kind
from mindhold.ports.transcripts import Role, TranscriptStep
from mindhold.text.pattern import LazyPattern, any_case

_STRUCTURE = any_case(
    r"\b(?:lives? (?:in|at|under)|(?:is|are) (?:defined|located|stored|kept|implemented|declared|registered|configured|written|persisted|handled|loaded|set|managed) (?:in|at|under|by|via|inside|with)|resides? in"
    r"|consists? of|(?:is|are) (?:made up|composed) of|(?:is|are) split into|(?:is|are) responsible for|(?:is|are) the (?:entry ?point|main|single|central|core|only)|is an? (?:[\w-]+ ){0,4}(?:service|module|package|library|wrapper|interface|component|plugin|hook|class|function|helper|endpoint|table|queue|worker|command|script|monorepo|app|application|cli|api|store|cache|struct|type|strategy)"
    r"|stores|persists|reads|writes|loads|merges|delegates to|wraps|implements|extends|inherits from|depends? on|talks? to|connects to|listens on|exposes|handles|dispatches|emits|publishes|subscribes|builds|maps|contains|holds|tracks|uses|use|calls|creates"
    r"|returns|sends|validates|parses|converts|serializes|caches|checks|falls? back to|applies|takes|generates|manages|controls|provides|supports|triggers|receives|fetches|runs (?:on|in|as|before|after|once|every|when|at)|share)\b"
    r"|(?:에 (?:있습니다|있다|저장|정의)|로 구성|담당(?:합니다|한다)|사용합니다)"
)
_STRONG = any_case(
    r"\b(?:lives? (?:in|at|under)|(?:is|are) (?:defined|located|stored|kept|implemented|declared|registered|configured|persisted|managed) (?:in|at|under|by|via|inside|with)|consists? of|responsible for|entry ?point|delegates? to|falls? back to|depends? on)\b"
)
_SUBJECT = LazyPattern(
    r"^(?:the |an? |each |every |all |our |in )?(?:`[^`]+`|[\w.-]*[/._][\w./-]*\w|[A-Z][a-z]+[A-Z]\w*|[A-Z][\w-]+|[a-z][\w-]*)(?:\(\))?(?:\s+\([^)]{1,60}\))?(?:[ -][\w`./()'’-]+){0,5}?\s+(?:now |also |only |always |then |already |directly |first |currently )?$",
)
_NO_SUBJECT = frozenset(
    ("the", "a", "an", "each", "every", "all", "our", "in", "to", "or", "and", "for", "on", "by")
)
_FILE = LazyPattern(r"\w/\w|\w\.(?!\()[a-z]{1,5}\b")
_NOW = any_case(r"\b(?:now|will now|will)\b")
_PAST = any_case(r"\b(?:was|were|used to|previously|before|had|no longer|removed|deleted|would)\b")
_LISTED = any_case(
    r"^(?:(?:the )?`[^`]+`(?:\s*\([^)]*\))?:\s+(?:An? |The |(?!(?:Pass|Process|Access|Address)\b)[A-Z][a-z]+s\b)|The [\w`./ -]{4,60}:\s+[A-Z][a-z]+s\b.*; )"
)
_NOT_BUILT = any_case(
    r"\b(?:test(?:s|ed|ing)? (?:pass|fail|check|verif|cover|don't|never|use)\w*|pr #?\d+|#\d{1,5}\b|commit [0-9a-f]{6,}|reviewer|copilot|linter|lsp|gopls|diagnostics?|you(?:r|'re)?\b|conflict markers?|merge conflict|line \d+|\d+ (?:files?|tests?|lines?) )"
)


def architecture(sentences: Sequence[Sentence]) -> Iterator[RuleCandidate]:
    """Yield the assistant's statements of structure."""
    for sentence in sentences:
        if (
            sentence.role == Role.CLAUDE
            and not sentence.speculative
            and (candidate := _structure_candidate(sentence))
        ):
            yield candidate


def _structure_candidate(sentence: Sentence) -> RuleCandidate | None:
    text = clean_sentence(sentence.text)
    if _FRAGMENT.match(text) or len(text.split()) < 6:
        return None
    if announces(text) or is_hedged(text) or not stands_alone(text) or _NOT_BUILT.search(text):
        return None
    if not (sentence.closing or (_STRONG.search(text) and _FILE.search(text))) or (
        _PAST.search(text) and not _NOW.search(text)
    ):
        return None
    if _LISTED.match(text) and "_test." not in text and ".test." not in text:
        return RuleCandidate(Kind.ARCHITECTURE, text, sentence.line, 0.75)
    verb = _STRUCTURE.search(text)
    if not verb or ("`" not in text and "/" not in text and count_names(text) < 2):
        return None
    subject = text[: verb.start()]
    if (not _SUBJECT.match(subject) or subject.strip().lower() in _NO_SUBJECT) and not is_korean(text):
        return None
    return RuleCandidate(Kind.ARCHITECTURE, text, sentence.line, 0.75 if _STRONG.search(text) else 0.6)


_FRAGMENT = any_case(
    r"^(?:`test|the tests?\b|(?:the )?users?\b|session [A-Z0-9]\b|someone|developer|reviewer|then|first|next|finally|second|third|lastly|no|same|used|only|just|updates?|adds?|removes?|renames?|fixes|missing|unnecessary|duplicate[ds]?|unused|exported but|add|remove|update|move|rename|refactor|extract|use|make|check|ensure|fix|added|updated|changed|removed|created|fixed|moved|renamed|replaced|with|which|and|or)\b|^`[^`]+`\s+(?:with|which|[-–—])\s"
)

FEWEST_WORDS = 3

# A fact: a lasting subject, and a verb that says how it is.
_VERBS = (
    r"(?:lives?|runs?|uses?|has|have|talks?|sits?|belongs?|goes|go|comes?|happens?|handles?|reads?|writes?|sends?|supports?|loads?|owns?|needs?|requires?|deploys?|contains?|consists?"
    r"|works? (?:with|on|in|like)|stores?|depends?|listens?|logs? (?:in|to)|points?|targets?|builds?|serves?|covers?|expects?|follows?|provides?|pulls?|publishes|connects?|imports?|exports?|starts?|speaks?|syncs?|ships?|holds?|wraps?|exposes?|receives?|polls?|streams?|renders?|compiles?|responds?|resets?|expires?|accepts?|updates?|flashes|boots?)"
)
_PARTICIPLES = r"(?:\w+(?:ed|en)|built|kept|sent|run|made|done|split|set|held|sold|read)"
_STATE_VERBS = rf"(?:is|are|'s|'re)(?: (?:all|both|always|only|mostly|currently|also|usually|automatically))? (?:{_PARTICIPLES} (?:at|in|on|under|behind|by|with|from|to|via|through|as|per|every|into|inside|for|over|using|automatically|manually|hourly|daily|nightly|weekly|once|when|after|before)\b|(?:called|named|licen[sc]ed|written|shared)\b|(?:at|in|on|under|behind|inside|from|for|of|via|by) |(?:an?|the|our|my|called|named) |(?-i:[A-Z`]\S*|\S*\d\S*|`)|\S*[/.]\w)|(?:default|main|primary|production|release|target|current|minimum) [\w ]{{2,20}} (?:is|are) \S+|(?:branch|name|port|region|language|os|framework|database|shell|editor|time ?zone|licen[sc]e|default|budget|domain) is \S+"
_STATED_SUBJECT = r"(?:(?:the|our|my|your|all|every|each|both|this|a|an) )?(?:[\w`'./+#&-]+ ){1,6}?(?:(?:also|only|always|currently|usually|mostly|automatically|all|both|still) )?"
_FACT = LazyPattern(
    rf"^(?:for [\w /-]{{3,30}},? |in (?:production|prod|staging|dev|ci|this \w+),? |on \w+,? )?{_STATED_SUBJECT}(?:{_VERBS} |{_STATE_VERBS})"
)
_LASTING_SUBJECT = LazyPattern(
    r"^(?:(?:the|our|my|this|all|every|each|a|an) )?(?:[\w`'./+#-]+ ){0,3}?(?:servers?|databases?|db|apis?|apps?|applications?|backend|frontend|services?|repo(?:sitory)?|monorepo|project|product|codebase|team|company|customers?|users?|clients?|cluster|queue|cache|branch(?:es)?|ci|pipelines?|deploys?|deployments?|production|prod|staging"
    r"|environments?|releases?|backups?|logs?|metrics|secrets?|tickets?|docs|documentation|designs?|assets?|levels?|shaders?|firmware|board|devices?|sensors?|hardware|registry|payments?|auth\w*|login|flags?|models?|tables?|schemas?|warehouse|etl|jobs?|workers?|gateway|proxy|domain|website|site|sdk|library|package|plugin|game|engine|licen[sc]e|style|network|vpn|storage|bucket|data|migrations?|translations?|hotfix(?:es)?|frontends?|backends?|machine|laptop|editor)\b"
)
_LASTING_VERB = LazyPattern(
    r"^(?:each|every|all) |\b(?:owns?|lives? in|talks? to|depends? on|consists? of|(?:is|are) responsible for|maintains?)\b"
)
_FLEETING = LazyPattern(
    r"^(?:(?:the|our|my|your|a|an) )?(?:\w+ )?(?:bug|errors?|problem|issue|typo|button|text|output|file|function|line|change|changes|fix|pr|diff|meeting|call|demo|deadline|question|idea|answer|reason|point|thing|plan|rest|test|tests|build|page|result|results|first|second|code looks|screenshot|message|ticket|review|log says|task|goal)\s(?!server|machine|pipeline|agent|tool|system|runner|suite|data|environment|database)"
    r"|^my (?:branch|tests?|code|changes?|build|pr|script|screen|terminal|browser tab|question|guess|idea|bad|fault)\b|^(?:it|its|they|he|she|you|your|that|these|those|there|here|what|which|who|if|when|once|so|and|but|please|let|make|can|could|add|fix|use|do|don't|try|run|write|create|remove|delete|move|check|look|show|give|open|read|change|rename|put|set|update|keep|see|go|stop|then|first|also|now|no|yes|not|never|always|to|with|by|as|because|since|after|before|i|we)\b"
    r"|\b(?:broken|blank|wrong|weird|slow|empty|fine|ok|okay|failing|missing|stuck|red|green|gone|great|good|bad|nice|cool|ugly|confusing|done for|running fine|down|back up)\b"
)
_TROUBLE = LazyPattern(
    r"\b(?:errors?|bugs?|typos?|problems?|issues?|warnings?|mistakes?|leaks?|way|need|reason|difference|files?|lines?|tests?)\b"
)
_BAD_NEWS = LazyPattern(
    r"\b(?:doesn't|don't|didn't|isn't|aren't|wasn't|was|were|did|had|has been|fails?|failed|crash(?:es|ed|ing)|an? (?:error|bug|problem|issue|typo|mess)|should|must|needs? (?:a|an|to|some|more)|has (?:an? )?(?:error|bug|problem|issue|typo)s?)\b"
)
# Statements about the speaker and their team.
_OF_TEAM = LazyPattern(
    r"^(?:(?:in|for|on) (?:this|our|the) \w+,? |at work,? )?(?:we(?:'re| are) (?:all |mostly |currently |only |both )*(?:using|an?|the|on|hosted|based|in|deploying|running|building|targeting)\b"
    r"|we (?:all |mostly |usually |generally |currently |also |only |both |still )*(?!(?:need|should|could|can|can't|would|will|won't|want|are|aren't|were|was|did|didn't|don't|do|does|may|might|must|got|get|see|saw|know|think|thought|went|go|just|almost|already|had|hope|guess|tried|try|forgot|agree|found|made|lost|met|ran|talked|did|left|began|chose|took|gave|said|told|came|like|wait|start|stop|look|discuss)\b)(?!\w+ed\b)[a-z]+\b)"
)
_OF_SPEAKER = LazyPattern(
    r"^(?:i'?m|i am) (?:on (?:an? )?\S|using |the |an? |based in|in charge|responsible|new to|not (?:a|an|the) |working (?:with|from)|color ?blind|colou?r ?blind|left-handed|from )"
    r"|^i (?:work (?:on|with|in|at|for|as|from)|use|maintain|own|run|manage|develop on|live in|speak|know|don't know|have (?:an? |no |only )|only have|usually work|mostly (?:use|work))\s|^my (?:name|role|job|editor|shell|time ?zone|os|laptop|machine|team|company|setup|github|handle|email|background|native language)\b.*\b(?:is|are|has|runs)\b"
)
_NOT_OF_SPEAKER = LazyPattern(
    r"^(?:i'?m|i am) (?:the one who|a bit|a little|an idiot|on (?:it|a call|my way|the (?:phone|train|wrong|right|same))|in a|using (?:it|this|that)|not a fan)|^i have (?:an? |no )?(?:question|problem|issue|idea|error|bug|feeling|look|to|time|clue|few|meeting|doubt)"
    r"|^i (?:run|use|know) (?:it|this|that|what|how|why|the (?:command|tests?|app|script))|^we(?:'re| are)? (?:in|on|the|an?) (?:the (?:same|right|wrong|middle)|(?:good|bad|same|it|track|time|hurry|little|bit))|^we have (?:to|an? (?:problem|bug|issue|error|meeting|deadline))|^we (?:put|call|use|keep|store|run) (?:it|this|that|them)\b"
)
_OF_PEOPLE = LazyPattern(
    r"\b(?:team|tickets?|customers?|users?|clients?|company|product|designers?|developers?|release (?:every|on)|we are|we're|every (?:second|other)|licen[sc]ed|deadline|legal|hospital|linear|jira|slack|figma|notion|name)\b"
)
# Where or by what something is done is no matter of style.
_LOCATION = LazyPattern(
    r"\b(?:lives?|(?:is|are) (?:in|at|on|under|checked|done|kept|stored|run|hosted|managed)|runs?|goes|go)\b"
)
_THERE_IS = LazyPattern(
    r"^there(?:'s| is| are) (?:an? |one |two |three |four |five |\d+ |also |no ).* (?:in|on|for|under|behind) (?:this|our|the|every|each|`?\w+/)"
)
_STYLE = LazyPattern(
    r"\b(?:indent\w*|tabs|spaces|commit messages?|commits|branch(?:es)? (?:names?|feature)|name branches|naming|snake_case|camelcase|kebab-case|pascalcase|quotes|semicolons|comments|docstrings|squash\w*|rebase|indent|pull requests|prs|tests? with|write tests|code style|convention\w*|result types|error handling|exceptions)\b"
)


def project_facts(sentences: Sequence[Sentence]) -> Iterator[RuleCandidate]:
    """Yield lasting facts that the user states about the project and its environment."""
    for sentence in sentences:
        if sentence.role == Role.USER and (text := user_statement(sentence)) and (kind := _kind(text)):
            yield RuleCandidate(kind, text, sentence.line, 0.8)


def _kind(text: str) -> Kind | None:
    low = text.lower()
    is_word = text[1:2].islower() or text[1:2] == " "  # no abbreviation
    in_sentence = text[:1].lower() + text[1:] if is_word else text
    if len(text.split()) < FEWEST_WORDS or is_momentary(text.replace("tonight", "").replace("currently", "")):
        return None
    of_team, of_speaker = _OF_TEAM.match(low), _OF_SPEAKER.match(low)
    if of_team or of_speaker:
        if _NOT_OF_SPEAKER.match(low) or not (is_specific(text) or len(text.split()) > FEWEST_WORDS + 1):
            return None
        if of_team and _STYLE.search(low):
            return Kind.PREFERENCE
        return Kind.CONTEXT if of_speaker or _OF_PEOPLE.search(low) else Kind.ARCHITECTURE
    if _THERE_IS.match(low) and not _BAD_NEWS.search(low) and not _TROUBLE.search(low):
        return Kind.ARCHITECTURE
    if _FLEETING.search(low) or _BAD_NEWS.search(low) or not _FACT.match(in_sentence):
        return None
    if not (is_specific(text) or _LASTING_SUBJECT.match(low) or _LASTING_VERB.search(low)):
        return None
    if _STYLE.search(low) and not _LOCATION.search(low):
        return Kind.PREFERENCE
    return Kind.CONTEXT if _OF_PEOPLE.search(low) else Kind.ARCHITECTURE


MAX_DEPENDENCIES = 8  # dependencies of a manifest that are listed

_LINE_NUMBER = LazyPattern(r"^\s*\d+[→\t|]", re.MULTILINE)
_GO_DEPENDENCY = LazyPattern(r"^\s+(?:[\w.-]+/)+?([\w.-]+?)(?:/v\d+)? v\d\S*$", re.MULTILINE)
_TOML_NAME = LazyPattern(r"^name\s*=\s*\"([^\"]+)\"", re.MULTILINE)
_CARGO_DEPENDENCY = LazyPattern(r"^([\w-]+)\s*=\s*(?:\"|\{)", re.MULTILINE)
_PY_DEPENDENCY = LazyPattern(
    r"^\s*\"([A-Za-z][\w.-]*)(?:\[[^\]]*\])?\s*(?:[<>=~!;][^\"]*)?\",?\s*$", re.MULTILINE
)


def manifest_statements(calls: Sequence[ToolCall]) -> Iterator[RuleCandidate]:
    """Yield one statement for each manifest that was read."""
    for call in calls:
        if (
            call.tool != "Read"
            or call.failed
            or any(other.writes and other.input == call.input for other in calls)
        ):
            continue  # it was changed afterwards
        if description := describe_manifest(call.input, call.output):
            yield RuleCandidate(Kind.ARCHITECTURE, description, call.line, 0.8)


def describe_manifest(path: str, text: str) -> str:
    """Describe a project by its manifest; empty when the file is none, or says little."""
    text = _LINE_NUMBER.sub("", text)
    name = base_name(path)
    title = ""
    dependencies: list[str] = []
    if name == "go.mod" and (module := re.search(r"^module (\S+)", text, re.MULTILINE)):
        version = re.search(r"^go (\S+)", text, re.MULTILINE)
        direct = "\n".join(line for line in text.splitlines() if "// indirect" not in line)
        title = f"{module[1]} is a Go {version[1]} module" if version else f"{module[1]} is a Go module"
        dependencies = _GO_DEPENDENCY.findall(direct)
    elif name == "Cargo.toml" and "[dependencies]" in text and (project_name := _TOML_NAME.search(text)):
        section = text.split("[dependencies]", 1)[1].split("\n[", 1)[0]
        title, dependencies = f"{project_name[1]} is a Rust crate", _CARGO_DEPENDENCY.findall(section)
    elif name == "pyproject.toml" and (project_name := _TOML_NAME.search(text)):
        section_match = re.search(r"^dependencies\s*=\s*\[(.*?)^\]", text, re.DOTALL | re.MULTILINE)
        title = f"{project_name[1]} is a Python project"
        dependencies = _PY_DEPENDENCY.findall(section_match[1]) if section_match else []
    elif name == "package.json":
        title, dependencies = _node(text)
    if len(dependencies) < 2:
        return ""
    listed = ", ".join(list(dict.fromkeys(dependencies))[:MAX_DEPENDENCIES])
    return f"{' '.join(title.split())} that depends on {listed} (`{name}`)."[:LONGEST]


def _node(text: str) -> tuple[str, list[str]]:
    try:
        document = json.loads(text[: text.rindex("}") + 1])
    except ValueError:
        return "", []
    dependencies = document.get("dependencies") if isinstance(document, dict) else None
    if not isinstance(dependencies, dict):
        return "", []
    return f"{document.get('name') or 'The project'} is a Node package", list(map(str, dependencies))


MAX_ROWS = 8
MAX_CELLS = 4

_ROW = LazyPattern(r"^\s*\|(.+)\|\s*$")
_RULE = LazyPattern(r"^[\s|:-]+$")
_COMPONENT_HEADING = any_case(
    r"mechanism|purpose|location|\bfiles?\b|responsib|used by|description|\brole\b|\breturns?\b|\buses\b|what it does|\bwhere\b|component|module|meaning|stores?\b|\bpath\b|behaviou?r|default|contains|handles|\bowner\b|endpoint|command|runs? on"
)
_MOMENTARY_HEADING = any_case(
    r"status|result|before|after|pass|fail|priority|severity|effort|risk|option|pros|cons|count|time\b|fix|issue|finding|line|change|diff|test|step|phase|task|\bpr\b|score|verdict|impact|old|new|current|proposed|approach|example|scenario|cost|coverage"
)

_COMPARISON_CELL = any_case(r"(?:missing|yes|no|n/a|none|\W{0,2})")
# A row is a statement if it has a verb: "Serves HTTP", "is read by"; a row of names alone is none.
_VERB = any_case(
    r"^(?:(?:only|also|always|never|first|then) )?(?!(?:files|tests|names|lines|types|commands|bytes|settings|users|options|flags|docs|headers|tokens|events|errors|results|fields|keys|values|less|process|access|class|address|status|https|css|js|os|yes|this|its|as|is|has|was|alias|bus)\b)[a-z]+s\b"
    r"|\b(?:is|are|has|have|can|must|will|does|uses?|calls?|reads?|writes?|stores?|returns?|sends?|runs?|loads?|holds?|handles?|contains?|needs?|keeps?|used (?:by|for|to|in)|called (?:by|from|in)|stored (?:in|as|at)|read (?:by|from))\b"
)
_TEST = LazyPattern(r"_test\.|\.test\.|\.spec\.|\btest_|\btests?\b")
_EXAMPLE = any_case(r"\b(?:example|e\.g\.|for instance)\b")


def table_statements(steps: Sequence[TranscriptStep]) -> Iterator[RuleCandidate]:
    """Yield rows of tables whose headings describe components, not a passing state."""
    for step in steps:
        if step.role != Role.CLAUDE or step.aside or "|" not in step.text:
            continue
        for head, rows in _tables(spoken_text(step)):
            is_described = (
                len(rows) <= MAX_ROWS
                and 2 <= len(head) <= MAX_CELLS
                and _COMPONENT_HEADING.search(" ".join(head))
            )
            if not is_described or any(_COMPARISON_CELL.fullmatch(cell) for row in rows for cell in row):
                continue
            for row in rows:
                if text := _row_statement(head, row):
                    yield RuleCandidate(Kind.ARCHITECTURE, text, step.line, 0.62)


def _tables(text: str) -> Iterator[tuple[list[str], list[list[str]]]]:
    lines = text.splitlines()
    number = 0
    while number + 2 < len(lines):
        head = _ROW.match(lines[number])
        if head is None or "-" not in lines[number + 1] or not _RULE.match(lines[number + 1]):
            number += 1
            continue
        rows: list[list[str]] = []
        example = any(_EXAMPLE.search(line) for line in lines[max(0, number - 12) : number])
        number += 2
        while number < len(lines) and (row := _ROW.match(lines[number])):
            rows.append(_cells(row[1]))
            number += 1
        if not example:
            yield _cells(head[1]), rows


def _cells(row: str) -> list[str]:
    return [strip_markdown(cell).replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", row)]


def _row_statement(head: Sequence[str], row: Sequence[str]) -> str:
    """Join a row's cells: "Component `api`: Purpose serves HTTP." Columns of a passing state are left out."""
    if len(row) != len(head) or not row[0] or _TEST.search(row[0]) or "`" not in " ".join(row):
        return ""
    columns = [
        f"{name.lower()}: {cell.rstrip('.')}"
        for name, cell in zip(head[1:], row[1:], strict=True)
        if cell and not _MOMENTARY_HEADING.search(name)
    ]
    subject = f"{row[0]} ({head[0].lower()})" if head[0] else row[0]
    text = f"{subject} - {'; '.join(columns)}."
    if (
        not columns
        or not any(_VERB.search(cell) for cell in row[1:])
        or is_hedged(text)
        or not 24 <= len(text) <= LONGEST
        or _MOMENTARY_HEADING.search(head[0])
    ):
        return ""
    return clean_sentence(text)
