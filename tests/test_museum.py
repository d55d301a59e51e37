"""The bug museum names tests and links threads: both must be there."""

import ast
import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CHAPTER = ROOT / "chapters" / "bug-museum.ipynb"


def exhibits():
    """The text of each exhibit, by its heading."""
    cells = json.loads(CHAPTER.read_text("utf-8"))["cells"]
    text = "\n\n".join(
        "".join(cell["source"])
        for cell in cells
        if cell["cell_type"] == "markdown"
    )
    parts = re.split(r"^(#{2,3} .*)$", text, flags=re.MULTILINE)
    titled = zip(parts[1::2], parts[2::2], strict=True)
    return {
        title.lstrip("# "): body
        for title, body in titled
        if re.match(r"### \d+\.", title)
    }


def existing():
    """The names of the behaviour tests."""
    source = (ROOT / "tests" / "test_behaviours.py").read_text("utf-8")
    return {
        node.name
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef)
    }


def test_there_are_at_least_ten_exhibits():
    numbers = [int(title.split(".")[0]) for title in exhibits()]
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(numbers) >= 10


@pytest.mark.parametrize("title", exhibits())
def test_an_exhibit_is_complete(title):
    body = exhibits()[title]
    for word in ("Symptom", "Reason", "Reported", "Caught by"):
        assert f"**{word}" in body, f"{title}: no {word}"
    links = re.findall(
        r"https://github\.com/[\w-]+/[\w.-]+/(?:issues|pull)/\d+", body
    )
    assert links, f"{title}: no link"


@pytest.mark.parametrize("title", exhibits())
def test_named_tests_exist(title):
    named = re.findall(r"`(test_\w+)`", exhibits()[title])
    assert named, f"{title}: no test is named"
    assert [name for name in named if name not in existing()] == []
