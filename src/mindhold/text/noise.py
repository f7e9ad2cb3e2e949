"""Recognises small talk, and rates by rules how much a text is worth keeping."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from mindhold.model.lexemes import lexemes, stop_lexemes
from mindhold.text.pattern import LazyPattern
from mindhold.text.similarity import TOKEN

# A longer text is never noise, however empty: someone took the time to write it.
_LONGEST = 80
_MOST_WORDS_IN_A_PHRASE = 4

# Phrases that greet, thank, agree, refuse, praise, apologise, go on or fill a pause, in widely used languages.
_PHRASES = frozenset(
    phrase.strip()
    for phrase in """
ok,okay,okey,k,kk,okie,okey-dokey,alright,all right,right,sure,sure thing,yes,yes please,yeah,yep,yup,ya,y,no,nope,nah,n,thanks,
thank you,thank u,so much,very much,a lot,many thanks,thx,ty,tysm,much appreciated,appreciate it,please,pls,plz,welcome,you're welcome,
youre welcome,no problem,np,no worries,nice,nice one,cool,great,awesome,perfect,excellent,amazing,wonderful,fantastic,brilliant,good,
very good,good job,great job,nice work,great work,good work,well done,sounds good,sounds great,looks good,looks good to me,looks great,
lgtm,sgtm,works for me,got it,gotcha,i see,understood,makes sense,that makes sense,roger,roger that,will do,done,fine,that's fine,
that's great,that works,hello,hi,hey,hi there,hello there,hey there,good morning,good afternoon,good evening,good night,morning,bye,
goodbye,bye bye,see you,see ya,see you later,see you tomorrow,cheers,congrats,congratulations,sorry,oops,my bad,never mind,nevermind,
nvm,lol,lmao,rofl,wow,oh,ah,aha,hm,er,well,anyway,go ahead,go on,continue,please continue,proceed,please proceed,next,carry on,
keep going,agreed,i agree,exactly,indeed,true,correct,that's correct,that's right,you're right,of course,absolutely,definitely,
certainly,yay,woohoo,hooray,test,testing,ping,pong,idk,i don't know,brb,ack,+1,man,guys,everyone,again,for now,let's go,lets go,how are you,
what's up,whats up,have a nice day,have a good day,take care,
好,好的,好吧,好啊,好呀,嗯,是,是的,对,对的,对啊,行,行吧,可以,没问题,谢谢,谢谢你,谢谢您,多谢,感谢,非常感谢,不客气,不用谢,你好,您好,早上好,晚上好,
早安,晚安,再见,拜拜,收到,明白,明白了,知道了,我知道了,了解,了解了,呵呵,嘿,噢,啊,继续,请继续,不,不是,抱歉,对不起,不错,太好了,很好,非常好,棒,
太棒了,辛苦了,謝謝,謝謝你,感謝,沒問題,再見,對,對的,了,的,
हाँ,हां,जी,जी हाँ,नहीं,ठीक,ठीक है,अच्छा,धन्यवाद,शुक्रिया,बहुत,बहुत धन्यवाद,नमस्ते,नमस्कार,अलविदा,बहुत अच्छा,बढ़िया,समझ गया,समझ गई,हेलो,
haan,theek hai,accha,dhanyavaad,shukriya,namaste,
sí,si,vale,de acuerdo,claro,por supuesto,gracias,muchas gracias,mil gracias,de nada,por favor,hola,buenos días,buenas tardes,
buenas noches,buenas,adiós,adios,hasta luego,hasta mañana,perfecto,genial,excelente,bien,muy bien,está bien,entendido,listo,bueno,
perdón,lo siento,dale,continúa,sigue,qué tal,
oui,non,ouais,d'accord,daccord,bien sûr,merci,merci beaucoup,merci bien,de rien,je vous en prie,s'il vous plaît,s'il te plaît,stp,svp,
bonjour,salut,bonsoir,bonne nuit,bonne journée,au revoir,à bientôt,à plus,parfait,super,génial,excellent,très bien,compris,entendu,
c'est bon,ça marche,ça va,désolé,pardon,mdr,continuez,vas-y,
نعم,لا,حسنا,حسناً,طيب,تمام,شكرا,شكراً,شكرا لك,شكراً لك,شكرا جزيلا,شكراً جزيلاً,عفوا,مرحبا,مرحباً,أهلا,أهلاً,السلام عليكم,وعليكم السلام,
صباح الخير,مساء الخير,مع السلامة,جيد,ممتاز,رائع,فهمت,موافق,أكمل,استمر,اسف,آسف,
হ্যাঁ,না,ঠিক আছে,আচ্ছা,ধন্যবাদ,অনেক ধন্যবাদ,নমস্কার,হ্যালো,বিদায়,ভালো,খুব ভালো,বুঝেছি,
sim,não,nao,tá,tá bom,está bem,certo,obrigado,obrigada,muito obrigado,muito obrigada,valeu,olá,ola,oi,bom dia,boa tarde,boa noite,
tchau,até logo,até mais,perfeito,ótimo,otimo,legal,beleza,entendi,pronto,desculpa,desculpe,pode continuar,muito bem,
да,нет,ага,угу,ок,окей,хорошо,ладно,спасибо,большое спасибо,спасибо большое,благодарю,пожалуйста,не за что,привет,здравствуйте,
здравствуй,доброе утро,добрый день,добрый вечер,спокойной ночи,пока,до свидания,отлично,супер,круто,понятно,понял,поняла,ясно,верно,
конечно,извини,извините,продолжай,продолжайте,давай,
جی,ہاں,جی ہاں,نہیں,ٹھیک ہے,اچھا,شکریہ,بہت شکریہ,السلام علیکم,خدا حافظ,
iya,tidak,oke,baik,baiklah,terima kasih,makasih,sama-sama,halo,hai,selamat pagi,selamat siang,selamat malam,sampai jumpa,bagus,
mantap,siap,mengerti,lanjut,lanjutkan,maaf,
ja,nein,doch,jo,jup,nee,gut,sehr gut,alles klar,klar,genau,stimmt,richtig,danke,danke schön,dankeschön,vielen dank,danke sehr,bitte,
bitte schön,gern geschehen,kein problem,hallo,moin,servus,guten morgen,guten tag,guten abend,gute nacht,tschüss,auf wiedersehen,
bis später,bis morgen,toll,prima,perfekt,verstanden,passt,in ordnung,entschuldigung,weiter,mach weiter,
はい,うん,ええ,いいえ,いや,そう,そうです,そうですね,そうですか,なるほど,わかりました,分かりました,わかった,分かった,了解,了解です,了解しました,承知しました,
かしこまりました,ありがとう,ありがとうございます,ありがとうございました,どうも,すみません,ごめん,ごめんなさい,こんにちは,こんばんは,おはよう,
おはようございます,おやすみ,おやすみなさい,さようなら,じゃあね,またね,お疲れ様,お疲れ様です,お疲れ様でした,お願いします,よろしく,よろしくお願いします,
いいね,いいですね,オッケー,オーケー,すごい,最高,素晴らしい,大丈夫,大丈夫です,続けて,続けてください,へえ,えっと,あの,
네,예,응,어,넵,넹,아니,아니요,아니오,아뇨,그래,그래요,그렇군요,그렇구나,맞아,맞아요,맞습니다,좋아,좋아요,좋습니다,알겠어,알겠어요,알겠습니다,알았어,
알았어요,오케이,ㅇㅋ,ㅇㅇ,ㄴㄴ,ㄱㅅ,ㄱㄱ,감사,감사해요,감사합니다,고마워,고마워요,고맙습니다,정말,정말 감사합니다,천만에요,별말씀을요,안녕,안녕하세요,
안녕하십니까,안녕히 가세요,안녕히 계세요,잘 자,잘자,수고,수고하세요,수고했어요,수고하셨습니다,미안,미안해,죄송합니다,죄송해요,굿,완벽해,완벽해요,
완벽합니다,훌륭해요,대박,헐,계속,계속해,계속해줘,계속하세요,진행해,진행해줘,진행해주세요,부탁해,부탁해요,부탁드립니다,확인,확인했습니다,이해했습니다,
이해했어요
""".replace("\n", "").split(",")
)
_DRAWN_OUT = LazyPattern(
    r"(?:ha|he|hi|ja|xa|ха){2,}h?|lo+l+|[ㅋㅎㅠㅜ]+|w{3,}|k{3,}|哈{2,}|笑+|h+m+|m{2,}|u+h+|u+m+|a+h+|o+h+|wo+w|ye+s+|ye+a+h*"
    r"|no{2,}|so{2,}|哦+|嗯+|네+|응+|음+|아+|오+|와+|thank+s+"
)
_SPACELESS = LazyPattern(r"[\u3040-\u30ff\u3400-\u9fff]+")
_LONGEST_SPACELESS = 16
_BETWEEN_WORDS = LazyPattern(r"[^\w\u0300-\u036f\u0600-\u06ff\u0900-\u0dff'’+-]+|_")


def is_noise(text: str) -> bool:
    """Whether the text only greets, thanks, agrees or fills: "ok", "thanks!", "네", "👍". When in doubt, no."""
    if len(text) > _LONGEST:
        return not any(map(str.isalnum, text))
    words = [word.strip("'-") for word in _BETWEEN_WORDS.sub(" ", text.casefold().replace("’", "'")).split()]
    words = [word for word in words if any(map(str.isalnum, word))]
    return _all_filler(words)


def _all_filler(words: list[str]) -> bool:
    start = 0
    while start < len(words):
        for count in range(min(_MOST_WORDS_IN_A_PHRASE, len(words) - start), 0, -1):
            if _is_filler(" ".join(words[start : start + count])):
                start += count
                break
        else:
            return False
    return True


def _is_filler(phrase: str) -> bool:
    if phrase in _PHRASES:
        return True
    if " " in phrase:  # the patterns are of single words
        return False
    if _DRAWN_OUT.fullmatch(phrase):
        return True
    return _SPACELESS.fullmatch(phrase) is not None and _is_chain(phrase)


def _is_chain(run: str) -> bool:
    """Whether a run of Chinese or Japanese, which has no spaces, is a sequence of phrases."""
    reached = [True] + [False] * len(run)
    for end in range(1, len(run) + 1):
        reached[end] = any(
            reached[start] and (run[start:end] in _PHRASES or _DRAWN_OUT.fullmatch(run[start:end]))
            for start in range(max(0, end - _LONGEST_SPACELESS), end)
        )
    return reached[-1]


CHATTER = 0.1  # the score of small talk
REPEATED = 0.3  # the highest score of a text that repeats another
ENOUGH_WORDS = 6  # content words; more don't raise the score
ENOUGH_SIGNS = 3
_LONGEST_TALK = 200  # characters; announcements of a next step are shorter
_LONGEST_ATOM = 1_500
_NAME = LazyPattern(r".*[^\W\d_][A-Z]|.*_|.*\d|[A-Z]{2,}|.*[+#]$")
_SENTENCE_END = ".!?…。！？:"

# Openings that refer to something said before.
_DANGLING = LazyPattern(
    r"(?:it|they|them|he|she|its|it's|that's|this one|that one|the (?:above|former|latter|same))\b"
    r"|(?:this|that|these|those)\s+(?:is|are|was|were|isn't|wasn't|works?|worked|should|can|could|will|would|must|did|does"
    r"|doesn't|didn't|has|have|had|fails?|failed|means?|looks?|seems?|needs?|also|too|way)\b"
    r"|(?:그거|이거|저거|그것|이것|저것|그건|이건|저건|그게|이게|저게|그걸|이걸|위의|위와 같이|아까|방금|거기|그렇게|이렇게)"
    r"|(?:それ|これ|あれ|そこ|そう)(?:は|が|を|で|に|も|です)"
    r"|(?:它|这个|那个|这样|那样|上面的)",
    re.IGNORECASE,
)
# Announcing the next step, or asking for it, is talk if nothing else is said: an announced plan may be a decision, and
# a detailed request may be a preference.
_TALK = LazyPattern(
    r"(?:(?:ok(?:ay)?|sure|alright|great|good|right|now|so|well|yes|yeah|no)\b[,.! ]*)*"
    r"(?:let me|let's see|i'?ll|i will|i'?m going to|i am going to|i'?m (?:now )?(?:checking|looking|working|doing|trying)"
    r"|going to|working on|looking into|checking|one moment|just a (?:moment|second|sec|minute)|hold on|give me a"
    r"|(?:can|could|would|will) you|do you|are you|what about|how about)\b",
    re.IGNORECASE,
)
_STEPS = (
    "check look see take try think get start begin continue proceed go work find read do moment second sec minute bit quick "
    "quickly now first next please again closer thing ready sure help wait know"
)
_KOREAN_TALK = LazyPattern(
    r"(?:(?:네|예|응|넵|좋아요?|좋습니다|알겠습니다|알겠어요?|그럼|그러면|이제|먼저|우선|일단|바로|지금|다시|계속|직접|한\s?번|더|좀|조금만|제가"
    r"|잠시만요?|잠깐만요?|그거|이거|그것|이것|그건|이건)(?:[\s,.!~]+|$))*"
    r"(?:(?:(?:확인|진행|시작|작업|처리|검토|수정|생각|계속|실행)(?:을|를)?\s?해?|찾아|살펴|알아|기다려|해)?\s?"
    r"(?:볼게요?|보겠습니다|하겠습니다|할게요?|할까요|주세요|줘|봐))?[.?!~ ]*$"
)
_UNSPACED = LazyPattern(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7ff\u0e00-\u0eff]")


@dataclass(frozen=True, slots=True)
class Worth:
    """A score from 0 to 1, and what it is based on."""

    score: float
    signs: int = 0  # names, numbers, dates, paths
    words: int = 0  # content words, each counted once
    dangling: bool = False  # it refers to something that it doesn't name
    chatter: bool = False
    noise: bool = False  # a greeting, a thank-you, a symbol: noise beyond doubt
    repeated: bool = False  # another text says the same


def rate_worth(text: str, *, labels: Sequence[str] = (), repeated: bool = False) -> Worth:
    """Rate how much a text is worth keeping, in any language, best in English and Korean. `labels` (topic, keywords) name its subject."""
    content = text.strip()
    words = _content_word_count(content)
    signs = _count_signs(content)
    dangling = _DANGLING.match(content) is not None
    noise = is_noise(content)
    if noise or (not signs and _is_talk(content)):
        return Worth(CHATTER, signs, words, dangling, chatter=True, noise=noise, repeated=repeated)
    specific = 0.5 * min(1.0, words / ENOUGH_WORDS) + 0.5 * min(1.0, signs / ENOUGH_SIGNS)
    completeness = 1.0 if words >= 3 else 0.5
    if dangling:
        completeness *= 0.6 if any(labels) else 0.3
    if content.endswith(("?", "？")):  # an open question is worth something, an answer more
        completeness *= 0.7
    if len(content) > _LONGEST_ATOM:
        completeness *= 0.8
    score = 0.2 + 0.45 * specific + 0.35 * completeness
    if repeated:
        score = min(score, REPEATED)
    return Worth(round(score, 3), signs, words, dangling, repeated=repeated)


def _is_talk(content: str) -> bool:
    """Whether it only announces a step, or asks for one."""
    if len(content) > _LONGEST_TALK:
        return False
    if opening := _TALK.match(content):
        return not set(lexemes(content[opening.end() :])) - stop_lexemes() - _step_lexemes()
    return bool(content) and _KOREAN_TALK.match(content) is not None


@cache
def _step_lexemes() -> frozenset[str]:
    return frozenset(lexemes(_STEPS))


def _content_word_count(content: str) -> int:
    """Number of distinct content words. Lexemes of unspaced scripts overlap, so there are more lexemes than words."""
    unspaced = len(_UNSPACED.findall(content))
    count = len(set(lexemes(content)) - stop_lexemes())
    return min(count, max(len(content.split()), unspaced // 2)) if unspaced else count


def _count_signs(content: str) -> int:
    """Number of distinct names, numbers, dates, paths and code spans."""
    signs: set[str] = set()
    for match in TOKEN.finditer(content):
        kind, raw = match.lastgroup or "word", match[0]
        before = content[: match.start()].rstrip()
        starts_sentence = not before or before[-1] in _SENTENCE_END or before[-1] in "\n-*•"
        if kind in ("date", "path", "number"):
            signs.add(raw)
        elif kind == "word" and (
            _NAME.match(raw) or (raw[0].isupper() and not starts_sentence and raw not in _PLAIN)
        ):
            signs.add(raw.casefold())
        if len(signs) >= ENOUGH_SIGNS:
            break
    return len(signs) + content.count("`") // 2


_PLAIN = frozenset(("I", "I'm", "I'll", "I've", "I'd", "OK", "Ok"))  # capitalised, but not names


# What git says anyway, or what only says that a command failed.
_WORK_LOG = LazyPattern(
    r"(?:committed|pushed|merged|opened (?:a )?(?:pr|pull request|mr)|created (?:pr|pull request)|unresolved)\b[^:]{0,40}:\s"
    r"|(?:opened|merged|created|closed) (?:pr|pull request|mr) #?\d|`[^`]+` (?:fails|failed)[.:]? *$",
    re.IGNORECASE,
)


def is_work_log(text: str) -> bool:
    """Whether the text only repeats what git or a failing command says."""
    return bool(_WORK_LOG.match(text.lstrip()))
