"""`lang:`: in which language a paper is written."""

from __future__ import annotations

import pytest

from digest.topics import explanation, filter_parser
from digest.topics.language_detection import NAMES, language_of
from digest.topics.paper_index import PaperIndex
from tests.topics.invented_papers import paper

WRITTEN = {
    "en": "We show that the policy of a robot can be learned from the videos that are on hand.",
    "de": "Wir zeigen, dass die Regelung eines Roboters mit Videos gelernt wird und nicht von Hand.",
    "fr": "Nous montrons que la commande des robots est apprise par des vidéos sur le bras.",
    "es": "Mostramos que el control de los robots se aprende con videos para el brazo.",
    "pt": "Mostramos que o controle dos robôs não precisa da mão, mas de vídeos para o braço.",
    "it": "Mostriamo che il controllo dei robot si impara con i video della mano e del braccio.",
    "nl": "Wij laten zien dat de robot het van een video leert en niet met de hand.",
    "zh": "我们证明机器人可以从视频中学习 policy gradient 方法。",
    "ja": "ロボットは動画から学習できることを示す。",
    "ko": "로봇이 영상에서 배울 수 있음을 보인다.",
    "ru": "Мы показываем, что робот учится по видео.",
    "uk": "Ми показуємо, що робот навчається з відео і рухається.",
    "el": "Δείχνουμε ότι το ρομπότ μαθαίνει από βίντεο.",
    "ar": "نبين أن الروبوت يتعلم من الفيديو",
    "fa": "نشان می‌دهیم که ربات از ویدیو می‌آموزد چگونه بگیرد",
    "he": "אנו מראים שהרובוט לומד מסרטונים",
    "hi": "हम दिखाते हैं कि रोबोट वीडियो से सीखता है",
    "th": "เราแสดงว่าหุ่นยนต์เรียนรู้จากวิดีโอ",
}


@pytest.mark.parametrize("language", NAMES.values())
def test_a_language_is_detected_from_a_sentence(language):
    assert language_of(WRITTEN[language]) == language


@pytest.mark.parametrize(
    "text", ["", "α-β mixing in L² spaces", "Slow Diffusion", "Naïve Bayes à la carte", "Über-Nets"]
)
def test_text_of_an_unknown_language_counts_as_english(text):
    assert language_of(text) == "en"


def test_every_paper_is_in_one_language_and_a_filter_finds_it():
    papers = [
        paper(f"{language}", text, id=number) for number, (language, text) in enumerate(WRITTEN.items(), 1)
    ]
    index = PaperIndex(papers)

    found = {language: index.matches(filter_parser.parse(f"lang:{language}")) for language in WRITTEN}

    assert found == {language: 1 << number for number, language in enumerate(WRITTEN)}
    assert explanation.explain(filter_parser.parse("lang:de"), papers[1]).why == ("lang:de",)
    assert explanation.explain(filter_parser.parse("robot* ANDNOT lang:de"), papers[1]).failed
