"""Words of which one thing can be only one at a time. Where they differ, what is said differs; unlike `wording`'s antonyms, they
don't merely tell two things apart."""

from __future__ import annotations

from functools import cache

from mindhold.model.lexemes import lexemes

_ENGLISH = """enabled disabled|enable disable|allowed denied|allowed forbidden|allowed prohibited|allowed blocked|allow deny|allow forbid|allow block
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
_KOREAN = """켜 끄|켜져 꺼져|켜짐 꺼짐|허용 금지|허용 차단|가능 불가능|가능 불가|활성화 비활성화|활성 비활성|공개 비공개|성공 실패|증가 감소|상승 하락
|필수 선택|필요 불필요|유료 무료|수동 자동|동기 비동기|합법 불법|찬성 반대|수락 거절|승인 거절|승인 반려|좋 나쁘|좋 싫|좋아하 싫어하|많 적|크 작|높 낮|길 짧|빠르 느리|빠르 늦
|쉽 어렵|가깝 멀|넓 좁|밝 어둡|깨끗 더럽|덥 춥|뜨겁 차갑|따뜻 춥|따뜻 쌀쌀|강하 약하|무겁 가볍|비싸 싸|비싸 저렴|열 닫|시작 종료|시작 끝|최고 최악|최대 최소|최초 마지막
|안전 위험|편리 불편|편하 불편|친절 불친절|만족 불만족|만족 실망|긍정 부정|있 없|맞 틀리|알 모르|이기 지|살 죽|흡연 금연|입장 퇴장|오르 내리|늘 줄|얇 두껍
|조용 시끄럽|한적 붐비|한산 붐비|새롭 낡|젊 늙|기쁘 슬프|행복 불행|합격 불합격|정확 부정확|안정 불안정|투명 불투명|완료 미완료|포함 제외|추천 비추천|확대 축소|강화 완화|찬 뜨거운|중단 지속|중단 계속|충분 부족|따로 함께|직전 직후|웃 울"""


@cache
def _english() -> frozenset[frozenset[str]]:
    pairs = (pair.split() for pair in _ENGLISH.replace("\n", "").split("|"))
    return frozenset(frozenset("".join(lexemes(word)) for word in pair) for pair in pairs)


@cache
def _korean() -> frozenset[frozenset[str]]:
    return frozenset(frozenset(pair.split()) for pair in _KOREAN.replace("\n", "").split("|"))


# Stems. Of a subject, not before one: "Mina likes", "the gateway rejects".
OPPOSITE_VERBS = frozenset(
    """like dislik love hate accept reject allow deni forbid block prefer avoid enabl disabl pass fail succeed increas decreas open close
    start stop agre disagre includ exclud show hide win lose buy sell rise fall""".split()
)
_DIRECTIONS = frozenset("on off up down insid outsid left right befor after abov below".split())
_PREFIXES = ("un", "in", "im", "dis", "non", "non-", "ir")


def opposite(one: str, two: str) -> bool:
    """Whether a thing that is the one isn't the other. Keys of statements: stems."""
    if frozenset((one, two)) in _english():
        return True
    longer, shorter = (one, two) if len(one) > len(two) else (two, one)
    return len(shorter) > 3 and any(longer == prefix + shorter for prefix in _PREFIXES)


def opposite_korean(one: str, two: str) -> bool:
    """The same of Korean stems."""
    if frozenset((one, two)) in _korean():
        return True
    longer, shorter = (one, two) if len(one) > len(two) else (two, one)
    return len(shorter) > 1 and longer[:1] in "비불미무부" and longer[1:] == shorter


def are_directions(one: str, two: str) -> bool:
    """ "walks up the street": opposites only where nothing follows."""
    return {one, two} <= _DIRECTIONS
