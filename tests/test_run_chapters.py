"""The runner: what it stores, and how it names the cell that fails."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tools import run_chapters

ROOT = Path(__file__).resolve().parents[1]

CHAPTER = '''# A chapter

```{code-cell} ipython3
:tags: [tangle:lucid/ops.py]

"""Operations."""
def double(x):
    return 2 * x
```

Twice the same cell, then what goes wrong on purpose.

```{code-cell}
double(2)
```

```{code-cell}
double(2)
```

```{code-cell}
:tags: [raises-exception]

double(None)
```

```{code-cell}
import sys, os
from tools.continued import continued
print("one"); sys.stdout.flush(); print("two")
os.path.basename(os.getcwd())
```
'''


class Book:
    """A small repository and the runner's command line on it."""

    def __init__(self, root: Path, capsys: pytest.CaptureFixture[str]):
        self.root, self.capsys = root, capsys
        (root / "chapters").mkdir()
        (root / "_toc.yml").write_text(
            "format: jb-book\nroot: index\nparts:\n- chapters:\n"
            "  - file: chapters/first\n  - file: second.ipynb\n"
        )

    def run(self, *arguments: str) -> tuple[int, str, str]:
        status = run_chapters.main([*arguments, "--root", str(self.root)])
        said = self.capsys.readouterr()
        return status, said.out, said.err

    def markdown(self, name: str, text: str) -> str:
        path = self.root / f"{name}.md"
        path.write_text(text)
        return str(path)

    def path(self, name: str) -> Path:
        return self.root / f"chapters/{name}.ipynb"

    def cells(self, name: str) -> list[dict]:
        cells = json.loads(self.path(name).read_text())["cells"]
        return [cell for cell in cells if cell["cell_type"] == "code"]

    def edit(self, name: str, cell: int, **changes: object) -> None:
        """Change a code cell of a stored chapter, 1 for the first."""
        notebook = json.loads(self.path(name).read_text())
        code = [c for c in notebook["cells"] if c["cell_type"] == "code"]
        code[cell - 1].update(changes)
        text = json.dumps(notebook, indent=1, sort_keys=True)
        self.path(name).write_text(text + "\n")


@pytest.fixture
def book(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Book:
    return Book(tmp_path, capsys)


def test_a_chapter_is_taken_in_run_and_stored(book: Book) -> None:
    status, out, err = book.run("--from-md", book.markdown("first", CHAPTER))
    assert (status, err) == (0, "")
    assert out.startswith("chapters/first.ipynb: 5 code cells, ")
    stored = book.path("first").read_bytes()
    notebook = json.loads(stored)
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    assert sorted(notebook["metadata"]) == ["kernelspec", "language_info"]
    define, first, again, wrong, last = book.cells("first")
    assert define["metadata"] == {"tags": ["tangle:lucid/ops.py"]}
    assert first["metadata"] == {}
    assert again["id"] == first["id"] + "-2"
    counts = [cell["execution_count"] for cell in book.cells("first")]
    assert counts == [1, 2, 3, 4, 5]
    assert again["outputs"][0]["execution_count"] == 3
    (error,) = wrong["outputs"]
    assert error["traceback"] == [f"{error['ename']}: {error['evalue']}"]
    stream, result = last["outputs"]
    assert stream["text"] == ["one\n", "two\n"]
    assert result["data"]["text/plain"] == ["'chapters'"]

    assert book.run("first")[0] == 0
    assert book.path("first").read_bytes() == stored  # a second run: no diff
    assert book.run("--check", "first") == (0, "", "")

    text = book.run("--to-md", "first")[1]
    assert ":tags: ['tangle:lucid/ops.py']" in text
    (book.root / "elsewhere").mkdir()
    copy = book.markdown("elsewhere/first", text)
    assert book.run("--from-md", "--no-run", copy)[0] == 0
    assert [c["source"] for c in json.loads(stored)["cells"]] == [
        c["source"]
        for c in json.loads(book.path("first").read_text())["cells"]
    ]
    assert "code cell [2] (double(2)): has not run" in book.run("--check")[2]


def test_a_cell_that_raises_is_named(book: Book) -> None:
    text = CHAPTER.replace("double(2)\n```", "double(2) / 0  # here\n```", 1)
    status, out, err = book.run("--from-md", book.markdown("first", text))
    assert (status, out) == (1, "")
    first, *trace = err.rstrip().splitlines()
    assert first == (
        "chapters/first.ipynb, code cell [2] (double(2) / 0  # here):"
    )
    assert trace[-1].strip() == "ZeroDivisionError: division by zero"
    assert any("----> 1 double(2) / 0  # here" in line for line in trace)
    assert "\x1b" not in err
    assert not book.path("first").exists()


def test_the_other_chapters_run_when_one_fails(book: Book) -> None:
    for name, source in (("first", "1 / 0"), ("second", "1 / 1")):
        text = f"```{{code-cell}}\n{source}\n```\n"
        book.run("--from-md", "--no-run", book.markdown(name, text))
    before = book.path("first").read_bytes()
    status, out, err = book.run()
    assert status == 1
    assert "chapters/first.ipynb, code cell [1] (1 / 0):" in err
    assert "chapters/second.ipynb: 1 code cells" in out
    assert book.path("first").read_bytes() == before


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        ("object()", "its output shows ' at 0x'"),
        ("import os\nprint(os.getcwd())", "its output shows"),
        ("import warnings\nwarnings.warn('x')", "its output shows"),
        (
            "display({'image/svg+xml': '<svg><dc:date>1</dc:date>'}, raw=True)",
            "its output shows '<dc:date>'",
        ),
    ],
)
def test_output_that_changes_by_itself_is_refused(
    book: Book, source: str, wanted: str
) -> None:
    text = f"```{{code-cell}}\n{source}\n```\n"
    status, _, err = book.run("--from-md", book.markdown("first", text))
    assert status == 1
    first = source.splitlines()[0]
    assert f"chapters/first.ipynb, code cell [1] ({first}): {wanted}" in err
    assert not book.path("first").exists()


@pytest.fixture
def stored(book: Book) -> Book:
    """A chapter as a run stores it, without the time that a run takes."""
    text = "```{code-cell}\nprint(1)\n```\n```{code-cell}\nprint(2)\n```\n"
    book.run("--from-md", "--no-run", book.markdown("first", text))
    for number in 1, 2:
        stream = {"output_type": "stream", "name": "stdout"}
        output = stream | {"text": [f"{number}\n"]}
        book.edit("first", number, execution_count=number, outputs=[output])
    assert book.run("--check") == (0, "", "")
    return book


ERROR = {
    "output_type": "error",
    "ename": "E",
    "evalue": "no",
    "traceback": ["E: no"],
}


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({"execution_count": None}, "code cell [2] (print(2)): has not run"),
        ({"execution_count": 7}, "is not stored as"),
        ({"id": "abc"}, "is not stored as"),
        ({"metadata": {"collapsed": True}}, "is not stored as"),
        ({"outputs": [ERROR]}, "code cell [2] (print(2)): raised an error"),
        (
            {"metadata": {"tags": ["raises-exception"]}},
            "code cell [2] (print(2)): did not raise an error",
        ),
    ],
)
def test_check_names_what_is_not_as_a_run_leaves_it(
    stored: Book, changes: dict, wanted: str
) -> None:
    stored.edit("first", 2, **changes)
    before = stored.path("first").read_bytes()
    status, _, err = stored.run("--check")
    assert status == 1
    assert err.startswith("chapters/first.ipynb, ")
    assert wanted in err
    assert stored.path("first").read_bytes() == before


def test_a_chapter_that_is_not_there(book: Book) -> None:
    status, _, err = book.run("--check", "third")
    assert (status, err) == (
        1,
        "chapters/third.ipynb: there is no such chapter\n",
    )


def test_runs_as_a_script_from_anywhere(stored: Book) -> None:
    stored.edit("first", 1, execution_count=None)
    script = [sys.executable, str(ROOT / "tools/run_chapters.py"), "--check"]
    result = subprocess.run(
        [*script, "--root", str(stored.root)],
        cwd=stored.root,
        capture_output=True,
        text=True,
    )
    assert result.returncode == 1
    assert (
        "chapters/first.ipynb, code cell [1] (print(1)): has not run"
        in result.stderr
    )
