"""Words that show how a sentence is meant, in eight languages: as a lasting wish, a ban, an order, a reason, a passing step.

A judge that learned from English conversations reads other languages through these: what counts is that a sentence has a
word for "never", not which word it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from mindhold.text.pattern import LazyPattern, any_case

_LEAD_IN = (
    r"(?:please|pls|ok(?:ay)?|now|and|then|so|also|yes|just|well|can you|could you|would you|you can|go ahead and|let'?s|i want (?:you )?to|i need (?:you )?to"
    r"|i'd like (?:you )?to|we (?:should|need to)|i think we should|let me|help me)"
)
# Each cue by language: English, German, French, Spanish and Russian by whole words, the others by parts of the text.
_SPACED: Mapping[str, tuple[str, ...]] = {
    "lasting": (
        r"always|never|from now on|going forward|in (?:the )?future|next time|(?:every|each) time|whenever|any ?more|any longer|at all times|by default"
        r"|as a rule|in general|generally|every|each|all (?:the|our|new|of)|ever|everywhere|everything|convention|standard practice|unless"
        r"|(?:in|for) (?:this|our|my) (?:project|repo|repository|code ?base|team|projects)|we agreed|as agreed|remember",
        r"immer|nie|niemals|ab (?:jetzt|sofort)|künftig|in zukunft|zukünftig|(?:das )?nächste[sn]? mal|jedes ?mal|nicht mehr|grundsätzlich|generell|standardmäßig"
        r"|jede[rsnm]?|stets|überall|alle|ständig|in diesem projekt",
        r"toujours|jamais|désormais|dorénavant|à l'avenir|à partir de maintenant|la prochaine fois|chaque(?: fois)?|(?:ne|n')\s?\w+ plus|par défaut|en général"
        r"|partout|tous les|toutes les|dans ce projet",
        r"siempre|nunca|jamás|a partir de ahora|de ahora en adelante|en el futuro|la próxima vez|cada(?: vez)?|ya no|por defecto|en general|todos los|todas las"
        r"|en este proyecto",
        r"всегда|никогда|впредь|отныне|с этого момента|в будущем|в следующий раз|кажд\w+|больше не|по умолчанию|везде|все|всех|в этом проекте",
    ),
    "ban": (
        r"do not|don'?t|dont|never|avoid|no need to|must not|mustn'?t|should not|shouldn'?t|cannot|not allowed|(?:stop|quit) \w+ing|refrain|no more|without (?:asking|my)"
        r"|forbidden|^no (?!the|that|this|it|i|you|we|not|wait|just|one|idea|tests?)\w+",
        r"nicht|kein\w*|niemals|nie|vermeide\w*|hör auf|lass das|verboten|ohne (?:zu fragen|mein\w*)",
        r"(?:ne|n')\s?\w+ (?:pas|plus|jamais)|pas de|jamais|évite\w*|arrête\w*|cesse\w*|interdit\w*|sans (?:me|mon|ma)",
        r"no (?=[a-záéíóú]+(?:as|es|ar|er|ir|iero|amos|imos)\b)|nunca|jamás|evita\w*|deja de|prohibido|sin (?:preguntar\w*|mi)",
        r"не|нельзя|никогда|избегай\w*|прекрати\w*|перестань\w*|хватит|запрещ\w+|без (?:моего|спроса)",
    ),
    "order": (
        r"please|pls|you (?:should|must|need to|have to|can)|(?:you'?re|you are|is|are) supposed to|make sure|be sure|remember to|i(?:'d)? (?:want|prefer|like|expect|need|rather)"
        r"|i would (?:like|prefer|rather)|i (?:really )?(?:don'?t|do not) (?:want|like|need)|let me|can you|could you|would you|(?:we|it) (?:should|must)|should|must|have to",
        r"bitte|du (?:sollst|musst|solltest|kannst|darfst)|(?:sollten|müssen|können|würden) sie|kannst du|ich (?:will|möchte|bevorzuge|mag|hätte gerne?|brauche)|achte"
        r"|stell\w* sicher|soll\w*|muss|müssen|wir (?:sollten|müssen)",
        r"s'il (?:te|vous) plaît|stp|svp|tu (?:dois|devrais|peux)|peux-tu|pouvez-vous|vous (?:devez|devriez|pouvez)|je (?:veux|voudrais|préfère|souhaite)|je ne veux"
        r"|j'aime(?:rais)?|assure-toi|veille\w*|il faut|doit|doivent",
        r"por favor|debes|deberías|debe|deben|tienes que|puedes|podrías|quiero|quisiera|prefiero|me gusta\w*|asegúrate|hay que|tenemos que",
        r"пожалуйста|должен|должна|должны|нужно|надо|следует|можешь|хочу|предпочитаю|мне (?:нравится|нужно)|убедись|обязательно",
    ),
    "practice": (
        r"commit\w*|push\w*|merg\w+|pull requests?|prs?|branch\w*|tests?|comments?|docstrings?|docs?|documentation|messages?|style|format\w*|naming|names|lint\w*|types?|secrets?"
        r"|passwords?|sensitive|dependenc\w+|librar\w+|emojis?|language|english|answers?|explain|explanations?|code|sign\w*|review\w*|deploy\w*|releas\w+|changelog|plan\w*|ask|asking|approval|verbose|concise|short|simple",
        r"commit\w*|push\w*|merge\w*|branch\w*|tests?|kommentar\w*|doku\w*|nachricht\w*|stil|format\w*|namen|geheimnis\w*|passw\w+|abhängigkeit\w*|emojis?|sprache|deutsch"
        r"|englisch|antwort\w*|erklär\w*|code|signier\w*|deploy\w*|frag\w*|kurz|knapp|einfach",
        r"commit\w*|push\w*|fusionn\w+|branche\w*|tests?|commentaires?|documentation|messages?|style|format\w*|noms?|secrets?|mots? de passe|dépendances?|emojis?|langue"
        r"|français|anglais|répon\w+|expli\w+|code|sign\w*|déploi\w*|demand\w*|court\w*|simple",
        r"commit\w*|push\w*|ramas?|tests?|pruebas?|comentarios?|documentación|mensajes?|estilo|formato|nombres?|secretos?|contraseñas?|dependencias?|emojis?|idioma|español"
        r"|inglés|respond\w+|respuestas?|expli\w+|código|firm\w+|despleg\w+|pregunt\w+|corto|simple",
        r"коммит\w*|пуш\w*|ветк\w*|тест\w*|комментари\w*|документаци\w*|сообщени\w*|стил\w*|формат\w*|имен\w*|секрет\w*|парол\w*|зависимост\w*|эмодзи|язык\w*"
        r"|по-русски|по-английски|отве\w+|объясн\w+|код\w*|подпис\w*|депло\w*|спр\w+|кратк\w*",
    ),
    "norm": (
        r"(?<!\bi )(?<!\bwe )(?<!\byou )(?:should(?:n'?t| not)?|must(?:n'?t| not)?|needs? to|ha(?:s|ve) to|ought to)|(?:is|are|'re)(?: not)? (?:supposed|meant|allowed) to|belongs?",
        r"soll(?:te|ten|en)?|muss|müssen|darf|dürfen|gehör\w+",
        r"doit|doivent|ne (?:doit|doivent|devrait)|il faut",
        r"debe|deben|tienen? que|hay que",
        r"долж\w+|нужно|следует|нельзя",
    ),
    "only": (
        *(
            r"only|just|nothing (?:else|but)|nowhere else",
            r"nur|ausschließlich",
            r"seulement|uniquement|rien que",
        ),
        *(r"sol[oa]|sólo|solamente|únicamente", r"только|лишь"),
    ),
    "complaint": (
        r"(?:you|claude) (?:keep|always|again|still|forgot|never)|i(?:'ve)? (?:told|already (?:told|said|asked)|asked you|said)|i never(?! (?:saw|got|had|heard|used)\b)|why do you (?:always|keep)|supposed to|meant to|stop|quit|enough",
        r"schon wieder|immer noch|ich (?:habe|hatte)(?: dir| es)? \w+|hör auf|warum machst du|du vergisst",
        r"encore une fois|je t'ai (?:dit|demandé)|arrête\w*|tu oublies|pourquoi tu",
        r"otra vez|ya te (?:dije|pedí)|deja de|olvidas|por qué siempre",
        r"опять|снова|я (?:же |уже )?(?:говорил\w*|просил\w*)|хватит|перестань|забыл\w*|почему ты",
    ),
    "task": (
        rf"^(?:{_LEAD_IN}[\s,]+)*(?!(?:commit|release|test|review) (?:messages?|notes|names?|often|early|first))(?:commit|push|merge|rebase|create|write (?:a|an|the|this|me|some|it|down|up)|draft|fix|add|delete|remove|explain|show|run|rerun|test|check|look|update|implement|open|close|review|rename|move|undo|revert|try|make (?:a|an|the|this|it)|build|deploy|release|start|restart|continue|resume|read|summari[sz]e|list|find|investigate|refactor|generate|install|upgrade|bump|change|tell|give|take|resolve|convert|compare|analy[sz]e|respond|reply to|split (?:the|this|it)|go (?:back|on)|keep (?:on )?going|discuss|pull|move on|do (?:a|an|another|the|that|it))",
        r"^(?:(?:bitte|jetzt|ok|und|dann|nun|kannst du|mal)[\s,]+)*(?:mach\w*|lösch\w*|erstell\w*|start\w*|zeig\w*|füg\w*|fix\w*|führ\w*|schau\w*|prüf\w*|beheb\w*|öffne|benenne|schreib\w* (?:mir|ein\w*|de[nmr]|das)|teste|committe|push\w*|nimm)",
        r"^(?:(?:s'il te plaît|maintenant|ok|et|peux-tu|tu peux)[\s,]+)*(?:fais\w*|relance\w*|lance\w*|crée\w*|supprime\w*|montre\w*|ajoute\w*|corrige\w*|ouvre\w*|renomme\w*|vérifie\w*|teste\w*|essaie\w*|explique\w*|annule\w*|écris (?:un|le|la|moi)\w*|prends)",
        r"^(?:(?:por favor|ahora|ok|y|puedes)[\s,]+)*(?:haz|hacer|borra\w*|crea\w*|muestra\w*|muéstra\w*|añade\w*|agrega\w*|ejecuta\w*|corrige|arregla\w*|abre|revisa|prueba|explica\w*|deshaz|renombra|escribe (?:un|el|la|los)\w*|toma)",
        r"^(?:(?:пожалуйста|теперь|ок|и|можешь)[\s,]+)*(?:закоммить\w*|запушь\w*|запусти\w*|удали\w*|создай\w*|покажи\w*|добавь\w*|исправь\w*|попробуй\w*|проверь\w*|открой\w*|переименуй\w*|объясни\w*|сделай\w*|откати\w*|напиши\w*|возьми)",
    ),
    "finding": (
        r"^(?:\w+ ){0,6}there(?:'s| is| are| was| were| no\b)|^(?:it|this|that) (?:is|was|has|does|fails?|crash\w+|returns?)|^i (?:don'?t|can'?t|cannot|didn'?t) (?:see|find|get|know|understand)|i (?:never )?(?:ran|tried|see|saw|get|got|have|had|heard|found|think|guess|corrected|ran into)|(?:all )?tests pass",
        r"es gibt|es (?:ist|geht|stürzt)|ich (?:sehe|habe|bekomme)",
        r"il (?:y a|n'y a)|ça (?:marche|plante)|je (?:vois|pense|crois)",
        r"hay (?:un|una)|no hay|(?:ya )?funciona|veo|creo que",
        r"есть|работает|падает|я (?:вижу|думаю|получ\w+)|проходят",
    ),
    "momentary": (
        r"now|for now|right now|this time|here|yet|today|tomorrow|this (?:file|one|test|function|line|change|branch|commit|pr|page|button|step|task|part|case|error|issue)"
        r"|again|already|still|it|that|these|those|first|then|next step|continue|go ahead|the (?:last|other|second)",
        r"jetzt|hier|heute|morgen|gerade|erstmal|vorerst|noch|diese[rsnm]?|weiter|das da",
        r"maintenant|ici|aujourd'hui|demain|pour l'instant|encore|cette?|cet|continue|ça",
        r"ahora|aquí|hoy|mañana|por ahora|todavía|este|esta|esto|eso|continúa|sigue",
        r"сейчас|здесь|тут|сегодня|завтра|пока|ещё|еще|этот|эта|это|эту|продолжай|дальше",
    ),
    "reason": (
        r"because|since|so that|as (?:it|we|they|the)|due to|otherwise|the reason|that way|in order to|to avoid|to keep",
        r"weil|da|damit|sonst|wegen|denn|um zu",
        r"parce qu\w*|car|afin|pour que|sinon|puisque",
        r"porque|ya que|para que|si no|debido a",
        r"потому что|чтобы|так как|иначе|из-за|поскольку",
    ),
    "contrast": (
        r"instead(?: of)?|rather than|(?:and|but) not|not \w+ but|over the|prefer\w*|replac\w+|switch\w*|no longer|went with|decided|chose\w*|chosen|let'?s (?:use|go with|keep the|make (?:the|all|every))",
        r"statt\w*|anstatt|sondern|lieber|ersetz\w+|entschieden|bevorzug\w*",
        r"au lieu|plutôt|mais pas|remplac\w+|décidé|choisi",
        r"en lugar|en vez|sino|mejor|reemplaz\w+|decid\w+|eleg\w+",
        r"вместо|а не|лучше|замен\w+|решили|выбрали",
    ),
}
_JOINED: Mapping[str, str] = {  # Japanese, Chinese, Korean
    "lasting": r"常に|いつも|必ず|絶対|決して|今後|これから|次回|次から|毎回|毎度|もう.{1,12}(?:ない|ません)|すべて|全て|原則|このプロジェクト|这个项目|이 프로젝트|总是|始终|永远|从不|绝不|以后|今后|从现在起|下次|每次|每当"
    r"|再|一律|所有|默认|都要|必须|항상|언제나|절대|앞으로|다음부터|다음번|다음에는|매번|더 ?이상|이제부터|무조건|모든|모두|전부|꼭|때마다|마다|자꾸",
    "ban": r"ないで|しないこと|するな|禁止|やめて|避けて|不要|なくていい|ません|ない|不要|别|勿|不能|不准|不许|避免|停止|无需|不用|不想|지 ?마|말아|말 것|금지|하지 않|않(?:아|았|으|고|는|습)|그만|말고|필요 ?없|안 ",
    "order": r"ください|下さい|ほしい|欲しい|してくれ|お願い|べき|必要|なければ|しましょう|请|應該|应该|应当|需要|我想|我要|我希望|我喜欢|我更喜欢|我不想|我不喜欢|确保|记得|务必|可以|能不能|주세요|해줘|줘|하세요|부탁"
    r"|바랍니다|해야|원해|원합|선호|좋겠|싶|세요|십시오|합시다|하자",
    "practice": r"コミット|プッシュ|マージ|ブランチ|テスト|コメント|ドキュメント|メッセージ|スタイル|書式|名前|命名|秘密|パスワード|依存|絵文字|日本語|英語|回答|答え|説明|コード|署名|デプロイ|確認|聞いて|簡潔|提交|推送|合并|分支|测试|注释"
    r"|文档|消息|风格|格式|命名|机密|敏感|密码|依赖|表情|中文|英文|回答|解释|代码|签名|部署|问我|简洁|커밋|푸시|병합|브랜치|테스트|주석|코멘트|문서|메시지|스타일|형식|이름|비밀|민감|비밀번호|의존성|이모지|한국어|영어|답변|대답|설명|코드|서명|배포|물어|간결",
    "norm": r"べき|なければ|必要があ|こと[。.]?$|应该|應该|应当|必须|야 (?:해|한|합)",
    "only": r"だけ|のみ|只(?:用|能|要|有)|仅|만 |뿐",
    "complaint": r"勝手に|また.{0,8}(?:して|いる)|と言った|言ったよね|忘れ|又|跟你说过|说过|总是忘|자꾸|또 |말했|했잖아|마음대로|빼먹",
    "task": r"(?:試して|実行して|作って|作成して|直して|修正して|追加して|消して|削除して|見せて|教えて|コミットして|プッシュして|pushして|マージして|続けて|お願いします)[。.!！]*$"
    r"|^(?:请|帮我|再|先|现在|把.{1,12})*(?:提交|运行|跑|重试|删除|创建|新建|修复|添加|加一个|加个|看一下|解释|继续|打开|改一下|试|写一个|分成)|一下|删掉|(?:해줘|해봐|해 줘|해 봐|지워줘|만들어줘|고쳐줘|보여줘|봐줘|써줘|돌려줘|나눠줘|해라)[.!]*$",
    "finding": r"ました[。.]?$|落ちます|ありません[。.]?$|没有|通过了|崩溃|报错|통과|없어|죽어|안 돼|오류가",
    "momentary": r"今(?!後)|ここ|この|その|今日|とりあえず|続けて|まだ|现在|这|今天|暂时|继续|还没|지금|여기|이번|이거|그거|이 |그 |오늘|일단|계속|아직",
    "reason": r"ので|から|ため|理由|因为|以便|由于|否则|때문|니까|므로|위해|않으면|그래야",
    "contrast": r"代わり|ではなく|より|方がいい|而不是|代替|改用|决定|选择|대신|말고|보다|아니라|기로",
}
CUES = tuple(_SPACED)
_PATTERNS: Mapping[str, LazyPattern] = {
    name: any_case(rf"\b(?:{'|'.join(by_language)})(?!\w)|{_JOINED[name]}")
    for name, by_language in _SPACED.items()
}
_QUESTION = LazyPattern(r"[?？]\s*$|(?:吗|呢|か|나요|까요|니)[。.?？]?\s*$")


@lru_cache(4_096)
def cues_in(text: str) -> Mapping[str, float]:
    """Which cues a sentence has: 1 for one word or more, and whether it ends as a question."""
    found = {name: float(pattern.search(text) is not None) for name, pattern in _PATTERNS.items()}
    return {**found, "question": float(_QUESTION.search(text) is not None)}
