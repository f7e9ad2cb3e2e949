"""Passwords that are told in plain words: "use password ... for the staging db", "... is the password"."""

from __future__ import annotations

import re

from mindhold.text.credentials import (
    ALGORITHM,
    ASCII_PART,
    HARMLESS_VALUE,
    PLAIN_VALUE,
    RedactionRule,
    is_placeholder,
    is_quoted_secret,
    redaction_mark,
)
from mindhold.text.pattern import LazyPattern, any_case

KIND = "password"
_ENGLISH = "password|passwd|passphrase|passcode|pwd|(?<![a-z])pw"
_WESTERN = (
    rf"{_ENGLISH}|passwort|kennwort|mot de passe|contraseña|contrasena|(?<![a-z])clave|(?<![a-z])senha"
    r"|парол(?:ь|я|ем|ю)"
)
_EASTERN = "비밀번호|비번|암호|패스워드|パスワード|パスコード|暗証番号|密码|密碼|口令"
_BE = "is|was|be|becomes|will be|should be|ist|war|lautet|est|sera|es|era|será|é|будет|это"  # words between name and value
_FOR = "for|of|on|to|at|in|für|der|des|vom|von|zur|zum|de|du|pour|para|del|от|для|к|на|в"
_GAP = (
    rf"(?:(?:[ \t]+(?:{_FOR})(?:[ \t]+[^\s,;:.!?()\"'`]{{1,30}}){{1,5}}?)?"
    rf"(?P<told>[ \t]+(?:{_BE})(?:[ \t]+(?:now|jetzt|ahora))?:?[ \t]+|[ \t]*(?::|：|[ \t][—–-]|=)[ \t]*)|[ \t]+)"
)
_PARTICLE = r"(?P<told>[ \t]*(?:는|은|가|が|は|是|就是|为|為|[:：=])[ \t]*)|[ \t]*(?:를|을|を)?[ \t]*"
_VALUE = (
    r"(?:(?P<mark>[\"'`“‘])(?P<quoted>[^\"'`”’\n]{4,60})[\"'`”’]"
    r"|(?P<bare>[A-Za-z0-9!@#$%^&*][!#-&*+\--;=?-Z^_a-z|~]{3,60}))"
)

# What somebody does with a password that follows.
_USED = any_case(
    r"\b(?:us(?:e|es|ing)|tr(?:y|ied)|enter|typ(?:e|ing)|with|give|gave|have|pass|"
    r"benutz\w*|verwend\w*|nimm|nehm\w*|mit|versuch\w*|gib|utilis\w*|avec|essa\w+|mets|us[ao]r?|utiliza\w*|con|com|"
    r"prueba|pon|используй\w*|использу\w*|введи\w*|с|попробуй\w*)"
    r"(?:[ \t]+(?:the|this|that|my|our|new|old|same|admin|root|default|db|database|staging|test|das|dem|den|le|la|el|a|o))"
    r"{0,3}[ \t]+$"
)
_ENDS = LazyPattern(r"[ \t]*(?:$|[.,;!?)\]\n。、，！]|입니다|이에요|예요|이야|야|です|だ)")
_GOES_ON = any_case(r"[ \t]+(?:for|on|at|to|there|when)\b")
_UNIT = any_case(
    r"[ \t]?(?:char|byte|bit|time|attempt|iteration|round|digit|letter|day|hour|minute|second|zeichen|stellen|caract|символ|자"
    r"|글자|번|회|개|년|位|桁|文字|字|回|个|次|年)"
)
_NUMBERED = any_case(
    r"(?:step|phase|stage|field|page|rule|section|chapter|option|version|line|part|item|case|level|table|col|column|row|form"
    r"|input|user|figure|fig|appendix|todo|issue|task|pr|python|node|java|php|ruby|go|postgres(?:ql)?|mysql|redis|mongo|http|tls"
    r"|ssl|ipv|kerberos|ntlmv|wpa|win|windows|ubuntu|debian|web|mp|utf|iso|rfc|ec|es|rsa|aes|des|rc|blake|crypt|scrypt)-?\d+$"
)
_MEASURE = any_case(
    r"\d+(?:[-.]?(?:st|nd|rd|th|x|px|ms|s|m|h|d|k|kb|mb|gb|bit|byte|char|day|digit|hour|min|minute|month|year|letter|way|factor"
    r"|time)\w*)?$|\d{4}-\d\d-\d\d|\d+[.:]\d+"
)
_IDENTIFIER = LazyPattern(
    r"[A-Za-z]\w*_\w+$|[A-Za-z][\w-]*(?:\.[A-Za-z_][\w-]*)+(?:\(\))?$|[A-Z]{2,10}-\d+$|#\d+$|--?[a-z]"
)
_MIXED = LazyPattern(r"[a-z][A-Z]")
_ADDRESS = LazyPattern(r"[\w.+-]+@[\w-]+\.[A-Za-z]|[\w.-]+:\d+$|[\w.-]+/[\w./-]+$")
# Words of six letters and more that follow "password" or "password is" and aren't one.
_COMMON = any_case(
    r"\w*(?:ed|en|wn|ing|ly|[ai]ble|[inu]al|ic|ive|ous|ful|less|[ae]nt|[ao]ry|ate|ite|tion|sion|ment|[ae]nce|ity|ure|ship"
    r"|age|er|or|out|(?<!s)s|ss)$"
    r"|(?:again|attempt|backup|before|beyond|because|change|column|complex|config|cookie|encrypt|enough|exactly|expiry"
    r"|export|format|history|import|inside|instead|itself|lookup|method|middle|nobody|oneself|outside|people|please|plugin|prompt"
    r"|random|rather|really|refresh|request|return|rotate|safely|sample|screen|script|search|secret|server|simple|single|source"
    r"|string|submit|system|though|through|toggle|twice|unique|unlock|update|upgrade|verify|visible|wallet|widget|within|without"
    r"|default|public|private|static|optional|mandatory|unchanged|somewhere|elsewhere|anywhere|correct|because|service|template"
    r"|database|username|keychain|keyring|dialog|workflow|cracker|strength|length|checks?|unknown|unsafe|dummy|plaintext|cleartext)$"
)


def _is_password(value: str, *, told: bool, ends: bool, goes_on: bool, unit: bool) -> bool:
    """Whether a value beside the word is one. `told`: by "is" or by "use"; `ends`, `goes_on`, `unit`: by what follows it."""
    core = value.rstrip("!?")
    if is_placeholder(core) or any(
        pattern.match(core) for pattern in (HARMLESS_VALUE, PLAIN_VALUE, _NUMBERED, _IDENTIFIER, _ADDRESS)
    ):
        return False
    if ALGORITHM.search(core):
        return False
    if core.isdigit():
        return told and 4 <= len(core) <= 12 and not unit
    if _MEASURE.match(core):
        return False
    letters, digits = any(map(str.isalpha, core)), any(map(str.isdigit, core))
    symbols = any(character in "!@#$%^&*" for character in core[1:])
    if letters and digits:
        return len(core) >= 6
    if letters and symbols:
        return told and len(core) >= 6
    if core.count("-") >= 3:
        return told and ends
    word = len(core) >= 6 and core.isalpha() and (core.islower() or _MIXED.search(core) is not None)
    return word and (ends or goes_on) and _COMMON.match(core) is None


def _after(match: re.Match[str]) -> str | None:
    """The text with a mark in place of the value that follows the word, if it is a password."""
    told = match["told"] is not None
    used = _USED.search(match.string[max(0, match.start() - 48) : match.start()]) is not None
    following = match.string[match.end() : match.end() + 24]
    if match["quoted"] is not None:
        value, head, closing = match["quoted"], match["head"] + match["mark"], match["value"][-1]
        kept = (told or used) and is_quoted_secret(KIND, value) and _COMMON.match(value) is None
        kept = kept and not any(pattern.match(value) for pattern in (_NUMBERED, _IDENTIFIER, _ADDRESS))
        return f"{head}{redaction_mark(KIND)}{closing}" if kept and not ALGORITHM.search(value) else None
    part = ASCII_PART.match(match["bare"])
    if part is None or following[:1] in ("(", "[", "{", "/", "\\"):
        return None
    value, rest = part[0], match["bare"][part.end() :]
    ends = bool(rest) or _ENDS.match(following) is not None
    # A mere word may be one in English, and among letters of another script: other languages' adjectives aren't known.
    words = _MAY_BE_WORD.match(match["noun"]) is not None and (told or used)
    is_password = _is_password(
        value,
        told=told or used,
        ends=ends and words,
        goes_on=words and not told and _GOES_ON.match(following) is not None,
        unit=_UNIT.match(following) is not None,
    )
    return f"{match['head']}{redaction_mark(KIND)}{rest}" if is_password else None


def _before(match: re.Match[str]) -> str | None:
    """The text with a mark in place of the value that precedes "is the password", if it is one."""
    is_password = _is_password(match["value"], told=True, ends=False, goes_on=False, unit=False)
    return f"{redaction_mark(KIND)}{match['tail']}" if is_password else None


def _pair(match: re.Match[str]) -> str | None:
    """The text with a mark in place of the second of a name and a password."""
    part = ASCII_PART.match(match["bare"])
    if part is None or not _is_password(part[0], told=False, ends=False, goes_on=False, unit=False):
        return None
    return f"{match['head']}{redaction_mark(KIND)}{match['bare'][part.end() :]}"


_TRIGGERS = tuple(
    "password passwd passphrase passcode passe passwort pw kennwort contrase clave senha парол".split()
)
_EASTERN_TRIGGERS = tuple(_EASTERN.split("|"))
_MAY_BE_WORD = any_case(rf"(?:{_ENGLISH}|парол\w+|{_EASTERN})$")
_THE = r"(?:the|my|our|his|her|their|its|das|mein|unser|le|mon|notre|la|mi|nuestra|a|minha|это)"
_LAST = rf"(?:{_WESTERN})(?![\w-])(?![ \t]+[a-z]{{5,}}[ \t]*(?:[.,]|$))"
_BEFORE = (
    rf"(?<![^\s\"'`“‘(])(?P<value>[A-Za-z0-9][!#-&*+\--;=?-Z^_a-z|~]{{4,60}}?)"
    rf"(?P<tail>[\"'`”’]?(?:[ \t]+(?:is|was|as|ist|als|est|comme|es|como|é|[—–-])[ \t]+{_THE}[ \t]+(?:[\w-]+[ \t]+){{0,2}}?{_LAST}"
    rf"|[ \t]*(?:이|가|는|은|が|は|是)[ \t]*(?:[^\s\w][ \t]*)?(?:{_EASTERN})(?:야|이야|입니다|예요|이에요|이다|です|だ|$|[.,。!])))"
)
_USERS = r"admin|administrator|root|test|tester|demo|user|guest|postgres|sa|[\w.+-]+@[\w.-]+"
_PAIR = (
    r"(?P<head>(?:credentials?|creds|login)(?:[ \t]+(?:is|are|with|as|using))?:?[ \t]+"
    rf"(?:{_USERS})[ \t]?[/:][ \t]?)(?P<bare>[A-Za-z0-9][!#-&*+\--;=?-Z^_a-z|~]{{4,60}})"
)

PASSWORD_PHRASE_RULES: tuple[RedactionRule, ...] = (
    RedactionRule(
        KIND,
        _TRIGGERS,
        any_case(rf"(?P<head>(?P<noun>{_WESTERN}){_GAP})(?P<value>{_VALUE})"),
        _after,
    ),
    RedactionRule(
        KIND,
        _EASTERN_TRIGGERS,
        any_case(rf"(?P<head>(?P<noun>{_EASTERN})(?:{_PARTICLE}))(?P<value>{_VALUE})"),
        _after,
    ),
    RedactionRule(
        KIND,
        (*_TRIGGERS, *_EASTERN_TRIGGERS),
        any_case(_BEFORE),
        _before,
        LazyPattern(
            rf"[\w\"'`”’)][ \t]*(?:is|was|as|ist|als|est|comme|es|como|é|[—–-]|이|가|는|은|が|は|是)[ \t]*[^\n]{{0,40}}(?:{_WESTERN}|{_EASTERN})"
        ),
    ),
    RedactionRule(
        KIND,
        ("credential", "creds", "login"),
        any_case(_PAIR),
        _pair,
        LazyPattern(r"(?:credentials?|creds|login)[^\n]{1,60}[/:]"),
    ),
)
