"""Words that say nothing about what a text is about."""

from __future__ import annotations

import re

STOP_WORDS = frozenset(
    """
    a about above after again against all also am an and any anybody anyone anything are arent as at be because been
    before being below between both but by can cannot cant could couldnt did didnt do does doesnt doing done dont down
    during each either else ever every few for from further get gets getting give given go goes going gone got had
    hadnt has hasnt have havent having he hed her here hers herself him himself his how hows i id if ill im in into is
    isnt it its itself ive just know let lets like lot made make many maybe me might mine more most much must my
    myself neither no nor not now of off ok okay on once one only or other our ours ourselves out over own please
    quite rather really same say says shall she should shouldnt so some somebody someone something still such tell
    than thank thanks that thats the their theirs them themselves then there theres these they theyre thing things
    this those though through to told too toward under until up upon use used very via was wasnt we went were
    werent what whatever whats when whenever where wherever whether which while who whoever whom whos whose why will
    with within without wont would wouldnt yes yet you youre your yours yourself yourselves
    """.split()
)

# The commonest words of other languages, for choosing what stands out in a text of theirs. Searching doesn't pass over
# them: "die" and "war" are English as well.
OTHER_STOP_WORDS = {
    "de": """der die das den dem des ein eine einen einem einer eines und oder aber auch nicht kein keine ist sind war waren wird werden
        wurde wurden hat haben hatte kann muss soll sich auf aus bei mit nach von vom zu zum zur für über unter durch gegen ohne im in an am als
        wie wenn dass weil ich du er sie es wir ihr man nur noch schon sehr mehr immer dann hier diese dieser dieses""",
    "fr": """le la les un une des du de et ou mais pas ne est sont était été sera avoir être ont avec sans sur sous dans par pour entre chez
        vers que qui quoi dont où ce cet cette ces son sa ses leur leurs nous vous ils elles il elle on je tu au aux plus très aussi comme quand
        si tout tous toute""",
    "es": """el la los las un una unos unas de del y o pero no es son era fue será ser estar está están con sin sobre en por para entre desde
        hasta que quien cual donde cuando como este esta estos estas ese esa su sus nos se lo le les al más muy también ya todo todos""",
    "it": """il lo la gli le un uno una di del della dei delle dello degli e ed o ma non è sono era erano sarà essere con senza su sul sulla in
        nel nella per tra fra da dal dalla che chi cui dove quando come questo questa questi queste suo sua si ci al alla più molto anche""",
    "pt": """o a os as um uma uns umas de do da dos das e ou mas não é são era foi será ser estar está estão com sem sobre em no na nos nas por
        pelo pela para entre que quem onde quando como este esta esse essa isso seu sua se ao à mais muito também já todo todos""",
    "nl": """de het een en of maar niet geen is zijn was waren wordt worden werd heeft hebben had kan moet zal op in aan bij met na naar van voor
        door over onder uit om tot zonder als dat die dit deze wij wij ik je hij zij ze er ook nog al meer zeer altijd dan hier""",
    "pl": """i oraz lub ale nie jest są był była było były będzie być ma mają z ze na w we do od dla po przez przy pod nad bez o u jak kiedy gdy
        że który która które ten ta to te tego tej się my wy oni on ona jego jej ich już też także bardzo tylko""",
    "ru": """и или но не это этот эта эти был была было были будет быть есть в во на с со к ко от до для по при под над без из за о об у как
        когда что чтобы который которая которые мы вы они он она его её их я ты уже также тоже очень только все всё если""",
    "ar": """في من على إلى عن مع هذا هذه ذلك تلك التي الذي الذين كان كانت يكون لا لم لن ما أن إن أو ثم قد كل بعد قبل عند بين هو هي هم نحن""",
}

# Only what is unmistakably a question inside unspaced text; single characters are parts of other words.
ASIAN_QUESTIONS = re.compile(
    "为什么|為什麼|什么时候|什麼時候|什么|什麼|怎么样|怎麼樣|怎么|怎麼|如何|哪里|哪裡|哪个|哪個|哪些|多少|是否|请问|請問"
    "|どうやって|どうして|どのように|どんな|どこで|どこに|いつ(?=[、にはもか\\s]|$)|なぜ|何ですか|何でしたか|ですか|ましたか|ますか|でしたか"
    "|어떻게|무엇을|무엇이|무엇|언제|어디서|어디에|어디|누가|누구|왜(?=\\s)|어떤|얼마나|뭐였지|뭐야|인가요|있나요|했나요|입니까|습니까"
)
