"""Words that decide whether two sentences can mean the same."""

from __future__ import annotations

ARTICLES = frozenset("a an the is are please also really simply actually basically currently".split())
NEGATIONS = frozenset(
    """not never no none nothing nobody nowhere neither nor without cannot longer anymore hardly unless except
    nicht kein keine keinen nie niemals ohne ne pas jamais sans aucun aucune nunca sin jamás ningún ninguna não nem sem
    не нет никогда без नहीं 안 못 non""".split()
)
# Korean verb endings and the like: inside a word. Chinese and Japanese: as a character.
NEGATIONS_INSIDE = (
    "않",
    "없",
    "못하",
    "말고",
    "안되",
    "아니",
    "不",
    "没",
    "沒",
    "無",
    "无",
    "未",
    "非",
    "な",
)
FUNCTION_WORDS = frozenset(
    """we i you he she it they our my your his her its their us me them this these those be was were been will would can could
    should must may might do does did have has had of for to in on at with by from as and or but if when than then so now all every
    each any some more most only into over under via per during while after before since because until about""".split()
)
USE_VERBS = frozenset(
    """use run deploy write store keep host live listen work depend build test ship send call prefer like choose install
    target rely log read manage used""".split()
)
# Of what follows these there is one at a time: a host, an owner, a value.
SINGLE_VALUED = frozenset(
    """live lives run runs listen listens host hosted deployed point points work works owned maintained led set default defaults
    named called located based""".split()
)
# A phrase that begins so can stand at either end of its sentence.
ADJUNCT_STARTS = frozenset(
    """for in on at during when if since because while with within under via as per every each after before until once
    today yesterday tomorrow unless whenever where""".split()
)
# A thing has one of each: a new value takes the place of the old.
ATTRIBUTES = frozenset(
    """port version limit timeout name address owner lead maintainer editor theme default deadline budget manager branch region
    host hostname url domain password schedule title size threshold license licence timezone locale email phone status state price
    primary current preferred favourite favorite interval capacity quota model birthday age""".split()
)
NUMBER_WORDS = {
    word: str(value)
    for value, words in enumerate(
        "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen".split()
    )
    for word in (words,)
} | {
    "once": "1x",
    "twice": "2x",
    "thrice": "3x",
    "twenty": "20",
    "thirty": "30",
    "hundred": "100",
    "thousand": "1000",
}
DATE_WORDS = {
    word: names[0]
    for line in """monday mon|tuesday tue tues|wednesday wed|thursday thu thurs|friday fri|saturday|sunday|january jan|february feb
|march|april apr|may|june jun|july jul|august aug|september sep sept|october oct|november nov|december dec|today|tomorrow|yesterday
|tonight|weekday|weekend|weekly|daily|monthly|hourly|yearly|nightly|quarterly|annually|morning|afternoon|evening|noon|midnight|spring
|summer|autumn fall|winter|am|pm|월요일|화요일|수요일|목요일|금요일|토요일|일요일|오늘|내일|어제|매일|매주|매월|오전|오후""".replace(
        "\n", ""
    ).split("|")
    for names in (line.split(),)
    for word in (*names, *(name + "s" for name in names))
}
UNITS = {
    word: names[0]
    for line in """ms millisecond milliseconds|s sec secs second seconds|min mins minute minutes|h hr hrs hour hours|day days|week weeks
|month months|year years|kb kilobyte kilobytes|mb megabyte megabytes|gb gigabyte gigabytes|tb terabyte terabytes|kib|mib|gib|byte bytes
|bit bits|km kilometer kilometers kilometre kilometres|m meter meters metre metres|cm|mm|mile miles|kg|g gram grams|lb lbs|percent
|usd dollar dollars|eur euro euros|gbp|krw|jpy|px pixel pixels|hz|mhz|ghz|celsius|fahrenheit|rpm|qps|rps""".replace(
        "\n", ""
    ).split("|")
    for names in (line.split(),)
    for word in names
}
ALIASES = {
    "postgres": "postgresql",
    "db": "database",
    "repo": "repository",
    "config": "configuration",
    "k8s": "kubernetes",
    "utilize": "use",
    "utilise": "use",
    "utilizes": "use",
    "favourite": "favorite",
    "colour": "color",
    "doc": "documentation",
    "docs": "documentation",
    "app": "application",
    "dir": "directory",
    "has": "have",
    "does": "do",
}
CONTRACTIONS = {
    **{
        f"{verb}n't": (verb, "not")
        for verb in "is are was were do does did has have had would should could must need might".split()
    },
    "can't": ("can", "not"),
    "cannot": ("can", "not"),
    "won't": ("will", "not"),
    "shan't": ("shall", "not"),
    **{f"{who}'s": (who, "is") for who in "it that there he she what who here".split()},
    **{f"{who}'re": (who, "are") for who in "we you they".split()},
    **{f"{who}'ll": (who, "will") for who in "we you they i it he she".split()},
    **{f"{who}'ve": (who, "have") for who in "we you they i".split()},
    "i'm": ("i", "am"),
}
_ANTONYMS = """enable disable|enabled disabled|allow deny|allow forbid|allow block|allowed denied|allowed forbidden|before after|always never
|on off|true false|yes no|start stop|started stopped|open close|opened closed|open closed|add remove|added removed|include exclude
|included excluded|accept reject|accepted rejected|like dislike|love hate|prefer avoid|increase decrease|increased decreased|up down
|above below|over under|first last|minimum maximum|min max|least most|more less|more fewer|more few|high low|higher lower|fast slow|faster slower
|synchronous asynchronous|sync async|public private|internal external|upgrade downgrade|install uninstall|lock unlock|locked unlocked
|success failure|succeed fail|pass fail|passed failed|valid invalid|required optional|mandatory optional|safe unsafe|stable unstable
|mutable immutable|read write|input output|import export|push pull|client server|source target|left right|top bottom|front back
|inside outside|early late|earlier later|old new|light dark|hot cold|warm cold|big small|large small|long short|strong weak|good bad
|best worst|better worse|everything nothing|everyone nobody|all none|with without|ascending descending|asc desc|encrypt decrypt
|connect disconnect|show hide|visible hidden|grant revoke|local remote|online offline|manual automatic|manually automatically
|tabs spaces|tab space|buy sell|win lose|married divorced|hire fire|hired fired|active inactive|supported unsupported|known unknown
|possible impossible|necessary unnecessary|deprecated recommended|serial parallel|single multiple|upstream downstream|vertical horizontal
|positive negative|even odd|dev prod|development production|staging production|test production|ltr rtl|http https|morning evening
|right wrong|correct incorrect|agree disagree|approve reject|approved rejected|create delete|created deleted|keep drop|raise lower
|append prepend|sender receiver|parent child|primary secondary|primary replica|master slave|leader follower|permanent temporary
|켜 꺼|허용 금지|허용 차단|활성화 비활성화|추가 삭제|항상 절대|이전 이후|전 후|시작 종료|공개 비공개|성공 실패"""
_OPPOSITES = frozenset(frozenset(pair.split()) for pair in _ANTONYMS.replace("\n", "").split("|"))


def are_antonyms(one: str, two: str) -> bool:
    """Whether the two words are known to be opposites: enable and disable, before and after."""
    return (
        frozenset((one, two)) in _OPPOSITES
        or frozenset((one.removesuffix("s"), two.removesuffix("s"))) in _OPPOSITES
    )
