"""Explanations as lines for a terminal and as a page."""

from __future__ import annotations

import html.parser
import re
from collections.abc import Sequence

from mixling.explain import Explanation, WordEffect, explanation_lines, explanation_page

TEXT = "It's <b>great</b>\x1b[2J & fun"


def explanation(text: object = TEXT, *, words: tuple[WordEffect, ...] | None = None, **values: object) -> Explanation:
    default = (
        WordEffect("It's", 0, 4, -0.5),
        WordEffect("great", 8, 13, 2.0),
        WordEffect("fun", 24, 27, 0.01),
    )
    fields: dict[str, object] = {
        "text": text, "target": "<good>", "word": None, "method": "sampled_shapley", "score": 1.5, "base": -0.01,
        "probability": 0.8176, "words": default if words is None else words, "truncated": True,
    }  # fmt: skip
    return Explanation(**{**fields, **values})  # type: ignore[arg-type]


class Page(html.parser.HTMLParser):
    """The letters of a page, its tags, and the titles of its marks."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.text, self.tags, self.titles = "", [], []  # type: ignore[var-annotated]
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.titles += [value for name, value in attrs if name == "title"]

    def handle_data(self, data: str) -> None:
        self.text += data


def test_plain_lines_have_the_answer_the_text_and_the_strongest_words() -> None:
    assert explanation_lines(explanation(), color=False) == [
        "<good>  81.8%  (log-odds 1.500; without words -0.010; sampled shapley)",
        "It's <b>great</b>�[2J & fun",
        "    +2.000  great",
        "    -0.500  It's",
        "    +0.010  fun",
        "  (the text is longer than the model's maximum; its end was ignored)",
    ]


def test_colors_surround_words_and_nothing_of_the_text_controls_the_terminal() -> None:
    line = explanation_lines(explanation(), color=True)[1]
    assert "\x1b[30;48;2;118;166;227mgreat\x1b[0m" in line  # the strongest; blue is for the answer
    assert line.startswith("\x1b[30;48;2;252;235;220m")  # a little orange: against it
    assert line.endswith(" & fun")  # next to no effect
    assert line.count("\x1b") == 4


def test_text_can_be_read_on_the_strongest_colors() -> None:
    section = explanation("a b", words=(WordEffect("a", 0, 1, 2.0), WordEffect("b", 2, 3, -2.0)))._repr_html_()
    marks = re.findall(r"rgba\(([\d,]+),([\d.]+)\)", section)
    assert len(marks) == 2
    for color, opacity in marks:
        for page, ink in ((255, 0), (18, 255)):  # of browsers in their light and dark schemes
            under = [page + float(opacity) * (int(part) - page) for part in color.split(",")]
            lights = sorted((luminance(under), luminance([ink] * 3)))
            assert (lights[1] + 0.05) / (lights[0] + 0.05) > 4.5
    assert "+2.000 a, -2.000 b" in section  # also where there is no pointer


def luminance(color: Sequence[float]) -> float:
    parts = [part / 255 / 12.92 if part <= 10 else ((part / 255 + 0.055) / 1.055) ** 2.4 for part in color]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


def test_regression_has_no_probability() -> None:
    assert explanation_lines(explanation(target=None, probability=None), color=False)[0] == (
        "1.500; without words -0.010; sampled shapley"
    )


def test_the_word_whose_tag_is_explained_is_underlined() -> None:
    lines = explanation_lines(
        explanation(word=1, words=(WordEffect("a", 0, 1, 0.3), WordEffect("b", 2, 3, 0.0))), color=True
    )
    assert lines[0].startswith("b: <good>")
    words = (WordEffect("a", 0, 1, 0.3), WordEffect("b", 2, 3, 0.0))
    assert "\x1b[1;4mb\x1b[0m" in explanation_lines(explanation("a b", word=1, words=words), color=True)[1]
    assert '<b class="explained">b</b>' in explanation_page([explanation("a b", word=1, words=words)], title="t")


def test_pairs_have_a_line_for_each_text() -> None:
    words = (WordEffect("a", 0, 1, 1.0, 0), WordEffect("b", 0, 1, -1.0, 1))
    lines = explanation_lines(explanation(("a", "b"), words=words), color=False)
    assert lines[1:3] == ["a", "b"]
    assert explanation_lines(explanation(("a", "b"), words=words[1:]), color=False)[1:3] == ["a", "b"]


def test_the_page_shows_the_whole_text_escaped_and_loads_nothing() -> None:
    page = Page(explanation_page([explanation()], title="<title>"))
    assert TEXT in page.text
    assert page.text.count("<title>") == 2
    assert page.titles == ["-0.500", "+2.000", "+0.010"]
    assert not {"script", "link", "img", "iframe"} & set(page.tags)
    assert page.tags.count("mark") == 3
    assert page.tags.count("b") == 1  # of the headline, not of the text
