"""Words of anybody who works on any program: that two texts share them tells nothing."""

from __future__ import annotations

from functools import cache

from mindhold.model.lexemes import lexemes

_WORDS = """
    able actual actually add added again agent ahead allow already also always another answer anyway app appear application apply
    approach around ask away back bad based basic begin behave behavior behaviour better big bit block both branch break bring broken
    bug build bunch button call called case cause certain change changed check choose class clean clear click close code come command
    comment commit common complete concern config configuration confirm consider contain content context continue copy correct create
    current currently cut data date day default define delete depend describe description detail develop developer different difference
    directory disable display doc docs document documentation double easy edit else empty enable end ensure entire entry environment
    error even evaluate everything exact exactly example exist expect expected explain extra face fail failed failing failure false
    fast feature feedback feel field figure file files fill final finally find fine finish first fix fixed flag folder follow format
    found fresh full function further general generate git github good great group handle happen hard hello help hi high hold hope
    hour idea implement implementation improve include inside instead invoke issue item job keep kind large last later latest lead
    least leave left less level library line link list little load local log logic long look machine main manage matter mean merge
    message method mind miss missing mode modify module moment most mostly move multiple name near nearly need never new next nice
    none note nothing notice number object obvious old open option order original output page part pass path people perfect piece
    place plan play point possible prefer press previous print problem process produce program project prompt proper provide pull
    push put question quick quickly read ready real reason reduce refactor regard related remember remove rename repeat replace repo
    report repository request require rest result return review rewrite right root run running safe save scratch screen script search
    second section see seem select send sense sentence separate set setting settings setup several short show side similar simple
    simplify single size skip small solve sort source space specific split stage start state status step stop store string stuff
    style suggest sure switch system take task team test tested testing tests text think time title today together tool top total
    touch track tree true try turn two type under understand unit unless unused update updated user usual value variable various
    verify version view wait walk want warning watch way week weird well whole wish wonder word work working worry write wrong yeah
    yesterday tomorrow python javascript typescript claude
    """


@cache
def common_lexemes() -> frozenset[str]:
    """In the form that texts are compared in."""
    return frozenset(lexeme for word in _WORDS.split() for lexeme in lexemes(word))
