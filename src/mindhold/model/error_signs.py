"""Extracts the characteristic lines of a failure in a form that doesn't depend on the day or the machine."""

from __future__ import annotations

TYPE_CHECKING = False

if TYPE_CHECKING:
    import re


MOST_SIGNS = 5
LONGEST_SIGN = 160
HEAD, TAIL = 6_000, 12_000  # characters at the start and the end of the text to search
LONGEST_LINE = 600
FEWEST_LETTERS = 6  # letters that a sign needs

# What precedes the message in a line: times, levels, gutters, names of steps and services.
_PREFIX = (
    r"^(?:[\s│|>×✖✗✘⨯❌●•└├─╰╭■*]+"
    r"|\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\S*\]?|\[?\d\d:\d\d:\d\d(?:[.,]\d+)?\]?|#\d+ \d+\.\d+"
    r"|E(?=\s{2,})|\[(?:ERROR|error|FATAL|fatal)\]|(?:ERROR|FATAL)(?=\s+(?:\[|[\w.]+\.\w+\s+-))|Uncaught\b(?! exception)|Caused by:"
    r"|Unhandled(?: promise)? rejection:?|Exception in thread \"[^\"]*\"|(?:PHP )?Fatal error:\s+Uncaught"
    r"|stderr:|remote:)\s*"
)
# Forms of failure messages, tried in order; `sign` is the part to keep. A sign of a lower rank says more.
_FORMS = (
    # tests
    (3, r"^(?P<sign>(?:FAILED|ERROR) \S+(?:::\S+)+)"),
    (3, r"^(?P<sign>FAIL:? +\S+\.\w{1,4}\b.*)"),
    (3, r"^(?P<sign>--- FAIL: \S+)"),
    (3, r"^test (?P<sign>\S+ \.\.\. FAILED)$"),
    # the error's name and its message, as SomeError or pkg.mod.SomeException or Error [ERR_X]
    (
        0,
        r"^(?P<sign>(?:[A-Za-z_$][\w$]*(?:\.|::|\\))*(?:[A-Z][\w$]*)?(?:Error|Exception|Fault|Panic)(?: \[\w+\])?:\s+\S.*)",
    ),
    # an error's name alone, if it is specific
    (1, r"^(?P<sign>(?:[A-Za-z_$][\w$]*\.)*(?:[A-Z][a-z0-9]+){2,}(?:Error|Exception))$"),
    # in the middle of a line
    (0, r"(?:^|[\s(\"'`])(?P<sign>(?:[A-Za-z_$][\w$]*\.)*[A-Z][\w$]+(?:Error|Exception):\s+\S.*)"),
    (1, r"^(?P<sign>[A-Z][\w ]{2,40}: Error: \S.*)"),
    # the name in brackets, before the message or after it
    (0, r"^(?:\*\* )?(?P<sign>\([A-Z]\w*(?:Error|Exception)\) \S.*)"),
    (0, r"in [`'][^`']*':\s*(?P<sign>\S.*\([A-Z]\w*(?:Error|Exception)\))$"),
    # compilers and checkers: error[E0277]: message; file:line:col: message
    (0, r"(?:^|\s)(?P<sign>(?:fatal )?error(?:\[\w+\]| [A-Z]{1,6}\d{2,6}):\s+\S.*)"),
    (
        1,
        r"^\S+\.\w{1,5}(?::\d+(?::\d+)?:|\(\d+(?:,\d+)?\):|:\d+:\d+ -)\s+(?P<checked>(?:(?:fatal )?error:\s+)?[\w`'\"(].*)",
    ),
    (1, r"^\d+:\d+\s+(?P<sign>error\s+\S.*)"),
    # tools
    (1, r"^npm (?:ERR!|error) (?P<sign>(?:code [A-Z]\w+|Missing script:?.*))"),
    (
        1,
        r"(?:^|\s)(?P<sign>(?:ERR_(?!PNPM_RECURSIVE)[A-Z_]{4,}|E(?:ADDRINUSE|CONNREFUSED|CONNRESET|TIMEDOUT|ACCES|NOENT|PERM"
        r"|RESOLVE|MFILE|NOSPC|NOTFOUND|PROTO))\b.*)",
    ),
    (1, r"^(?P<sign>(?:fatal|panic|FATAL|CONFLICT \([^)]+\)|Fatal error): ?\S.*)"),
    (0, r"^thread '[^']*'(?: \(\d+\))? panicked at (?:'(?P<quoted>[^']+)', )?\S+:\d+:\d+:?\s*(?P<sign>.*)"),
    (1, r"\b(?:error|err)=\"?(?P<sign>[A-Za-z][^\"]{9,})"),
    (2, r"^(?:[\w.-]+: )?(?P<sign>(?:E|e|ERROR|Error|error)(?: from server)?(?: \(\w+\))?: \S.*)"),
    (1, r"^(?:\S*sh: )?(?:line \d+: |\d+: )?(?P<missing>[\w.@/+-]+): (?:command )?not found$"),
    (1, r"^(?:\S*sh: )?command not found: (?P<missing>\S+)"),
    (1, r"^['\"`]?(?P<missing>[^\s'\"`]+)['\"`]? (?:: The term .* )?is not recognized as .*"),
    (
        2,
        r"^(?:\S*sh: )?(?:line \d+: |\d+: )?"
        r"(?P<sign>[^\s:]+: .*(?:No such file or directory|Permission denied|Is a directory|Operation not permitted))",
    ),
    # a variable that the environment lacks
    (
        1,
        r"(?:^|[\s:'\"`])(?P<sign>(?:[Ee]nvironment variable )?['\"`]?\$?[A-Z][A-Z0-9]*_[A-Z0-9_]+['\"`]? (?:is|was|must be|has to be|needs to be) (?:not set|unset|not defined|undefined|missing|required|empty|set)\b.*)",
    ),
    (1, r"(?P<sign>undefined reference to .*|[Ss]egmentation fault|[Oo]ut of memory)"),
)
# Lines that many failures share, and messages of the agent's own tools.
_UNSPECIFIC = (
    r"exit(?:ed)?(?: with)?(?: (?:status|code))*:? ?-?#|returned (?:a )?non-zero|command failed|lifecycle|elifecycle|process completed"
    r"|previous errors?\b|could not compile|recipe\b.*failed|\btarget\b.*failed|build failed|^errors?: (?:#|failed|none)\b"
    r"|aborting|found # errors?|# (?:errors?|failed|problems?)(?:,|\)|$| in\b)|test run failed|tests? failed$|see (?:above|log)|complete log"
    r"|string to replace|has not been read|file does not exist|doesn't want to|user rejected|request interrupted|has been modified since"
    r"|content \(.*exceeds|matches of the string|no changes to make|old_string|inputvalidationerror|permission to use|was blocked|sibling tool call"
    r"|cancelled|execution failed$|^error: (?:should be|should not|not equal|expected|received)|^error:? trace"
)
_GENERIC = (
    "error exception assertionerror runtimeerror valueerror typeerror keyerror indexerror attributeerror oserror ioerror "
    "nameerror syntaxerror referenceerror rangeerror nullpointerexception illegalargumentexception calledprocesserror "
    "illegalstateexception runtimeexception notimplementederror aggregateerror keyboardinterrupt"
).split()
# What differs between days and machines, and its replacement.
_VARIABLE_PARTS = (
    (r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07]*\x07", ""),
    (r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", "#"),
    (r"\bfile://", ""),
    # A path, except for its last part.
    (r"(\b[a-z][a-z0-9+.-]*://)?(?:[A-Za-z]:)?(?:[\w.@~+-]*[\\/])+(?=[\w.@~+-])", r"\1"),
    (r"(?<=\.)(\w{1,5})(?::\d+(?::\d+)?|\(\d+(?:,\d+)?\))(?=\W|$)", r"\1"),  # x.py:12:3
    (r",? ?(?:at |on |in )?\bline \d+(?:,? col(?:umn)? \d+)?", ""),
    (r"\b0x[0-9a-fA-F]+\b", "#"),
    (r"\btmp[\w-]{4,}", "tmp#"),
    (r"\b(?=[a-f]*\d)[0-9a-f]{7,64}\b", "#"),
    (r"\b\d+(?:\.\d+)?\s?(?:ns|µs|ms|s|sec|secs|seconds?|minutes?|min|m|h|[KMG]i?B|bytes)\b", "#"),
    (r"(?<!status )(?<!status code )(?<!HTTP )(?<![\w.#-])-?\d[\d,]*(?:\.\d+)*\b(?![\w-])", "#"),
    (r"[\"'`‘’“”]", ""),
    (r"\(#\)|\s+\.{3}$", ""),
    (r"\s+", " "),
)
_TEST_FILE = r"^\S*(?:_test|\.test|\.spec|/test_|^test_)[\w.]*[:(]"
_WRONG = r"(?i)\b(?:expect\w*|got|want|wanted|error|err|fail\w*|should|must|cannot|can't|undefined|not|unexpected|mismatch|invalid|nil|null|none|panic|time[d ]?out|missing|unused|unknown|no)\b"
_COLUMN = r"^\S+?(?::\d+:\d+|\(\d+,\d+\))"
_PANIC = r"(?<=:)\n(?=called |[A-Za-z])(?<=\d:\n)"  # a panic's message is on the next line
_SENTENCE_END = r"(?<=[a-z0-9)])[.;] (?=[A-Z])|\. ?$"

_compiled: dict[str, re.Pattern[str]] = {}


def error_signs(text: str) -> tuple[str, ...]:
    """The characteristic lines of a tool's failure output, most specific first; empty if no line identifies the failure.

    Two failures that share a sign are the same failure.
    """
    if len(text) > HEAD + TAIL:
        text = f"{text[:HEAD]}\n{text[-TAIL:]}"
    ranks: dict[str, int] = {}
    for line in _pattern(_PANIC).sub(" ", _normalize(text, 0, 1)).splitlines():
        message = _find_message(line)
        if message is not None:
            sign = _message_sign(message[1])
            if sign and sign not in ranks:
                ranks[sign] = message[0]
    return tuple(sorted(ranks, key=lambda sign: ranks[sign])[:MOST_SIGNS])


def sign_of(line: str) -> str:
    """One line in the form of a sign, whether or not it reports a failure; empty if nothing remains."""
    return (
        _normalize(line[:LONGEST_LINE], 0, len(_VARIABLE_PARTS)).strip(" :,;-")[:LONGEST_SIGN].strip().lower()
    )


def _find_message(line: str) -> tuple[int, str] | None:
    """The rank of the line's form, and its message; None if it reports no failure."""
    line = line[:LONGEST_LINE].strip()
    if len(line) < FEWEST_LETTERS:
        return None
    while prefix := _pattern(_PREFIX).match(line):
        line = line[prefix.end() :]
    for rank, form in _FORMS:
        if match := _pattern(form).search(line):
            parts = match.groupdict()
            if message := parts.get("checked"):  # test logs have the same form, but no column
                certain = _pattern(_COLUMN).match(line) and not _pattern(_TEST_FILE).match(line)
                return (rank, message) if certain or _pattern(_WRONG).search(message) else None
            if parts.get("missing"):
                return rank, f"command not found: {parts['missing']}"
            return rank, f"panic: {parts['quoted'] or parts['sign']}" if "quoted" in parts else parts["sign"]
    return None


def _message_sign(text: str) -> str:
    sentence = _pattern(_SENTENCE_END).split(text, maxsplit=1)[0]
    sign = sign_of(sentence)
    if sum(map(str.isalpha, sign)) < FEWEST_LETTERS or _pattern(_UNSPECIFIC).search(sign):
        return ""
    words = sign.split()
    if sum("#" in word for word in words) * 2 >= len(words):
        return ""
    name, _, message = sign.partition(":")
    if name.rpartition(".")[2] in _GENERIC and not any(map(str.isalpha, message)):
        return ""
    # The values of an assertion say less than the test's name.
    return "" if sign.startswith("assertionerror: assert ") else sign


def _normalize(text: str, first: int, last: int) -> str:
    for pattern, replacement in _VARIABLE_PARTS[first:last]:
        text = _pattern(pattern).sub(replacement, text)
    return text


def _pattern(source: str) -> re.Pattern[str]:
    compiled = _compiled.get(source)
    if compiled is None:
        import re

        compiled = _compiled[source] = re.compile(source)
    return compiled
