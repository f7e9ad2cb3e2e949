"""Personal data in text: addresses, numbers of cards and accounts, telephone numbers, identity documents."""

from __future__ import annotations

import re
from datetime import date

from mindhold.text.credentials import RedactionRule, redaction_mark
from mindhold.text.pattern import LazyPattern

_FILE_ENDINGS = frozenset(
    "png jpg jpeg gif svg webp ico tgz gz zip js mjs cjs ts css scss json map html xml yaml yml toml txt md".split()
)
# Lengths of an IBAN by country.
_IBAN_LENGTHS = {
    **dict.fromkeys(("NO",), 15),
    **dict.fromkeys(("BE",), 16),
    **dict.fromkeys(("DK", "FI", "NL", "FO", "GL"), 18),
    **dict.fromkeys(("MK", "SI"), 19),
    **dict.fromkeys(("AT", "BA", "EE", "KZ", "LT", "LU", "XK"), 20),
    **dict.fromkeys(("CH", "CR", "HR", "LI", "LV"), 21),
    **dict.fromkeys(("BG", "BH", "DE", "GB", "GE", "IE", "ME", "RS"), 22),
    **dict.fromkeys(("AE", "GI", "IL", "TL"), 23),
    **dict.fromkeys(("AD", "CZ", "ES", "MD", "PK", "RO", "SA", "SE", "SK", "TN", "VG"), 24),
    **dict.fromkeys(("PT", "ST"), 25),
    **dict.fromkeys(("IS", "TR"), 26),
    **dict.fromkeys(("FR", "GR", "IT", "MC", "MR", "SM"), 27),
    **dict.fromkeys(("AL", "AZ", "CY", "DO", "GT", "HU", "LB", "PL", "SV", "BY"), 28),
    **dict.fromkeys(("BR", "PS", "QA", "UA"), 29),
    **dict.fromkeys(("JO", "KW", "MU"), 30),
    **dict.fromkeys(("MT", "SC"), 31),
}
_DIGIT_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def passes_luhn(digits: str) -> bool:
    """Whether the digits end in the check digit that payment cards carry."""
    total = 0
    for place, char in enumerate(reversed(digits)):
        value = int(char) * (2 if place % 2 else 1)
        total += value - 9 if value > 9 else value
    return total % 10 == 0


def is_valid_iban(compact: str) -> bool:
    """Whether country, length and the mod 97 check agree."""
    if _IBAN_LENGTHS.get(compact[:2]) != len(compact):
        return False
    rotated = compact[4:] + compact[:4]
    return int("".join(str(_DIGIT_ALPHABET.index(char)) for char in rotated)) % 97 == 1


def _email(match: re.Match[str]) -> str | None:
    labels = match["domain"].lower().split(".")
    is_file = labels[-1] in _FILE_ENDINGS and labels[0][:1].isdigit()  # icon@2x.png, lodash@4.17.21.tgz
    is_remote = match["local"] == "git" and match.string[match.end() : match.end() + 1] in (":", "/")
    return None if is_file or is_remote else redaction_mark("email")


def _card(match: re.Match[str]) -> str | None:
    digits = re.sub(r"\D", "", match[0])
    return redaction_mark("payment-card") if passes_luhn(digits) and len(set(digits)) > 1 else None


def _iban(match: re.Match[str]) -> str | None:
    # Words in capitals may follow the number: read as many characters as the country's IBANs have.
    text = match[0]
    length = _IBAN_LENGTHS.get(text[:2], 0)
    length_read = end = 0
    while end < len(text) and length_read < length:
        length_read += text[end] not in " -"
        end += 1
    compact = re.sub("[ -]", "", text[:end])
    whole = end == len(text) or text[end] in " -"
    return redaction_mark("iban") + text[end:] if whole and is_valid_iban(compact) else None


def _resident(match: re.Match[str]) -> str | None:
    birth_date, rest = match.groups()
    century = 1900 if rest[0] in "1256" else 2000
    try:
        date(century + int(birth_date[:2]), int(birth_date[2:4]), int(birth_date[4:]))
    except ValueError:
        return None
    return redaction_mark("kr-resident-number")


def _phone(match: re.Match[str]) -> str | None:
    digits = sum(char.isdigit() for char in match[0])
    return redaction_mark("phone") if 8 <= digits <= 15 else None


def _plus_phone(match: re.Match[str]) -> str | None:
    digits = sum(char.isdigit() for char in match[0])
    separated = len(match[0]) > digits + 1
    return redaction_mark("phone") if (8 if separated else 10) <= digits <= 15 else None


def _labelled_phone(match: re.Match[str]) -> str | None:
    number = match["number"]
    digits = sum(char.isdigit() for char in number)
    if not 7 <= digits <= 15 or re.match(r"\d{4}-\d\d-\d\d\b|\d{1,3}(?:\.\d{1,3}){3}\b", number):
        return None
    return match["label"] + redaction_mark("phone")


def _passport(match: re.Match[str]) -> str:
    return match[1] + redaction_mark("passport")


_NOT_INSIDE = r"(?<![\w#+=./:-])"
_NOT_FOLLOWED = r"(?![\w-]|[.:/]\d)"
_EMAIL = (
    r"(?<![A-Za-z0-9._%+/-])(?P<local>[A-Za-z0-9][A-Za-z0-9._%+'-]{0,63})@"
    r"(?P<domain>(?:[A-Za-z0-9-]{1,63}\.){1,8}[A-Za-z]{2,24})(?![A-Za-z0-9-])"
)
_CARD = (
    r"(?:4\d{3}|5[1-5]\d\d|2[2-7]\d\d|6(?:011|4[4-9]\d|5\d\d)|35\d\d)(?:([ -]?)\d{4})(?:\1\d{4}){2}"
    r"|3[47]\d\d([ -]?)\d{6}\2\d{5}|3(?:0[0-5]|[68]\d)\d([ -])\d{6}\3\d{4}"
)
_IBAN = r"(?<![A-Za-z0-9])[A-Z]{2}\d{2}(?:[ -]?[A-Z0-9]{1,4}){3,9}(?![A-Za-z0-9])"
_PLUS_PHONE = (
    r"(?<![\w+.])(?:\+|00(?=[1-9]\d[ -]))[1-9]\d{0,2}[ .-]?(?:\(\d{1,4}\)[ .-]?)?\d{1,12}(?:[ .-]\d{2,8}){0,5}"
    + (r"(?!\d|[.:]\d)")
)
_NATIONAL_PHONE = "|".join(
    (
        r"(?:1[ .-])?\([2-9]\d\d\) ?[2-9]\d\d[ .-]\d{4}",  # North America
        r"(?:1-)?[2-9]\d\d-[2-9]\d\d-\d{4}",
        r"[2-9]\d\d\.[2-9]\d\d\.\d{4}",
        r"0\d{1,3}-\d{3,4}-\d{4}",  # Korea, Japan
        r"01\d[ .]\d{3,4}[ .]\d{4}",
        r"0\d(?: \d\d){4}|0\d(?:\.\d\d){4}",  # France
        r"0\d{2} \d{4} \d{4}|07\d{3} ?\d{6}|01\d{3} \d{6}",  # United Kingdom
        r"\(0\d{1,4}\) ?\d{3,4}[ -]?\d{3,5}",
        r"\(\d\d\) ?9\d{4}-\d{4}",  # Brazil
        r"1[3-9]\d[ -]\d{4}[ -]\d{4}",  # China
    )
)
_LABELS = (
    r"phone(?: number)?|telephone|tel|mobile|cell|whatsapp|call|sms|fax|전화(?:번호)?|휴대폰|핸드폰|연락처|電話(?:番号)?|携帯|电话|手机(?:号)?"
    r"|teléfono|telefon|téléphone|telefone|celular|móvil|handy|телефон"
)
_LABELLED_PHONE = (
    rf"(?P<label>(?<![a-z])(?:{_LABELS})[ .:：=#]{{0,3}}(?:is |at |me at |는 |은 |は|是|me on )?)"
    r"(?P<number>(?:\+|\()?\d[\d ().-]{5,20}\d)(?![\d.:]\d|\w)"
)
_PASSPORT_WORDS = "passport|여권|旅券|パスポート|护照|護照|pasaporte|passeport|reisepass|passaporte"
_PASSPORT = (
    rf"((?:{_PASSPORT_WORDS})"
    r"[^\n\d]{0,24}?(?<![A-Za-z0-9]))(?-i:[A-Z]{1,2}\d{6,8}|\d{9}|[A-Z]\d{3}[A-Z]\d{4})(?![A-Za-z0-9])"
)

WORD_RULES: tuple[RedactionRule, ...] = (
    RedactionRule("email", ("@",), LazyPattern(_EMAIL), _email),
    RedactionRule(
        "passport", tuple(_PASSPORT_WORDS.split("|")), LazyPattern(_PASSPORT, re.IGNORECASE), _passport
    ),
)
IBAN_RULE = RedactionRule("iban", (), LazyPattern(_IBAN), _iban)

# All of these need MANY_DIGITS: redact() checks that first.
NUMBER_RULES: tuple[RedactionRule, ...] = (
    RedactionRule(
        "payment-card", (), LazyPattern(rf"{_NOT_INSIDE}(?:{_CARD}){_NOT_FOLLOWED}", re.ASCII), _card
    ),
    RedactionRule(
        "us-ssn",
        (),
        LazyPattern(
            rf"{_NOT_INSIDE}(?!000|666|9)\d{{3}}-(?!00)\d\d-(?!0000)\d{{4}}{_NOT_FOLLOWED}", re.ASCII
        ),
    ),
    RedactionRule(
        "kr-resident-number", (), LazyPattern(r"(?<![\w-])(\d{6})-([1-8]\d{6})(?![\w-])", re.ASCII), _resident
    ),
    RedactionRule("phone", (), LazyPattern(_PLUS_PHONE, re.ASCII), _plus_phone),
    RedactionRule(
        "phone", (), LazyPattern(rf"{_NOT_INSIDE}(?:{_NATIONAL_PHONE}){_NOT_FOLLOWED}", re.ASCII), _phone
    ),
    RedactionRule("phone", (), LazyPattern(_LABELLED_PHONE, re.IGNORECASE | re.ASCII), _labelled_phone),
)
# Seven digits with only the usual separators between them, not inside a word or hash, not an ISO date.
# Both patterns start with a character class, which makes the search quick.
MANY_DIGITS = LazyPattern(r"\d(?<![A-Za-z0-9_]\d)(?!\d{3}-\d\d-\d\d(?!\d))(?:[ .()-]{0,2}\d){6}", re.ASCII)
IBAN_START = LazyPattern(r"[A-Z][A-Z]\d\d[ -]?[A-Z0-9]{4}", re.ASCII)
