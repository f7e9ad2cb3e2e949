"""How work is done in the project: preferences, corrections, procedures, gotchas and patterns."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from mindhold.capture.cues import cues_in
from mindhold.capture.extracted_items import COMMAND_WORDINGS, LONGEST, RuleCandidate
from mindhold.capture.rules.sentences import (
    Sentence,
    announces,
    clean_sentence,
    count_names,
    is_hedged,
    is_korean,
    is_momentary,
    is_question,
    is_specific,
    reports_work,
    stands_alone,
    stands_alone_loosely,
    strip_markdown,
    user_statement,
)
from mindhold.capture.rules.tool_calls import (
    WRITING_TOOLS,
    ToolCall,
    base_name,
    commands,
    purpose_of,
    runs_everything,
    uses_runner,
    without_variables,
)
from mindhold.model.memory import Kind
from mindhold.ports.transcripts import Role, TranscriptStep
from mindhold.text.noise import rate_worth
from mindhold.text.pattern import LazyPattern, any_case

SHORTEST = 12  # characters
FEWEST_WORDS = 3

_GENERAL = any_case(
    r"(?:^|\b(?:please|you|you should|you must|you can|we|we should|i|and|but|so|ok|then|should|must)[, ]+)(?:always|never)(?! (?:mind|worked?|actually|happened|seen|saw|been|had|heard|used to|did|shows|showed|gets?|got|fails|failed|returns|runs|ran|ends|had|was|were|\w+ed\b))\b"
    r"|\b(?:from now on|going forward|in (?:the )?future,|every time you|whenever you|each time you|as a rule|by default i|in general,? (?:i|we|please|don't|use)"
    r"|i (?:really |strongly |generally |usually |much |would |'d )?(?:prefer|hate|dislike|like it when|don't like|do not like|(?<!would )like to (?!add|see|have|build|change|try|know|understand|make|get|find|use|do|create|implement|write|start|ask|go|move|fix|remove|update)|want you to always|expect you)"
    r"|we use [^.,]{2,60},? (?:not|never|instead of|rather than|everywhere)\b|i(?:'d| would) rather|make sure (?:to|you|that)\b[^.]*\b(?:every|each|always|all)\b|^(?:please )?(?:prefer|avoid|favou?r) \w+|^(?:please )?keep \w+(?: \w+)? (?:under|below|short|small|simple|within)\b|we (?:prefer|never|always|don't (?:use|do|want|like|allow|write|need)|do not (?:use|do|want|allow)|only use|use \S+ (?:not|instead of|rather than|for all))"
    r"|keep (?:it|things|everything) (?:simple|minimal|short|small|clean|concise)|our (?:convention|style|policy|standard|rule)|make sure (?:to always|you always|you never|to never)|remember (?:to|that we|that i)|don't ever|do not ever|no need to ever|stop (?:adding|using|writing|creating|doing|asking|saying|putting|committing))"
)
_CORRECTION = any_case(
    r"^(?:no|nope|nah|wrong|not like that|not that)[,.!]*\s+(?:please\s+)?(?:use|do|don't|write|put|call|keep|make|always|never|i want|we use)\b"
    r"|^(?:please\s+)?(?:don't|do not|never|avoid) (?:use|add|write|create|put|mock|commit|push|include|mention|touch|change|modify|generate|hard-?code|import|skip|make|run|install|call|rely|repeat|introduce|wrap|log|print|leave)\b"
    r"|^(?:please\s+)?use [^.,;]{2,60}(?:, not |,? instead of | rather than | and not | over )"
    r"|\b(?:don't|do not) (?:add|use|write|mention|include) [^.]{3,60} (?:in|to|for) (?:commits?|commit messages|prs?|tests?|code|comments|docs|the docs)\b"
)
# Orders that are meant to last, by their subject and their condition.
_THINGS = (
    r"(?:commits?|commit messages?|tests?|unit tests|test files?|functions?|methods|class(?:es)?|components?|hooks|variables?|variable names|names|comments?|docs|docstrings?|branch(?:es)?|branch names|prs?|pull requests?|quer(?:y|ies)|endpoints?|migrations?|types|imports|exports|errors?|error messages|exceptions"
    r"|logs?|dates?|timestamps?|answers|replies|responses|explanations|code|indentation|styles?|dependencies|packages|strings|constants|apis?|api responses|models|modules|scripts?|releases?|versions|reviews|code reviews|config\w*|secrets|text|messages|keywords|sql|money|prices|amounts|units|emojis|files|css|html|js|ts|typescript|javascript|python|rust|go|java|kotlin|swift|markdown|json|yaml|c\+\+"
    r"|translations|ids|urls|routes|tables|columns|fixtures|mocks|assertions|shaders|scenes|assets|dags?|notebooks|dashboards|images|interrupts|handlers|services|settings|changelogs?|entries|prod(?:uction)?(?: code)?)"
)
_WHEN = r"\b(?:every|each|any|everywhere|whenever|when (?:you|in doubt|we|writing|adding|changing|creating|naming)|before (?:you |we |every |each |any |i )?(?:commit|push|merg|finish|install|delet|chang|writ|start|deploy|releas|cod|implement|touch|mak|edit)\w*|after (?:you|every|each|any)|without (?:asking|my|tests|a )|unless i|by default|at all times|in all|for all|all (?:new|public|our|the) \w+|new \w+s\b)"
_STYLE_ORDER = any_case(
    rf"^(?:just |only )?(?:use|using|keep|prefer|avoid|format|name|prefix|put|place|answer|reply|respond|speak|talk|explain|write|document|indent|sort|group|spell|wrap|order|pin|handle|log|return|limit|stick (?:to|with)|follow)\b[^.]*(?:{_WHEN}|\b(?:in|for|with|inside|on|to|of) (?:the |our |your |all |new |any |every )?(?:\w+ )?{_THINGS}\b(?! (?:below|above|i )))"
)
_HABIT_ORDER = any_case(
    rf"^(?:(?:ask|tell|show|warn|check with|consult) me\b[^.]*\b(?:before|first|when|if|whenever|every)|(?:please )?(?:answer|reply|respond|speak|talk|write (?:to me|comments|docs|commit messages|everything)|explain things) in [A-Z]\w+|keep (?:your |the |all )?(?:answers?|replies|responses|explanations|messages|functions|methods|files|classes|commits|prs|diffs|changes|components)\b"
    rf"|(?:for|in) (?!this\b|that\b|the\b|now\b|it\b|case\b)[^,]{{3,40}}?,? (?:please |always )?(?:use|prefer|avoid|write|never use|don't use|do not use) |use (?!this|that|it\b|an? |the (?:same|first|second|other|new|old|above))[^,.]{{2,40}} for (?!now|this|that|it\b|the |me\b|an? )\w+|write in (?:\w+ )?(?-i:[A-Z])\w+|keep (?:the|our|your) [\w -]{{2,30}} (?:small|simple|stable|minimal|clean|short|consistent|thin|flat|readable|backwards)\b"
    rf"|(?:only )?(?:use|sort|prefix|name|keep|group|avoid|format|suffix|capitali[sz]e|order|quote|type|annotate) (?:only |all |every |each |any )(?!of\b|the\b|this|that|these|those)[\w`-]+|(?:use|sort|prefix|name|group|keep|order|annotate) (?:[a-z-]+ )?(?!this\b|as\b|css\b|less\b|class\b)[a-z-]{{3,}}(?<!s)s\b(?! (?:from|in|of) (?:this|that|the)\b)|only (?:use|write|import|log|commit|test|mock)\b|(?:nobody|no one) (?:\w+s|may|should|must)\b"
    rf"|if (?:you are|you're|in doubt|something is) ?(?:unsure|uncertain|in doubt|stuck|unclear)?, (?:please )?(?:ask|stop|tell|use|choose|prefer|don't)\b|(?:don't|do not) (?!worry|bother|forget|wait|mind|panic|go|stop|do|know|think|care|need|have|delete|test)\w+ (?!the\b|this|that|it\b|them|yet|anything|everything|any\b|now|to\b|about|with\b|on\b|my\b|your\b|me\b|so\b|too\b|until|for now)[\w`.-]+ \w+"
    rf"|(?:be|stay) (?:brief|concise|terse|short|precise|consistent)\b|stop [a-z]+ing\b|(?:don't|do not) \w+[^.]* without (?:asking|my|tests|telling|checking)|(?:put|place|keep) (?:all |the |new |unit )?{_THINGS} (?:in|next to|under|inside|into|close)\b"
    rf"|(?:when(?:ever)?|each time|every time|before|after) (?:you |we |in doubt|writing |adding |changing |committing|naming )[^,]*, (?:please |also |always )*(?:use|run|write|add|choose|update|keep|ask|put|make|prefer|check|do|don't|never|go|pick|start|follow|include|bump|tell|show|format)"
    r"|use (?:the |our )?[\w`./-]+(?: [\w`./-]+)? (?:instead|rather than|and not|over|not) |use (?:single|double|british|american|metric|imperative|semantic|conventional|two|four|2|4|tabs|spaces|snake_case|camelcase|kebab-case|pascalcase|strict|type hints|early returns)\b|format \w+ with \w+)"
)
# A statement about all things of a kind is a rule.
_RULE = any_case(
    rf"^(?:(?:all|every|each|any|no|new|our|public) )+(?:[\w`-]+ ){{0,3}}?{_THINGS} (?:\w+ )?(?:should|must|need to|needs? |have to|has to|may not|can't|cannot|are (?:always|never)|is (?:always|never)|go(?:es)? (?:in|next|under|into)|follow|start with|end (?:in|with)|never|always)"
    rf"|^(?!(?:the|this|that|these|those|it|he|she|they|you|we|i|tests|things|changes|results)\b)(?:[\w`-]+ ){{0,2}}?[\w`-]+s (?:(?:should|must|need to|have to|may)(?: not|n't)?(?: always| never| only| all)? (?!be (?:running|started|up)\b)\w+|should(?:n't)? \w+|always \w+|never \w+)"
    rf"|^(?!(?:the|this|that)\b)(?:[\w`-]+ ){{0,2}}?{_THINGS} (?:go(?:es)? (?:in|next|under|into)|need|must|should) |^(?:one|a single|at most \w+|max(?:imum)?|no more than \w+) [^.]{{3,50}}\bper \w+"
    r"|^(?:import order|indentation|quotes|naming|line length|commit (?:format|style)|branch names?|code style|formatting|style|file names|test names|log format)\s*:\s"
)
_BAN = any_case(
    r"^no (?:more )?(?:[\w`.-]+ ){1,4}?(?:in|for|on|inside|outside|without|anywhere|ever|allowed|unless)\b|^no (?:[\w-]+ )?(?:emojis?|comments|classes|globals|magic numbers|abbreviations|default exports|inline styles|semicolons|tabs|todos|console\.log\S*|mocks|snapshots?|any\b)"
)
_LIKING = any_case(
    r"^(?:(?:personally|generally|honestly),? )?(?:i (?:really |always |generally |usually |just |only )*(?:like|love|hate|dislike|prefer|don't like|do not like|don't want|can't stand|want (?:all|every|each|you to (?:always|never|use|write|keep|ask|explain|show|stop|avoid|be|prefer|stick|follow)|no|to (?:see|review|approve|be asked))|expect|need all)\b|i(?:'d| would) like (?:you to )?(?:always|never|all|every|each|no)\b|we (?:like|love|hate|dislike|value|prefer|avoid|try to)\b|(?:it'?s |it is )?important (?:to me )?that (?:every|all|each|no|we|you)\b|in this (?:project|repo|codebase) (?:all|every|we)\b|in general,? )"
)
_TASK = any_case(
    r"^(?:use|put|keep|write|name|return|handle|log|wrap|add|document|explain|follow)\b.*\b(?:the (?:\w+ )?(?:button|page|form|modal|header|footer|sidebar|dialog|login|screen|following|script|function|class|method|file|endpoint)\b|a (?:test|unit test|comment|function|script|class|method|file|loop|for|while|smaller|bigger|larger|different)\b|an? \w+ (?:test|function|script)\b)"
    r"|^explain (?:how|why|what|the)\b|^write (?:the|some|me|tests? for (?:the|it))\b|^i (?:like|love) (?:it|this|that|the|your|where|how)\b|^i(?: really)? (?:like|want|need) (?:to (?:know|see (?:the|how|what|if|why|it)|understand|go|add|change|make|try))\b"
)
_UNSURE = any_case(r"\b(?:maybe|perhaps|not sure|might|could|wonder\w*|i guess)\b|\?")
_VAGUE_ORDER = any_case(
    r"^(?:as (?:lightweight|simple|small|minimal|short|concise|few|little|clean|quick|cheap) as possible|keep (?:it|things|everything) (?:simple|minimal|short|small|clean|concise))\b[^.]{0,20}\.?$"
)
_YOU_SHOULD = LazyPattern(
    r"^you (?:should|must|need to|have to|can) (?:always )?(?=use|write|keep|run|put|ask|add|prefer|avoid|never|not )"
)
_POINTING_END = any_case(r"\b(?:it|this|that|them|those|these)\b[.!]?$")
_MOMENTARY_ORDER = any_case(
    r"\b(?:yet|for now|(?<!from )now|this time|(?:at|for) the (?:moment|time being)|today|tonight|tomorrow|this (?:week|morning|afternoon|evening|once)|in a hurry|until (?:i|we|the|it|tomorrow|later|then|next)\b|here|this (?:one|file|pr|commit|branch|time|case|function|test|line|change|step|script|part)|that (?:one|file|function|test|line|part)|the (?:last|first|second|other) (?:one|commit|change|part)"
    r"|anymore|again|so far|currently|already|wasn't|didn't|doesn't|isn't|happen\w*|why|because it|weird|still|i mean|if it|if the|sure if|it (?:always|never))\b|\?"
)


def preferences(sentences: Sequence[Sentence]) -> Iterator[RuleCandidate]:
    """Yield the user's preferences that are meant to last."""
    for sentence in sentences:
        if sentence.role != Role.USER or sentence.aside or is_korean(sentence.text):
            continue
        text = clean_sentence(sentence.text)
        if _YOU_SHOULD.match(text.lower()):
            text = _YOU_SHOULD.sub("", text[:1].lower() + text[1:])
        weight = _preference_weight(text, sentence.text.strip())
        if (
            not weight
            or not SHORTEST <= len(text) <= LONGEST
            or _MOMENTARY_ORDER.search(text)
            or _POINTING_END.search(text)
        ):
            continue
        judgement = rate_worth(text)
        is_meaningful = judgement.words >= 2 or is_specific(text)
        if is_meaningful and not judgement.chatter and not judgement.dangling:
            yield RuleCandidate(Kind.PREFERENCE, text, sentence.line, weight)


def _preference_weight(text: str, raw: str) -> float:
    """Return how surely it is meant to last; 0 when it isn't."""
    if (
        _UNSURE.search(text)
        or is_question(raw)
        or len(text.split()) < FEWEST_WORDS
        or _VAGUE_ORDER.match(text)
    ):
        return 0.0
    if _GENERAL.search(text):
        return 0.9
    if _CORRECTION.search(raw) or _CORRECTION.search(text):
        return 0.85
    if _HABIT_ORDER.match(text) or _RULE.match(text) or _BAN.match(text) or _LIKING.match(text):
        return 0.85 if not _TASK.match(text) else 0.0
    return 0.8 if _STYLE_ORDER.match(text) and not _TASK.match(text) else 0.0


FEWEST_CORRECTION_WORDS = 4

_OBJECTION = LazyPattern(
    r"^(?:(?:no+|nope|nah|wrong|incorrect|wait|stop|hm+|actually|correction|careful|sorry|oh|but|ok|not quite|almost|i said|i meant|i told you|again|as i said"
    r"|(?:no,? )?(?:that'?s|this is|that is) (?:wrong|not right|incorrect|not correct|not true|not what i (?:want(?:ed)?|meant|asked for)))\b[\s,.:;!—–-]*)+"
)
_DEMAND = LazyPattern(
    r"\b(?:should(?:n't| not)?|must(?:n't| not)?|has to|have to|needs? to|(?:don't|do not|never|always) \w+|we (?:use|call|don't|do|only|write|have|changed|agreed|deploy|store|never|always|need|want)"
    r"|let's (?:use|keep|make|call|go|switch|store|put|not)|(?:is|are) (?:called|named|in|spelled|not)|belongs?|use|not \w+|instead of|rather than)\b"
)
_FIRM = LazyPattern(
    r"^(?:no|nope|nah|wrong|incorrect|correction|actually we|(?:no,? )?that'?s (?:wrong|not right|incorrect|not correct|not true))\b"
)
_STATED_FACT = LazyPattern(
    r"(?!it\b|i\b|that\b|this\b|you\b)(?:[\w`./'-]+ ){1,6}?(?:is|are|was|were|has|have|uses?|comes?|runs?|renamed|moved|lives?|goes|expects?|returns?)\b .{4,}"
)
_CONTRAST = LazyPattern(
    r"(?:,|;| and| -) not (?!sure|yet|now|that|this|the other|so |a |an |be |in the mood)\S+|^not [\w.`-]+(?: [\w.`-]+)?, |\b(?:use|using|with|is|are|in|called|spelled) \S+(?: \S+){0,3} not (?:in |with |by |from )?[\w.`\"'-]+[.!]?$"
    r"|\b(?:this|our) (?:project|repo|codebase|app|team) (?:uses?|has|needs|wants|is|doesn't)\b"
)
_TIME_WORDS = LazyPattern(r" (?:now|again|here)\b")
_EMPTY_CORRECTION = LazyPattern(
    r"\b(?:leave|that one|this one|the other|the same|not that|not this|undo|revert|go back)\b|\bwe (?:have|need) to (?:go|leave|stop|wait|fix|finish)\b"
)


def corrections(sentences: Sequence[Sentence]) -> Iterator[RuleCandidate]:
    """Yield the user's corrections that say how something is or should be; "no, the other file" says nothing."""
    for sentence in sentences:
        if sentence.role != Role.USER:
            continue
        low = sentence.text.lower()
        objection = _OBJECTION.match(low)
        states_fact = objection and (
            _DEMAND.search(low, objection.end())
            or (_FIRM.match(low) and _STATED_FACT.match(low, objection.end()))
        )
        if not states_fact and not _CONTRAST.search(low):
            continue
        own_text = sentence.text[objection.end() :] if objection else sentence.text
        text = user_statement(replace(sentence, text=own_text))
        if (
            len(text.split()) < FEWEST_CORRECTION_WORDS
            or _EMPTY_CORRECTION.search(low)
            or is_momentary(_TIME_WORDS.sub("", text))
        ):
            continue
        yield RuleCandidate(Kind.DECISION, text, sentence.line, 0.85 if objection else 0.8)


FEWEST_REFUSING_WORDS, LONGEST_REFUSAL, LONGEST_REFUSED = 3, 200, 80
_HOW_IT_SHOULD_BE = (
    "ban",
    "norm",
    "contrast",
    "only",
    "order",
)  # cues; without one the words only ask or wait

_NEEDS_THE_WORK = any_case(r"\b(?:this|that|it|these|those|here|them)\b|^[^?]{,30}$")
_SUGGESTION = any_case(r"^(?:should(?:n't)?|why not|can't|couldn't|isn't|wouldn't)\b")


def refusals(steps: Sequence[TranscriptStep], calls: Sequence[ToolCall]) -> Iterator[RuleCandidate]:
    """Yield what the user said when refusing a tool call, with what was refused: "don't check this in" says nothing alone."""
    said = {step.line: step.text for step in steps if step.role is Role.USER and step.objecting}
    for call in calls:
        words = clean_sentence(" ".join(said.get(call.output_line, "").split()))
        refused = _refused_work(call) if call.refused else ""
        if not refused or not len(words.split()) >= FEWEST_REFUSING_WORDS or len(words) > LONGEST_REFUSAL:
            continue
        cues = cues_in(words)
        means_it = any(cues[cue] for cue in _HOW_IT_SHOULD_BE) and not (cues["finding"] or cues["task"])
        if means_it and (_NEEDS_THE_WORK.search(words) or _SUGGESTION.match(words)):
            content = f"Refused {refused}: {words[0].lower()}{words[1:]}"
            yield RuleCandidate(Kind.PREFERENCE, content, call.output_line, 0.75)


def _refused_work(call: ToolCall) -> str:
    """What was refused, in a few words; empty if the call's name and input don't tell."""
    if call.shell:
        command = next(iter(commands(call.input)), "")
        return f"`{command[:LONGEST_REFUSED]}`" if command else ""
    return f"a change of `{base_name(call.input)}`" if call.tool in WRITING_TOOLS and call.input else ""


ENOUGH_SUCCESSES = 2  # successes, unless a task runner is called
LONGEST_GIVEN_COMMANDS = 200

_NAMED_TASK = LazyPattern(
    r"^(?:mise (?:run|r) |make |just |task |npm (?:run |test)|pnpm |yarn |bun run|deno task|poe |rake |nox|tox|bin/|\./scripts?/|scripts?/|turbo |nx |invoke |inv |\./gradlew |mix )"
)
_WHOLE = LazyPattern(
    r"go (?:build|test|vet)(?: -[vx]| -race)* \./(?:[\w./-]*/)?(?:\.\.\.)?|cargo (?:build|test|check|clippy|fmt|nextest run)(?: --?\S+)*|(?:python3? -m )?pytest(?: -\w+)*|(?:uv run |poetry run )\w+(?: --?\S+| \.)*"
    r"|ruff (?:check|format)(?: \.)?|mypy \.|(?:npx )?tsc(?: --noEmit| -b)?|(?:npx )?(?:vitest|jest|eslint)(?: run| \.)?|dotnet (?:build|test)|swift (?:build|test)|mvn \w+|gradle \w+|flutter \w+"
)
_CODE_BLOCK = LazyPattern(
    r"^(?P<lead>[^\n]{0,300})\n{1,3}[ \t]*```(?:bash|sh|shell|console|zsh|powershell|)[ \t]*\n(?P<code>.*?)\n[ \t]*```",
    re.DOTALL | re.MULTILINE,
)
_HOW_TO = any_case(
    r"\b(?:re-?build|build|run|test|start|deploy|install|use|profile|verify|launch|debug|release|publish|generate|update|upgrade|enable|disable|configure|set ?up|try|invoke|execute|reproduce|command|with)\b[^\n]{0,90}:\s*$"
)
_NOT_HOW_TO = any_case(r"\b(?:output|result|error|example|before|after|currently|shows?|simplest|or|way)\b")
_LEAD_OPENING = any_case(r"^(?:done[.!]?|now|then|and|so|you can(?: now)?|to)\s+")
_ADVICE = any_case(
    r"\b(?:run|running|use|using|execute|invoke)\b[^.`]{0,24}`([^`]{4,120})`[^.]*?\b(?:to|for|before|after|whenever|if|when) \w+"
)
_TO_DO = any_case(r"^to \w+[^,`]{2,60}, (?:run|use|execute|call) `([^`]{4,120})`")
_NOT_ADVICE = any_case(
    r"\b(?:want me|should i|shall i|i'll|i will|let me|would you|i ran|i used|now uses?|will (?:now )?(?:use|run)|this|that|these|it|we (?:could|might))\b"
)
_ASKED_FOR = any_case(r"\b(?:command|how (?:do|can|to)|what do i run|script)\b")
_PROMPT = LazyPattern(r"^\s*(?:\$|>|❯|%|#)\s+")
_COMMAND = LazyPattern(
    r"^(?:\./|\.\\|~/|bin/|scripts?/)[\w./-]+(?:\s|$)|^(?:sudo |cd [\w./-]+ && )?(?:git|gh|go|npm|npx|pnpm|yarn|bun|node|deno|python3?|pip3?|uv|uvx|poetry|pytest|ruff|mypy|cargo|rustup|make|just|mise|task|docker|docker-compose|podman"
    r"|kubectl|helm|terraform|aws|gcloud|az|fly|vercel|netlify|wrangler|heroku|psql|mysql|sqlite3|redis-cli|mongosh|curl|wget|brew|apt|apt-get|gradle|mvn|java|dotnet|swift|xcodebuild|flutter|dart|ruby|rails|rake|bundle|php|composer"
    r"|artisan|mix|elixir|zig|cmake|ninja|bazel|tox|nox|hatch|pre-commit|claude|codex|gemini|ssh|rsync|tail|export|source|eval|openssl|ollama|systemctl|journalctl|launchctl|ansible|vagrant|nix|conda|jupyter|streamlit|uvicorn|gunicorn|flask|celery|alembic|prisma)\s"
)


def procedures(
    calls: Sequence[ToolCall],
    sentences: Sequence[Sentence],
    steps: Sequence[TranscriptStep],
    counts: dict[str, int],
) -> Iterator[RuleCandidate]:
    """Yield commands that are known to work. `counts` are the successes of each command so far, and is updated."""
    used_purposes: set[str] = set()
    for call in calls:
        if not call.shell or call.failed or call.refused or not call.output_line or call.aside:
            continue
        for command in commands(call.input):
            purpose = purpose_of(command)
            if purpose not in COMMAND_WORDINGS or not runs_everything(command) or not uses_runner(command):
                continue
            counts[command] = counts.get(command, 0) + 1
            enough = 1 if _NAMED_TASK.match(command) or _WHOLE.fullmatch(command) else ENOUGH_SUCCESSES
            if counts[command] >= enough and purpose not in used_purposes:
                used_purposes.add(purpose)
                text = COMMAND_WORDINGS[purpose].format(f"`{command}`")
                yield RuleCandidate(Kind.PROCEDURE, text, call.line, 0.85 if enough == 1 else 0.75)
    yield from _given_commands(steps)
    yield from _advised_commands(sentences)


def _advised_commands(sentences: Sequence[Sentence]) -> Iterator[RuleCandidate]:
    """Yield sentences with a command and its purpose: "Run `x` to get y"."""
    for sentence in sentences:
        if sentence.role != Role.CLAUDE or not sentence.closing or sentence.aside or sentence.speculative:
            continue
        text = clean_sentence(sentence.text)
        match = _ADVICE.search(text) or _TO_DO.match(text)
        if (
            match
            and _COMMAND.match(f"{without_variables(match[1])} ")
            and not text.endswith("?")
            and not _NOT_ADVICE.search(text)
            and len(text) <= LONGEST
        ):
            yield RuleCandidate(Kind.PROCEDURE, text, sentence.line, 0.7)


def _given_commands(steps: Sequence[TranscriptStep]) -> Iterator[RuleCandidate]:
    """Yield commands that the assistant gave to the user, with their purpose."""
    question = ""
    for step in steps:
        if step.aside:
            continue
        if step.role == Role.USER:
            question = " ".join(step.text.split())
        elif step.role == Role.CLAUDE:
            yield from _commands_in(step, question)


def _commands_in(step: TranscriptStep, question: str) -> Iterator[RuleCandidate]:
    for match in _CODE_BLOCK.finditer(f"\n{step.text}"):
        lines = [_PROMPT.sub("", line).strip() for line in match["code"].splitlines()]
        lines = [line for line in lines if line and not line.startswith("#")]
        lead = strip_markdown(match["lead"]).strip()
        if (
            not 1 <= len(lines) <= 3
            or not all(_COMMAND.match(without_variables(line)) for line in lines)
            or sum(map(len, lines)) > LONGEST_GIVEN_COMMANDS
            or any("/Users/" in line or "/home/" in line for line in lines)
        ):
            continue
        if (
            not lead
            and step.text.lstrip().startswith("```")
            and _ASKED_FOR.search(question)
            and len(question) <= 120
        ):
            purpose = purpose_of(lines[-1]) if len(lines) == 1 else ""
            if purpose in COMMAND_WORDINGS:
                yield RuleCandidate(
                    Kind.PROCEDURE, COMMAND_WORDINGS[purpose].format(f"`{lines[0]}`"), step.line, 0.75
                )
            continue
        if not _HOW_TO.search(lead) or _NOT_HOW_TO.search(lead):
            continue
        lead = _LEAD_OPENING.sub("", lead.rstrip(": "))
        lead = re.split(r"(?<=[.!?]) ", lead)[-1]
        if len(lead.split()) < 2:
            continue
        code = ", then ".join(f"`{line}`" for line in lines)
        text = f"{lead[0].upper()}{lead[1:]}: {code}"
        if len(text) <= LONGEST:
            yield RuleCandidate(Kind.PROCEDURE, text, step.line, 0.75)


_LABEL = any_case(
    r"^(?:important|note|caveat|gotcha|warning|caution|heads[- ]up|beware|limitation|known issue|trade-?off|key (?:insight|finding|point)|one (?:caveat|note|thing to (?:note|know|remember|watch))|be careful|careful|watch out|attention|pitfall|good to know|important note|known (?:problem|bug)|keep in mind|remember|beware(?: that)?)\s*(?:\([^)]*\))?\s*[:—–-]\s*"
)
_CUE = any_case(
    r"\b(?:turns out|it turned out|note that|be careful|watch out|beware|keep in mind|gotcha|caveat|surprisingly|counter-?intuitive\w*|contrary to"
    r"|(?:must|needs? to|has to|have to|should) [^.;]{3,120}\b(?:otherwise|or else|or the|because|before|since)\b|otherwise\b[^.]{5,}"
    r"|only works? (?:if|when|with|for|on|in)|does(?:n't| not) work (?:if|when|with|for|on|in|because)|won't work|silently|is case-sensitive|are case-sensitive"
    r"|can return (?:nil|null|none|undefined|`)|returns? `?(?:nil|null|none|undefined)\b|never touches|defaults? to|by default|known (?:issue|bug|limitation)|not thread-safe|can be (?:slow|flaky|unpredictable|unreliable|null|nil|empty|stale)|asynchronously|dead code|has no callers|deprecated|race condition|limitation"
    r"|(?:is|are) not (?:supported|available|allowed|enabled|compatible|thread-safe|idempotent)|requires? (?:that|the|a|an|at least|`|[A-Z])|cannot be (?:used|called|set|changed)|can't be (?:used|called|set)|unless\b"
    r"|which means|meaning that|ignores the|overrides the|takes precedence|breaks? (?:if|when)|fails? (?:if|when|silently)|blocks? (?:until|when|on)|waits? (?:indefinitely|for)|even (?:if|though|when))\b"
    r"|(?:주의|반드시 .{3,}(?:해야|합니다)|그렇지 않으면|알고 보니)"
)
# Warnings that are plain enough without a name that can be looked up.
_WARNING = any_case(
    r"^(?:be (?:careful|aware)|careful|watch out|beware|keep in mind|note that|mind that|heads[- ]up|attention|caution|turns out|it turns out|don't forget|fyi)\b|\b(?:(?:must|needs? to|has to|have to) (?:\w+ ){1,12}?(?:before|after|first|every \d+)\b|(?:must|needs?(?: to)?|has to|have to|make sure|set|installed|running|run)\b[^;]*\b(?:otherwise|or else|or (?:the|it|you|we|everything) \w+)"
    r"|only (?:works?|runs?|pass(?:es)?|accepts?|supports?|builds?|compiles?|starts?|applies|loads?|fires?|happens?|updates?|shows?|syncs?|boots?|connects?|responds?) (?:if|when|with|for|on|in|after|once|as|while|inside|from|\w+ (?:that|which|on|with))"
    r"|(?:breaks?|fails?|crash(?:es)?|hangs?|freezes?|times? out|stops? working|loops? forever|deadlocks?|corrupts?|stalls?|misbehaves?|explodes?|(?:is|are) (?:lost|ignored|dropped|overwritten|deleted)|gets? (?:killed|lost|deleted|overwritten|stuck|corrupted|dropped|throttled)|resets?) (?:if|when|whenever|once|as soon as|unless|silently|without|under)\b"
    r"|silently|(?:is|are) case-(?:in)?sensitive|race condition|at least once|at most once|even (?:if|when|for|though|on)\b|limit (?:of|is) \d|limited to \d|(?:takes?|needs?) (?:about |around |up to |at least |roughly )?\d+ ?(?:minutes?|hours?|seconds?|gb|mb|ms)|a \d+ ?ms delay|expires? (?:every|after)|(?:is|are) shared (?:with|between|by)"
    r"|, so (?:\w+[ ,]){1,5}?(?:have|has|need|needs|must|can't|cannot|collide|never|always|don't|do not)\b|(?:deletes?|erases?|wipes?|drops?|overwrites?|truncates?|resets?|also deletes) (?:all|the|every|your|everything)\b|locks? the \w+"
    r"|(?:does|do)(?:n't| not) (?:work|support|handle|run|compile|allow|retry|reload|survive|persist|wait|apply|scale|clear)\b|(?:is|are)(?:n't| not) (?:\w+ly )?(?:supported|unique|deterministic|thread-safe|idempotent|cleared|sent|persisted|validated|escaped|encrypted|cached|atomic|transactional|ordered|guaranteed|in sync|retried|reloaded|reentrant|re-entrant|backwards? compatible|compatible|cleaned up|rolled back|refreshed|invalidated)\b"
    r"|(?:can't|cannot|can not|must not|mustn't|may not) (?:run|be)\b|loops forever|(?:can't|cannot|won't) \w+ (?:when|if|while|unless|without)\b|always (?:returns?|fails?|runs?|succeeds?|starts?|uses?|overwrites?)\b|gets? (?:wiped|reset|deleted|purged|rotated|cleared|restarted|killed|overwritten)\b|known (?:bug|issue|problem) (?:in|with|of)|(?:is|are) (?:in )?(?:local time|utc)\b|also (?:deletes?|removes?|drops?|resets?|overwrites?|restarts?)|(?:is|are) (?:required|necessary|mandatory|needed) (?:after|before|for|when)|so (?:always|never)\b|(?:is|are) slow\b|(?:is|are)(?:n't| not) (?:\w+ )?(?:safe|used|shown|available|allowed|picked up|synced|shared|included|possible)\b|(?:does|do)(?:n't| not) (?:pick up|see|know about|propagate|include|trigger|restart|follow|respect|honou?r|guarantee|validate|escape|check|close|flush|lock|block)\b|twice\b(?:ignores?|strips?|swallows?|truncates?|caches) (?:the|all|unused|any|empty|every|errors|its?)\b|runs? in utc|is utc\b|returns? \d{3} even|not .{2,30} time ?zone|without a time ?zone|by design|off by one|has to be (?:restarted|invalidated|rebuilt|run|installed|set|started|called|closed|flushed|regenerated)|needs? an? \d)"
    r"|^(?:if|unless|when|without)\b[^,.]{3,80}(?:,| )(?: ?the| ?it| ?you| ?we| ?\w+)?[^.]*\b(?:silently|fails?|breaks?|can't|cannot|won't|doesn't|don't|starts? in|falls? back|(?:is|are) lost|crash\w*|gets? \w+ed|ignored|default|hangs?|error|nothing happens|empty|stale|wrong)\b"
)
_HANDS_OFF = any_case(
    r"(?<=\w)(?:,|;| so| and| -) (?:so |please )*(?:don't|do not|never|nobody should) (?:ever )?(?:touch|change|edit|modify|delete|remove|rename|use|call|rely on) (?:it|them)[.!]?$"
)
_ONLY_NOW = any_case(
    r"^(?:if|when|unless) (?:that|this|it|you (?:run into|want|like|need|prefer|can't find))\b|\b(?:i (?:get|got|see|saw)|when i (?:click|run|try|open|press)|my (?:change|branch|test)s?|this (?:test|line|file|change|pr|function)|this (?:fix|ensures|prevents|means|way))\b"
)
_OPEN_SECTION = LazyPattern(r"next steps?|to-?do|remaining|follow-?up|left to do|tasks?\b|plan")
_PATTERN = any_case(
    r"\b(?:convention(?:s|ally)?|(?:the|this|same|existing|consistent) pattern|we (?:always|usually) |codebase (?:uses|follows|has)|project (?:uses|follows)|repo(?:sitory)? (?:uses|follows)|all (?:\w+ ){1,3}(?:use|follow|must|are|go|live)|every \w+ (?:uses|follows|must|has)"
    r"|idiomatic|(?:follow|follows|following) the \w+ (?:pattern|convention|style)|naming (?:convention|scheme)|is the (?:standard|canonical|preferred) way)\b|(?:관례|컨벤션|규칙은)"
)
_MOMENTARY = any_case(
    r"\b(?:test(?:s)? (?:pass|fail)|failing|passes|passing|currently (?:fail|on)|just now|right now|so far|commit [0-9a-f]{6,}|pr #?\d+|#\d+|the (?:diff|output|log)s? (?:show|say)|\d+ (?:tests|files|issues|errors|failures|passed))\b"
)

_FRAGMENT = any_case(r"^(?:then|first|next|finally|second|third|lastly|same|used|which|and|or|with)\b")

# An item of a review: what is wrong, and why.
_REVIEW_SECTION = LazyPattern(r"severity|\bissues?\b|\bfindings?\b|\bbugs?\b|\bproblems?\b")
_ISSUE = LazyPattern(r"^(?!#)[^-–—]{6,80}\s[-–—]\s\S")
_FINDING = any_case(
    r"^(?:found (?:it|the)|root cause|turns out|here's the|got it|aha|there it is|that's the)\b"
)


def gotchas(sentences: Sequence[Sentence]) -> Iterator[RuleCandidate]:
    """Yield warnings and patterns that the assistant found or the user knows, if they name their subject."""
    previous = ""
    for sentence in sentences:
        is_finding, previous = _FINDING.match(previous) is not None, sentence.text
        if sentence.aside or sentence.speculative:
            continue
        is_labelled = _LABEL.match(sentence.text) is not None
        text = clean_sentence(_LABEL.sub("", sentence.text))
        if announces(text) or is_hedged(text) or _MOMENTARY.search(text):
            continue
        if _is_warning(text, sentence, is_labelled=is_labelled):
            yield RuleCandidate(Kind.GOTCHA, text, sentence.line, 0.8)
            continue
        if (
            reports_work(text)
            or not count_names(text)
            or not stands_alone(text)
            or sentence.role == Role.USER
        ):
            continue
        if (
            sentence.bullet
            and sentence.closing
            and _REVIEW_SECTION.search(sentence.section)
            and _ISSUE.match(text)
        ):
            yield RuleCandidate(Kind.GOTCHA, text, sentence.line, 0.6)
        elif _PATTERN.search(text):
            yield RuleCandidate(Kind.PATTERN, text, sentence.line, 0.7 if sentence.closing else 0.55)
        elif is_labelled or _CUE.search(sentence.text):
            weight = 0.8 if is_labelled else 0.65 if sentence.closing or is_finding else 0.55
            yield RuleCandidate(Kind.GOTCHA, text, sentence.line, weight)


def _is_warning(text: str, sentence: Sentence, *, is_labelled: bool) -> bool:
    """Whether it is a warning that anybody would understand."""
    if (
        not (is_labelled or _WARNING.search(sentence.text) or _HANDS_OFF.search(text))
        or _ONLY_NOW.search(text)
        or reports_work(text)
    ):
        return False
    if sentence.role == Role.USER:
        statement = _HANDS_OFF.sub(".", text)  # "..., don't touch it" refers to what was named
        return (
            not is_question(sentence.text) and not is_momentary(statement) and stands_alone_loosely(statement)
        )
    return (
        sentence.closing
        and not _OPEN_SECTION.search(sentence.section)
        and not _PATTERN.search(text)
        and stands_alone_loosely(text)
    )
