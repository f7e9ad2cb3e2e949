"""Detects text that tries to instruct its reader, in seven languages."""

from __future__ import annotations

import base64
import binascii
import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass

from mindhold.text.pattern import LazyPattern


@dataclass(frozen=True, slots=True)
class InjectionSign:
    """A pattern that suggests an instruction; it is tried only where one of `triggers` occurs."""

    reason: str
    weight: float
    triggers: tuple[str, ...]
    pattern: LazyPattern


def _sign(reason: str, weight: float, triggers: str) -> Callable[[str], InjectionSign]:
    """The head of a row; the call of its result adds the pattern."""

    def matching(pattern: str) -> InjectionSign:
        return InjectionSign(reason, weight, tuple(triggers.split(";")), LazyPattern(pattern, re.MULTILINE))

    return matching


_DROP = r"(?:ignor(?:e|ing)|disregard(?:ing)?|forget|override|discard|(?:do not|don't|stop) (?:follow|obey)(?:ing)?)"
_EARLIER = r"(?:previous|prior|above|earlier|preceding|foregoing|former)"
_WHOSE = r"(?:(?:all|any|every|each|of|the|your|my|these|those|other|and) ){0,5}"
_MIND = r"(?:ai|llm|a\.i\.|language model|assistant|chatbot|bot|agent)"
_KEYWORDS = (
    r"(?:secrets?|passwords?|credentials?|api[ _-]?keys?|access tokens?|tokens?|ssh keys?|private keys?|environment variables|env vars?"
    r"|\.env|chat history|conversation|(?:all|the user'?s?|your|entire|any) (?:\w+ ){0,2}(?:data|files?|memor(?:y|ies)|contents?|messages))"
)

# Patterns match folded text: lower case, NFKC, single spaces inside lines, no invisible characters.
INJECTION_SIGNS: tuple[InjectionSign, ...] = (
    _sign("override", 0.8, "instruction;prompt;directi;guideline")(
        rf"\b{_DROP} {_WHOSE}(?:{_EARLIER}|system|initial|original|safety)(?: (?:system|user|safety|developer|chat|or|and|{_EARLIER})){{0,3}}"
        r" (?:instructions?|prompts?|directives?|directions?|guidelines?)\b"
    ),
    _sign("override", 0.7, "ignor;disregard;forget;overrid;discard;not follow;n't follow;stop follow;obey")(
        rf"\b{_DROP} (?:(?:all|everything) (?:of )?(?:the |your |my )?{_EARLIER}(?! \w+ing)(?: (?:rules|context|messages|commands|constraints|text|conversation)|\W|$)"
        rf"|everything (?:that )?(?:you (?:were|have been|know|'ve)|i said|said|written|before this)"
        r"|(?:all |any )?(?:of )?your (?:\w+ )?(?:instructions|guidelines|rules|programming|training|restrictions|constraints|prompt))"
    ),
    _sign(
        "persona",
        0.6,
        "you are now;you're now;from now on;act as;do anything now;dan mode;developer mode;god mode",
    )(
        r"\byou(?: are|'re) now (?:(?:a|an|the|my|in|acting as|called|known as) )?(?:[\w-]+ ){0,2}"
        r"(?:dan|unrestricted|jailbroken|unfiltered|uncensored|evil|hacker|assistant|ai|chatbot|persona|developer mode|god mode|debug mode|root mode"
        r"|free (?:from|of) (?:all|any|your|the)? ?\w*)\b|\bdo anything now\b|\b(?:dan|developer|god) mode (?:is )?(?:enabled|activated|on)\b"
        r"|\b(?:act|respond|behave) as (?:an? )?(?:unrestricted|unfiltered|uncensored|jailbroken|evil)"
    ),
    _sign("persona", 0.3, "pretend;from now on")(
        r"\bpretend (?:to be|that you|you are|you're)\b|\bfrom now on,? you (?:will|are|must|only)\b"
    ),
    _sign("prompt-theft", 0.7, "prompt;instruction;above")(
        r"\b(?:reveal|print|show|repeat|output|display|leak|tell|give|dump|disclose|share|write out|what (?:is|are|was|were))\b[^.\n]{0,30}"
        r"\byour (?:\w+ ){0,3}(?:system prompt|instructions|initial prompt|hidden prompt|system message|prompt)\b"
        r"|\brepeat (?:the words|everything|all (?:the )?text) above\b"
    ),
    _sign("prompt-theft", 0.45, "system prompt")(
        r"\b(?:reveal|repeat|leak|dump|disclose)\b[^.\n]{0,20}\bthe (?:\w+ )?system prompt\b"
    ),
    _sign(
        "role-tag",
        0.6,
        "<sys;</sys;<assist;</assist;<<;[inst;[/inst;[sys;[/sys;##;im_start;im_end;endoftext;eot_id;header_id;of_text;system|>;user|>;assistant|>",
    )(
        r"<\|(?:im_start|im_end|system|user|assistant|endoftext|eot_id|start_header_id|end_header_id|begin_of_text)\|>"
        r"|<</?sys>>|\[/?inst\]|(?<!\w)\[/?system(?: (?:message|prompt))?\]|</?(?:system|assistant|sys)(?:[ _-]?(?:prompt|message|reminder|instructions?))?>"
        r"|^#{2,4} ?(?:system(?: (?:prompt|message))?|new instructions?|instructions?|assistant) ?:"
    ),
    _sign("role-tag", 0.55, "system;developer;admin")(
        r"^\W{0,3}(?:system|developer|admin(?:istrator)?)(?: (?:message|override|notice|prompt))?\W{0,3}: ?(?:you (?:are|must|will|should)|ignore|disregard|forget|override|new instructions?|from now on)"
        r"|^\W{0,3}system (?:override|message to (?:the )?(?:assistant|ai|model))\b"
    ),
    _sign("fake-turns", 0.55, "human:")(
        r"^\s*human ?:[\s\S]{0,2000}?^\s*(?:assistant|ai) ?:|^\s*(?:assistant|ai) ?:[\s\S]{0,2000}?^\s*human ?:"
    ),
    _sign("fake-turns", 0.3, "user:")(
        r"^\s*user ?:[\s\S]{0,2000}?^\s*assistant ?:|^\s*assistant ?:[\s\S]{0,2000}?^\s*user ?:"
    ),
    _sign("tool-call", 0.6, "tool_;function_;<invoke;<parameter;<antml;[tool")(
        r"</?(?:antml:)?(?:tool_calls?|tool_use|tool_result|tool_response|function_calls?|function_results?)\b[^>\n]{0,120}>"
        r"|<(?:antml:)?(?:invoke|parameter) name ?=|\[tool_calls?\]|\"tool_calls\" ?: ?\[ ?\{|\"type\" ?: ?\"tool_use\""
    ),
    _sign("secrecy", 0.55, "user;human;anyone")(
        r"\b(?:do not|don't|never|without) (?:ever )?(?:tell|inform|mention|notify|alert|warn|disclose|reveal|report)(?:ing)? "
        r"(?:(?:any of )?(?:this|it|that) )?(?:to )?(?:the |any |your )?(?:users?|humans?|anyone|operator)"
        r"(?: (?:about|of) (?:this|it|these|what)| (?:that|what) you| you(?: are|'re| did)|\W*$|[.!])"
    ),
    _sign("secrecy", 0.5, "secret;hidden;quiet;silent")(
        r"\bkeep (?:this|it) (?:a )?(?:secret|hidden|quiet) from (?:the )?(?:user|human|operator)"
    ),
    _sign("exfiltration", 0.65, "http;www.;@;my webhook;my server;external;redacted:")(
        rf"\b(?:send|post|upload|forward|exfiltrate|transmit|leak|e?mail|submit|append|encode)\b[^.\n]{{0,60}}?\b{_KEYWORDS}[^\n]{{0,60}}?"
        r"\b(?:to|at|into|in) (?:the (?:url|address|server|webhook|endpoint)(?: at)? )?(?:https?://|www\.|[\w.+-]+@|\[redacted:|my (?:server|webhook)|an? external)"
    ),
    _sign("exfiltration", 0.6, "curl;wget;nc ;fetch(;invoke-webrequest")(
        r"\b(?:curl|wget|nc|fetch|invoke-webrequest)\b[^\n]{0,160}(?:\$\((?:cat|env|printenv)|`(?:cat|env|printenv)|@?(?:~|\$home|/root|/home/\w+)/\.(?:ssh|aws|env|netrc)|@\.env\b|/etc/(?:passwd|shadow)|id_rsa)"
        r"|(?:\bcat [^\n|]{0,80}(?:\.env|\.ssh|/etc/passwd|id_rsa|credentials)|\b(?:printenv|env)) ?\|[^\n]{0,60}\b(?:curl|wget|nc)\b"
    ),
    _sign("image-exfiltration", 0.6, "![;<img")(
        r"(?:!\[[^\]\n]{0,200}\]\(|<img [^>\n]{0,100}src ?= ?[\"']?)https?://[^)\s\"'>]{0,300}"
        r"(?:[{<\[]|%7b|\$\{?\w|[?&](?:exfil|leak|secrets?|stolen|history|conversation|memor(?:y|ies)|prompt|context|passwords?)=)"
    ),
    _sign("hidden-text", 0.6, "<!--")(
        rf"<!--(?:(?!-->|<!--)[\s\S]){{0,600}}?(?:\b{_DROP} (?:all|any|the|your|previous|prior|above)|\binstructions?\b|\byou (?:must|are|should|will)\b|system prompt|\bthe user\b|\b(?:ai|llm|assistants?|agents?) (?:must|should|reading|agents?|:)|\b(?:ai|llm|assistant|agent)s?:)"
    ),
    _sign("hidden-text", 0.4, "style=;style =")(
        r"style ?= ?[\"'][^\"'\n]{0,200}(?:display: ?none|font-size: ?0|opacity: ?0|color: ?(?:white|#fff))[^>\n]{0,100}>[^<]{20}"
    ),
    _sign("decode-and-run", 0.6, "base64;atob;decode;fromhex;exec(")(
        r"\b(?:decode|base64)\b[^\n]{0,120}\b(?:and|then) (?:run|execute|follow|eval|obey|do what|carry out)|\bbase64 (?:-d|--decode|-D)\b[^\n]{0,40}\| ?(?:sudo )?(?:ba|z)?sh\b"
        r"|\b(?:eval|exec)\( ?(?:base64|atob|__import__|bytes\.fromhex|codecs\.decode|compile\()"
    ),
    _sign(
        "addresses-the-reader",
        0.55,
        "if you are;when you;attention;note to;message to;message for;instruction;dear; reading; processing;that read;that process",
    )(
        rf"\b(?:if you are|when you,? (?:the|an)) (?:an? )?(?:{_MIND}|large language model)\b[^.\n]{{0,20}}(?:,|reading|processing|you)"
        rf"|\b(?:attention|note to|message (?:to|for)|instructions? (?:to|for)|dear),? (?:all |any |the |an? )?{_MIND}s?(?: (?:reading|processing|agents?|assistants?|models?|systems?))?\b ?[:!,-]"
        rf"|\b(?:any|every|all) {_MIND}s? (?:reading|processing|that (?:reads?|process))"
    ),
    _sign(
        "new-orders",
        0.55,
        "instruction:;instructions:;instructions :;your new;your real;your true;your only;your actual;your safety;your content;your security;your ethical",
    )(
        r"^\W{0,4}(?:new|updated|real|actual|important) (?:system )?instructions? ?:|[.!:] (?:new|real|actual) (?:system )?instructions? ?:"
        r"|\byour (?:new|real|true|only|actual) (?:task|goal|objective|instructions?|purpose|mission) (?:is|are)\b"
        r"|(?<!never )(?<!not )(?<!n't )\b(?:bypass|disable|turn off|ignore|remove) (?:all )?(?:of )?your (?:safety|content|security|ethical)[\w ]{0,20}(?:filters?|polic(?:y|ies)|restrictions?|guardrails?|checks?|guidelines?|measures)"
    ),
    _sign("new-orders", 0.35, "run the following;execute the following;execute this;run this")(
        r"\b(?:you must|immediately|now|please|silently) (?:run|execute) (?:the following|this) (?:command|code|script)"
    ),
    _sign("new-orders", 0.3, "rm -rf;without question;without asking;without confirmation")(
        r"\brm -rf (?:/|~|\$home)(?:\s|$|\*)|\b(?:obey|comply|follow)\b[^.\n]{0,40}\bwithout (?:question|asking)"
    ),
    # Korean
    _sign("override", 0.8, "무시;잊;따르지")(
        r"(?:이전|앞선|앞의|위의|지금까지의?|상기|여태까지의?)(?:에 받은| 받은|의)? ?(?:모든 |시스템 )?(?:지시|명령|지침|프롬프트)[^\n]{0,14}(?:무시|잊어|잊고|잊으|따르지)"
    ),
    _sign("prompt-theft", 0.65, "프롬프트;지침")(
        r"(?:시스템 ?프롬프트|너의 지침|당신의 지침|초기 프롬프트)[^\n]{0,14}(?:출력해|공개해|보여 ?줘|보여 ?주세요|알려 ?줘|알려 ?주세요|말해|유출)"
    ),
    _sign("persona", 0.6, "이제")(
        r"(?:너는|넌|당신은|네가) ?이제(?:부터)? [^\n.]{0,24}(?:ai|인공지능|해커|챗봇|어시스턴트|제한 ?없는|dan)"
    ),
    _sign("secrecy", 0.6, "사용자;유저")(
        r"(?:사용자|유저)(?:에게|한테)(?:는|도)? ?[^\n.]{0,14}(?:말하지|알리지|언급하지|밝히지) ?(?:마|말)"
    ),
    _sign("exfiltration", 0.65, "보내;전송;업로드")(
        r"(?:비밀번호|토큰|api ?키|환경 ?변수|비밀|대화|기록|자격 ?증명)[^\n]{0,30}https?://[^\n]{0,80}(?:보내|전송해|업로드해)|https?://\S+ ?(?:으로|로|에) ?[^\n]{0,40}(?:비밀|토큰|키|환경 ?변수|대화|기록)[^\n]{0,20}(?:보내|전송해|업로드해)"
    ),
    # Japanese
    _sign("override", 0.8, "無視;忘れ;従わ")(
        r"(?:以前|これまで|上記|前|先ほど|今まで|それまで)の(?:すべての|全ての|全)?(?:指示|命令|プロンプト|指令|ルール)[^\n]{0,8}(?:無視|忘れ|従わない)"
    ),
    _sign("prompt-theft", 0.65, "プロンプト")(
        r"(?:システムプロンプト|初期プロンプト)[^\n]{0,10}(?:表示して|出力して|教えて|見せて|公開して|明かし)"
    ),
    _sign("persona", 0.6, "あなたは")(
        r"あなたは(?:今から|これから|もう|今や?)[^\n。]{0,24}(?:ai|ハッカー|制限のない|アシスタント|チャットボット|dan)"
    ),
    _sign("secrecy", 0.6, "ユーザー;利用者")(
        r"(?:ユーザー|利用者)に(?:は|も)?[^\n。]{0,14}(?:言わない|伝えない|知らせない|教えない|話さない|言うな|伝えるな)(?:で|こと|よう|$|。)?"
    ),
    _sign("exfiltration", 0.65, "送信;送って;アップロード")(
        r"(?:パスワード|トークン|apiキー|環境変数|秘密|会話|履歴)[^\n]{0,30}https?://[^\n]{0,80}(?:送信して|送って|アップロードして|送信せよ)"
    ),
    # Chinese
    _sign("override", 0.8, "忽略;无视;無視;忘记;忘記;不要遵")(
        r"(?:忽略|无视|無視|忘记|忘記|不要遵[守循])[^\n。]{0,6}(?:之前|以前|先前|以上|上述|上面|前面|此前)[^\n。]{0,6}(?:指令|指示|提示|命令)"
    ),
    _sign("prompt-theft", 0.65, "提示;指令")(
        r"(?:显示|输出|告诉我|透露|打印|泄露|說出|说出|顯示)[^\n。]{0,8}(?:系统提示|系統提示|系统指令|你的提示词|你的指令)"
    ),
    _sign("persona", 0.6, "你现在;你現在;从现在起;從現在")(
        r"(?:你现在|你現在|从现在起你|从现在起，你|從現在起你)[^\n。]{0,16}(?:ai|黑客|助手|机器人|dan|没有(?:任何)?限制|不受(?:任何)?限制)"
    ),
    _sign("secrecy", 0.6, "用户;用戶;使用者")(
        r"(?:不要|别|別|不得|切勿)(?:告诉|告訴|告知|通知)[^\n。]{0,4}(?:用户|用戶|使用者)"
    ),
    _sign("exfiltration", 0.65, "发送;發送;上传;发到")(
        r"(?:发送|發送|上传|发到)[^\n。]{0,30}(?:密码|令牌|密钥|环境变量|聊天记录|对话)[^\n。]{0,20}https?://|(?:密码|令牌|密钥|环境变量|聊天记录|对话)[^\n。]{0,20}(?:发送|發送|上传|发)到? ?https?://"
    ),
    # Spanish, German, French
    _sign("override", 0.8, "ignor;olvid;descart")(
        r"\b(?:ignora|ignore|olvida|olvide|descarta|descarte)d? (?:todas? )?(?:las |los |tus |sus )?(?:instrucciones|órdenes|indicaciones|directrices) (?:anteriores|previas|de arriba)"
    ),
    _sign("override", 0.8, "ignorier;vergiss;missacht")(
        r"\b(?:ignorier\w*|vergiss|missacht\w*) (?:sie )?(?:(?:alle|die|deine|sämtliche|ihre) ){0,2}(?:vorherigen|bisherigen|obigen|früheren|vorangegangenen|vorigen|vorhergehenden)n? (?:anweisungen|befehle|instruktionen|vorgaben|prompts?)"
    ),
    _sign("override", 0.8, "ignor;oubli")(
        r"\b(?:ignore|ignorez|ignorer|oublie|oubliez) (?:toutes )?(?:les |tes |vos )?(?:instructions|consignes|directives|ordres) (?:précédente?s|antérieure?s|ci-dessus|préalables)"
    ),
    _sign("prompt-theft", 0.65, "prompt;system;sistema;système")(
        r"\b(?:muestra|revela|imprime|dime|muéstrame|enséñame)\b[^\n.]{0,20}(?:prompt (?:del |de )?sistema|tus instrucciones)|\b(?:zeig|gib|nenn|verrat)\w*\b[^\n.]{0,20}(?:system-?prompt|deine anweisungen)|\b(?:affiche|montre|révèle|donne)\w*\b[^\n.]{0,20}(?:prompt (?:du )?système|tes instructions|invite système)"
    ),
    _sign("persona", 0.6, "ahora eres;du bist;tu es;vous êtes")(
        r"\b(?:ahora eres|du bist (?:jetzt|nun|ab jetzt)|tu es (?:maintenant|désormais)|vous êtes (?:maintenant|désormais)) [^\n.]{0,24}(?:\bia\b|\bki\b|hacker|asistente|assistent|assistant|bot\b|\bdan\b|sin restricciones|ohne (?:einschränkungen|regeln)|sans (?:restrictions?|limites?))"
    ),
    _sign("secrecy", 0.6, "usuario;nutzer;anwender;utilisateur")(
        r"\bno (?:se )?(?:lo |le )?(?:digas|informes|menciones|cuentes)\b[^\n.]{0,14}\bal usuario|\b(?:sag|erzähl|verrat|teil)\w*\b[^\n.]{0,14}\bdem (?:be)?nutzer (?:davon )?nichts?\b|\bne (?:le |l')?(?:dis|dites|mentionne|mentionnez|révèle|révélez)\b[^\n.]{0,20}(?:à )?l'utilisateur"
    ),
    _sign("exfiltration", 0.65, "http")(
        r"\b(?:envía|envíe|manda|sube|sende|schicke?|envoie|envoyez|transmets)\b[^\n.]{0,50}(?:contraseñas?|claves?|credenciales|secretos|passwörter|passwort|schlüssel|zugangsdaten|geheimnisse|mots? de passe|clés?|secrets|identifiants)[^\n.]{0,30}\b(?:a|an|à|vers|zu) https?://"
    ),
)


@dataclass(frozen=True, slots=True)
class Suspicion:
    """How much a text looks like an instruction: from 0.5 on it belongs in quarantine. `reasons` are sorted, strongest first."""

    score: float
    reasons: tuple[str, ...]


_TRIGGERS = tuple((trigger, place) for place, sign in enumerate(INJECTION_SIGNS) for trigger in sign.triggers)
_ASCII_TRIGGERS = tuple(pair for pair in _TRIGGERS if pair[0].isascii())
_OTHER_TRIGGERS = tuple(pair for pair in _TRIGGERS if not pair[0].isascii())

_ZERO_WIDTH = "\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\u00ad\u180e"
_INVISIBLE = LazyPattern(f"[{_ZERO_WIDTH}\U000e0000-\U000e007f]")
_HIDDEN_RUN = LazyPattern(
    "[\u200b-\u200f\u2060-\u2064\ufeff]{3,}|[\U000e0020-\U000e007e]{6,}(?!\U000e007f)|[\ufe00-\ufe0f\U000e0100-\U000e01ef]{4,}|[\u202d\u202e]"
)
_SPACES = LazyPattern(r"[^\S\n ]+ *| {2,}")
_BLOB = LazyPattern(r"(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{24,4096}={0,2}(?![A-Za-z0-9+/=])")
_LOOKALIKES = str.maketrans("аеорсухіјѕԁοαεіІ’‘“”", "aeopcyxijsdoaeii''\"\"")


def suspicion(text: str) -> Suspicion:
    """Rate how much the text looks like an instruction to its reader. Pass the text before cleaning: hidden text counts."""
    weights = _weights(_fold(text))
    if not text.isascii() and _HIDDEN_RUN.search(text):
        weights["hidden-text"] = max(0.6, weights.get("hidden-text", 0.0))
    for blob in _BLOB.finditer(text):
        if any(weight >= 0.5 for weight in _weights(_fold(_decode(blob[0]))).values()):
            weights["encoded-instructions"] = 0.8
    clear = 1.0
    for weight in weights.values():
        clear *= 1.0 - weight
    return Suspicion(
        round(1.0 - clear, 3), tuple(sorted(weights, key=lambda reason: (-weights[reason], reason)))
    )


def _weights(folded: str) -> dict[str, float]:
    places = {place for trigger, place in _ASCII_TRIGGERS if trigger in folded}
    if not folded.isascii():
        places.update([place for trigger, place in _OTHER_TRIGGERS if trigger in folded])
    weights: dict[str, float] = {}
    for sign in map(INJECTION_SIGNS.__getitem__, places):
        if weights.get(sign.reason, 0.0) < sign.weight and sign.pattern.search(folded):
            weights[sign.reason] = sign.weight
    return weights


def _fold(text: str) -> str:
    if not text.isascii():
        text = _INVISIBLE.sub("", unicodedata.normalize("NFKC", text))
    text = text.lower()
    if not text.isascii() and re.search("[a-z]", text):
        text = text.translate(_LOOKALIKES)
    return _SPACES.sub(" ", text)


def _decode(blob: str) -> str:
    try:
        return base64.b64decode(blob + "=" * (-len(blob) % 4), validate=True).decode("utf-8")
    except (binascii.Error, ValueError):
        return ""
