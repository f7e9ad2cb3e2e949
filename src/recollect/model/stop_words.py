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

# Only what is unmistakably a question inside unspaced text; single characters are parts of other words.
ASIAN_QUESTIONS = re.compile(
    "为什么|為什麼|什么时候|什麼時候|什么|什麼|怎么样|怎麼樣|怎么|怎麼|如何|哪里|哪裡|哪个|哪個|哪些|多少|是否|请问|請問"
    "|どうやって|どうして|どのように|どんな|どこで|どこに|いつ(?=[、にはもか\\s]|$)|なぜ|何ですか|何でしたか|ですか|ましたか|ますか|でしたか"
    "|어떻게|무엇을|무엇이|무엇|언제|어디서|어디에|어디|누가|누구|왜(?=\\s)|어떤|얼마나|뭐였지|뭐야|인가요|있나요|했나요|입니까|습니까"
)
