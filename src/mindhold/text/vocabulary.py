"""Word lists for comparing sentences: negations, units, aliases, antonyms, opposites."""

from __future__ import annotations

from functools import cache

from mindhold.model.lexemes import lexemes

ARTICLES = frozenset("a an the is are please also really simply actually basically currently".split())
NEGATIONS = frozenset(
    """not never no none nothing nobody nowhere neither nor without cannot longer anymore hardly unless except
    nicht kein keine keinen nie niemals ohne ne pas jamais sans aucun aucune nunca sin jamás ningún ninguna não nem sem
    не нет никогда без नहीं 안 못 non""".split()
)
# Korean verb endings and the like, inside a word; Chinese and Japanese as a character.
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
# What follows one of these has one value at a time: a host, an owner.
SINGLE_VALUED = frozenset(
    """live lives run runs listen listens host hosted deployed point points work works owned maintained led set default defaults
    named called located based""".split()
)
# A phrase that starts with one of these can stand at either end of its sentence.
ADJUNCT_STARTS = frozenset(
    """for in on at during when if since because while with within under via as per every each after before until once
    today yesterday tomorrow unless whenever where""".split()
)
# A thing has one of each: a new value replaces the old one.
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
_ANTONYM_PAIRS = frozenset(frozenset(pair.split()) for pair in _ANTONYMS.replace("\n", "").split("|"))


def are_antonyms(left: str, right: str) -> bool:
    """Whether the two words are opposites: enable and disable, before and after."""
    return (
        frozenset((left, right)) in _ANTONYM_PAIRS
        or frozenset((left.removesuffix("s"), right.removesuffix("s"))) in _ANTONYM_PAIRS
    )


_ENGLISH_OPPOSITES = """enabled disabled|enable disable|allowed denied|allowed forbidden|allowed prohibited|allowed blocked|allow deny|allow forbid|allow block
|permitted forbidden|permitted prohibited|true false|on off|open closed|opened closed|opening closing|opens closes|public private
|accepted rejected|accept reject|accepts rejects|likes dislikes|like dislike|likes hates|like hate|loves hates|love hate|prefers avoids|prefer avoid
|active inactive|required optional|mandatory optional|supported unsupported|valid invalid|manual automatic|manually automatically
|synchronous asynchronous|sync async|encrypted unencrypted|increased decreased|increase decrease|increasing decreasing|passes fails
|passing failing|passed failed|succeeds fails|succeeded failed|successful unsuccessful|online offline|mutable immutable|safe unsafe|stable unstable
|tabs spaces|light dark|deprecated recommended|permanent temporary|fast slow|faster slower|quickly slowly|high low|higher lower
|married divorced|married single|alive dead|empty full|awake asleep|indoors outdoors|inside outside|sitting standing|standing lying|sitting lying
|visible hidden|shown hidden|locked unlocked|installed uninstalled|included excluded|connected disconnected|possible impossible
|necessary unnecessary|known unknown|correct incorrect|right wrong|agrees disagrees|agree disagree|approved rejected|wet dry|hot cold|warm cold
|clean dirty|loud quiet|loudly quietly|happy sad|happily sadly|old young|big small|large small|long short|tall short|early late|above below
|before after|start stop|starting stopping|starts stops|started stopped|lazy eager|ascending descending|horizontal vertical|even odd
|upper lower|uppercase lowercase|guilty innocent|rich poor|strong weak|cheap expensive|easy difficult|easy hard|near far|ascending descending
|rising falling|expanding shrinking|ascending descending|entering leaving|arriving leaving|arriving departing|adding removing|filling emptying
|sleeping awake|present absent|attended skipped|wins loses|won lost|winning losing|buys sells|buying selling|pushing pulling|lifting lowering
|everybody nobody|everyone nobody|everything nothing|all none|success failure|single-threaded multi-threaded|blocking non-blocking
|vegetarian carnivore|indoor outdoor|smooth rough|thick thin|straight curly|left right|male female|calm rough|tightening loosening
|wide narrow|deep shallow|noisy quiet|busy idle|running stopped|up down|mounted unmounted|signed unsigned|typed untyped"""
_KOREAN_OPPOSITES = """켜 끄|켜져 꺼져|켜짐 꺼짐|허용 금지|허용 차단|가능 불가능|가능 불가|활성화 비활성화|활성 비활성|공개 비공개|성공 실패|증가 감소|상승 하락
|필수 선택|필요 불필요|유료 무료|수동 자동|동기 비동기|합법 불법|찬성 반대|수락 거절|승인 거절|승인 반려|좋 나쁘|좋 싫|좋아하 싫어하|많 적|크 작|높 낮|길 짧|빠르 느리|빠르 늦
|쉽 어렵|가깝 멀|넓 좁|밝 어둡|깨끗 더럽|덥 춥|뜨겁 차갑|따뜻 춥|따뜻 쌀쌀|강하 약하|무겁 가볍|비싸 싸|비싸 저렴|열 닫|시작 종료|시작 끝|최고 최악|최대 최소|최초 마지막
|안전 위험|편리 불편|편하 불편|친절 불친절|만족 불만족|만족 실망|긍정 부정|있 없|맞 틀리|알 모르|이기 지|살 죽|흡연 금연|입장 퇴장|오르 내리|늘 줄|얇 두껍
|조용 시끄럽|한적 붐비|한산 붐비|새롭 낡|젊 늙|기쁘 슬프|행복 불행|합격 불합격|정확 부정확|안정 불안정|투명 불투명|완료 미완료|포함 제외|추천 비추천|확대 축소|강화 완화|찬 뜨거운|중단 지속|중단 계속|충분 부족|따로 함께|직전 직후|웃 울"""


@cache
def _english_opposites() -> frozenset[frozenset[str]]:
    pairs = (pair.split() for pair in _ENGLISH_OPPOSITES.replace("\n", "").split("|"))
    return frozenset(frozenset("".join(lexemes(word)) for word in pair) for pair in pairs)


@cache
def _korean_opposites() -> frozenset[frozenset[str]]:
    return frozenset(frozenset(pair.split()) for pair in _KOREAN_OPPOSITES.replace("\n", "").split("|"))


# Stems. They follow a subject: "Mina likes", "the gateway rejects".
OPPOSITE_VERBS = frozenset(
    """like dislik love hate accept reject allow deni forbid block prefer avoid enabl disabl pass fail succeed increas decreas open close
    start stop agre disagre includ exclud show hide win lose buy sell rise fall""".split()
)
_DIRECTIONS = frozenset("on off up down insid outsid left right befor after abov below".split())
_PREFIXES = ("un", "in", "im", "dis", "non", "non-", "ir")


def opposite(left: str, right: str) -> bool:
    """Whether the two stems exclude each other."""
    if frozenset((left, right)) in _english_opposites():
        return True
    longer, shorter = (left, right) if len(left) > len(right) else (right, left)
    return len(shorter) > 3 and any(longer == prefix + shorter for prefix in _PREFIXES)


def opposite_korean(left: str, right: str) -> bool:
    """Whether the two Korean stems exclude each other."""
    if frozenset((left, right)) in _korean_opposites():
        return True
    longer, shorter = (left, right) if len(left) > len(right) else (right, left)
    return len(shorter) > 1 and longer[:1] in "비불미무부" and longer[1:] == shorter


def are_directions(left: str, right: str) -> bool:
    """Whether both are directions, which are opposites only at the end: not in "walks up the street"."""
    return {left, right} <= _DIRECTIONS
