"""The noise gate: small talk is dropped, short facts never."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindhold.text.noise import is_noise

NOISE = """ok|OK.|Okay!|k|thanks!|Thank you so much!!|thx :)|lgtm|LGTM 👍|yes|Yes please|no|nope|Sounds good, thanks!|got it|Hi|Hello!
Good morning|haha|hahaha lol|hmm|hmmm...|cool cool|ok ok ok|Perfect, thank you|continue|go ahead|np|+1|great job|👍|🎉🎉🎉|...|?!|---| |
네|네 감사합니다|네네|ㅋㅋㅋㅋ|ㅇㅇ|알겠습니다!|안녕하세요|고마워요~|좋아요 👍|ありがとう|ありがとうございます！|はい、わかりました。|了解です|お疲れ様です|なるほど
好的|好的，谢谢|谢谢你！|嗯嗯|哈哈哈哈|没问题|你好|明白了|hola|Muchas gracias!|vale, perfecto|sí|merci beaucoup|d'accord|D’accord, merci|bonjour
oui|danke schön|Alles klar, danke!|ja|obrigado!|bom dia|спасибо большое|да|хорошо, спасибо|привет!|نعم|شكرا جزيلا|السلام عليكم|धन्यवाद|ठीक है|हाँ
ধন্যবাদ|ঠিক আছে|شکریہ|terima kasih|oke""".replace("\n", "|").split("|")
FACTS = """Port 8080|uses tabs|age 7|yes, deploy on Friday|No tabs|ok to deploy on Friday|thanks to caching it is fast|Go 1.22|vim|42|PostgreSQL
call me Sam|likes tea|no sugar|never mind the linter in vendor/|good tests matter|vegan|left-handed|Python 3.12|night owl|no meetings on Monday
not ok|thank you notes go to finance|hi-res images only|정규 배포는 금요일|포트 8080|네이버 지도를 쓴다|채식주의자|확인 버튼은 파란색|日本語で答える|東京在住|好的代码需要测试|端口8080
用中文回答|住在北京|puerto 8080|no usa tabs|merci de répondre en français|Ja, am Freitag|Порт 8080|да, в пятницу|منفذ 8080|x = 1|TZ=UTC|a/b
ok_or_else is preferred|test with pytest|next release is 2.0""".replace("\n", "|").split("|")


@pytest.mark.parametrize("text", NOISE)
def test_small_talk_is_noise(text: str) -> None:
    assert is_noise(text)


@pytest.mark.parametrize("text", FACTS)
def test_a_short_fact_is_not(text: str) -> None:
    assert not is_noise(text)


@given(st.text())
def test_any_text_is_taken(text: str) -> None:
    assert is_noise(text) in (True, False)


@given(st.text(st.characters(categories=["P", "S", "Z"])))
def test_punctuation_and_emoji_alone_are_noise(text: str) -> None:
    assert is_noise(text.replace("_", "").replace("+", ""))
