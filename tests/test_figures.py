"""Figures are the same each time, read on any page, and say what they show."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tools import figures


def picture():
    fig, ax = figures.figure(height=2)
    ax.plot([1, 2, 3], label="rise")
    ax.legend()
    ax.grid(True)
    ax.set(xlabel="step", ylabel="$\\sigma$")
    return figures.to_html(fig, "A line that rises from 1 to 3.", "Rising.")


def test_same_figure_same_text():
    assert picture() == picture()


def test_ink_is_the_pages_and_nothing_is_painted_below_it():
    text = picture()
    assert "currentColor" in text
    assert figures.INK not in text and figures.FAINT not in text
    assert not re.search(r"#000000|#ffffff|\bblack\b|\bwhite\b", text)


def test_description_for_those_who_do_not_see_it():
    text = picture()
    assert 'role="img" aria-label="A line that rises from 1 to 3."' in text
    assert "<title>A line that rises from 1 to 3.</title>" in text
    with pytest.raises(ValueError, match="alt: say what the figure shows"):
        figures.to_html(figures.figure()[0], "plot")


def test_names_within_are_unlike_those_of_another_figure():
    fig, ax = figures.figure(height=2)
    figures.heatmap(ax, np.eye(3), "abc", "abc", numbers=".1f")
    other = figures.to_html(fig, "The identity, a diagonal of ones.")
    ids = [
        set(re.findall(r' id="([^"]*)"', text))
        for text in (picture(), other)
    ]
    assert ids[0] and ids[1] and not ids[0] & ids[1]
    for text in (picture(), other):
        used = set(re.findall(r'(?:href="#|url\(#)([\w.-]+)', text))
        assert used <= set(re.findall(r' id="([^"]*)"', text))


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [
        c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4
        for c in parts
    ]
    return float(np.dot(linear, (0.2126, 0.7152, 0.0722)))


@pytest.mark.parametrize(
    "colour", [*figures.PALETTE, figures.RED, figures.GREY]
)
@pytest.mark.parametrize("page", ["#fffefc", "#15181c"])
def test_lines_stand_out_on_light_and_dark_pages(colour, page):
    high, low = sorted((luminance(colour), luminance(page)), reverse=True)
    assert (high + 0.05) / (low + 0.05) >= 3.0
