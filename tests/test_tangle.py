"""The tangler: what it writes, and how it names what is wrong."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tools import tangle

ROOT = Path(__file__).resolve().parents[1]
OPS = "tangle:lucid/ops.py"
LINEAR = "tangle:lucid/nn/linear.py"


class Book:
    """A small repository: chapters of (tag, source) cells."""

    def __init__(self, root: Path, capsys: pytest.CaptureFixture[str]):
        self.root, self.capsys, self.names = root, capsys, []
        (root / "chapters").mkdir()
        shutil.copy(ROOT / "pyproject.toml", root)

    def chapter(self, name: str, *cells: tuple[str, str]) -> None:
        code = [
            {
                "cell_type": "code",
                "metadata": {"tags": tag.split()},
                "source": source.splitlines(keepends=True),
                "outputs": [],
                "execution_count": None,
            }
            for tag, source in cells
        ]
        prose = {
            "cell_type": "markdown",
            "metadata": {},
            "source": "# Title",
        }
        notebook = {
            "cells": [prose, *code],
            "metadata": {},
            "nbformat": 4,
            "nbformat_minor": 4,
        }
        (self.root / f"chapters/{name}.ipynb").write_text(
            json.dumps(notebook)
        )
        if name not in self.names:
            self.names.append(name)
        files = "".join(
            f"      - file: chapters/{name}\n" for name in self.names
        )
        self.toc(f"parts:\n  - caption: I\n    chapters:\n{files}")

    def toc(self, text: str) -> None:
        (self.root / "_toc.yml").write_text(
            "format: jb-book\nroot: index\n" + text
        )

    def tangle(self, *options: str) -> tuple[int, str]:
        """Run the command; return its status and what it said of faults."""
        status = tangle.main([*options, "--root", str(self.root)])
        return status, self.capsys.readouterr().err

    def text(self, target: str) -> str:
        return (self.root / target).read_text()

    def faults(self) -> str:
        """Tangle chapters that are wrong; return the message."""
        status, message = self.tangle()
        assert status == 1
        assert len(message.strip().splitlines()) == 1, message
        return message


@pytest.fixture
def book(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Book:
    return Book(tmp_path, capsys)


@pytest.fixture
def two_chapters(book: Book) -> Book:
    book.chapter(
        "arrays",
        ("", "%matplotlib inline\nimport numpy as np\nimport math, os\n!ls"),
        ("", "from tools.continued import continued"),
        (
            OPS,
            '# lucid/ops.py\n"""Operations."""\n# Small.\nEPS = 1e-5  # inline\n'
            "TWO = 2\n\n\n# Above.\ndef double(a: 'Tensor'):\n    # Inside.\n"
            "    return TWO * np.exp(a)\n# Below.",
        ),
        (OPS, 'class Tensor:\n    """A tensor."""\n\n    size = 0'),
        ("", "double(1)"),
        (
            OPS,
            "# Of a circle.\n@continued\nclass Tensor:  # carried on\n"
            "    # Half of it.\n    def area(self):\n        return math.pi  # all",
        ),
        (LINEAR, '"""Linear."""\ndef linear(x): return double(x)'),
    )
    book.chapter(
        "calculus",
        (
            "",
            "from lucid.ops import Tensor\nfrom tools.continued import continued",
        ),
        (
            OPS,
            "@continued\nclass Tensor:\n    def backward(self):\n        return EPS",
        ),
        (OPS, "def last(): return Tensor()"),
    )
    return book


def test_a_module_spread_over_two_chapters(two_chapters: Book) -> None:
    assert two_chapters.tangle() == (0, "")
    assert two_chapters.text("lucid/ops.py") == (
        "# Tangled from chapters/arrays.ipynb, chapters/calculus.ipynb; edit those,\n"
        "# not this file.\n"
        '''"""Operations."""

from __future__ import annotations

import math

import numpy as np

# Small.
EPS = 1e-5  # inline
TWO = 2


# Above.
def double(a: Tensor):
    # Inside.
    return TWO * np.exp(a)


# Below.


class Tensor:
    """A tensor."""

    size = 0

    # Of a circle.
    # Half of it.
    def area(self):
        return math.pi  # all

    def backward(self):
        return EPS


def last():
    return Tensor()
'''
    )
    assert two_chapters.text("lucid/nn/linear.py") == (
        "# Tangled from chapters/arrays.ipynb; edit that, not this file.\n"
        '''"""Linear."""

from __future__ import annotations

from lucid.ops import double


def linear(x):
    return double(x)
'''
    )


def test_the_order_is_that_of_the_table_of_contents(
    two_chapters: Book,
) -> None:
    two_chapters.toc("chapters:\n- file: calculus.ipynb\n- file: arrays\n")
    assert (
        "calculus.ipynb, code cell [2] (@continued)" in two_chapters.faults()
    )
    two_chapters.toc(
        "parts:\n- chapters:\n  - file: chapters/arrays.ipynb\n    sections:\n"
        "    - file: calculus\n  - file: chapters/glossary\n"
    )
    assert two_chapters.tangle() == (0, "")


def test_check_passes_after_writing_and_writes_nothing(
    two_chapters: Book,
) -> None:
    assert two_chapters.tangle("--check")[0] == 1
    assert not (two_chapters.root / "lucid").exists()
    two_chapters.tangle()
    assert two_chapters.tangle("--check") == (0, "")


def test_stale_file(two_chapters: Book) -> None:
    two_chapters.tangle()
    path = two_chapters.root / "lucid/ops.py"
    path.write_text(path.read_text().replace("math.pi", "3"))
    status, message = two_chapters.tangle("--check")
    assert status == 1
    assert message.startswith(
        "lucid/ops.py: is stale; "
        "see chapters/arrays.ipynb, code cell [6] (# Of a circle.)"
    )
    assert (
        "-        return 3  # all\n+        return math.pi  # all\n"
        in message
    )
    assert two_chapters.tangle() == (0, "")
    assert "math.pi" in path.read_text()


def test_a_line_added_by_hand_is_stale(two_chapters: Book) -> None:
    two_chapters.tangle()
    path = two_chapters.root / "lucid/nn/linear.py"
    path.write_text(path.read_text() + "\nBY_HAND = 1\n")
    status, message = two_chapters.tangle("--check")
    assert status == 1
    assert (
        "lucid/nn/linear.py: is stale; see chapters/arrays.ipynb, code"
        in message
    )
    assert "-BY_HAND = 1" in message


def test_stale_by_its_last_newline_alone(two_chapters: Book) -> None:
    two_chapters.tangle()
    path = two_chapters.root / "lucid/nn/linear.py"
    path.write_text(path.read_text().rstrip("\n"))
    assert two_chapters.tangle("--check")[0] == 1


def test_missing_file(two_chapters: Book) -> None:
    two_chapters.tangle()
    (two_chapters.root / "lucid/nn/linear.py").unlink()
    assert two_chapters.tangle("--check") == (
        1,
        "lucid/nn/linear.py: is missing; "
        'chapters/arrays.ipynb, code cell [7] ("""Linear.""") begins it\n',
    )


def test_left_over_file_of_ours_is_removed(two_chapters: Book) -> None:
    two_chapters.tangle()
    two_chapters.chapter("calculus", ("", "1"))
    two_chapters.chapter("arrays", (OPS, '"""Operations."""'))
    status, message = two_chapters.tangle("--check")
    assert status == 1
    assert "lucid/nn/linear.py: is left over" in message
    assert "chapters/arrays.ipynb" in message  # as its first line says
    assert two_chapters.tangle() == (0, "")
    assert not (two_chapters.root / "lucid/nn/linear.py").exists()


def test_left_over_file_of_others_is_kept_and_named(
    two_chapters: Book,
) -> None:
    two_chapters.tangle()
    (two_chapters.root / "lucid/by_hand.py").write_text("X = 1\n")
    assert "lucid/by_hand.py: is left over" in two_chapters.faults()
    assert two_chapters.text("lucid/by_hand.py") == "X = 1\n"


@pytest.mark.parametrize("tag", [OPS, "", f"{OPS} raises-exception"])
def test_a_broken_cell_is_named(book: Book, tag: str) -> None:
    book.chapter("arrays", ("", "1"), (tag, "\n\ndef broken(:\n    pass"))
    book.chapter("calculus", (LINEAR, '"""Linear."""'))
    message = book.faults()
    assert message == (
        "chapters/arrays.ipynb, code cell [2] (def broken(:): line 3: invalid syntax\n"
    )
    assert (
        book.root / "lucid/nn/linear.py"
    ).exists()  # the others are written


def test_a_cell_meant_to_be_broken_may_be(book: Book) -> None:
    book.chapter(
        "arrays", ("raises-exception", "1 +"), (OPS, '"""Operations."""')
    )
    assert book.tangle() == (0, "")


def test_a_percent_sign_at_the_start_of_a_line_may_be_python(
    book: Book,
) -> None:
    book.chapter(
        "arrays",
        ("", "import math\nprint('%s'\n      % math.pi)"),
        ("", "%%bash\nls |"),
        (OPS, '"""Operations."""\nTAU = 2 * math.pi'),
    )
    assert book.tangle() == (0, "")


def test_a_tangled_cell_is_python_alone(book: Book) -> None:
    book.chapter("arrays", (OPS, '"""Operations."""\n%matplotlib inline'))
    assert "chapters/arrays.ipynb, code cell [1]" in book.faults()


def test_code_that_parses_but_does_not_compile(book: Book) -> None:
    book.chapter("arrays", (OPS, '"""Operations."""\nreturn 1'))
    message = book.faults()
    assert "chapters/arrays.ipynb, code cell [1]" in message
    assert "'return' outside function" in message


TENSOR = (
    OPS,
    '"""Operations."""\nclass Tensor:\n    def area(self): return 1',
)


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        (
            "@continued\nclass Tensor:\n    def area(self): return 2",
            "lucid/ops.py defines Tensor.area twice",
        ),
        ("class Tensor:\n    pass", "lucid/ops.py defines Tensor twice"),
        ("def f(): pass\ndef f(): pass", "lucid/ops.py defines f twice"),
        (
            "async def f(): pass\ndef f(): pass",
            "lucid/ops.py defines f twice",
        ),
        (
            "@continued\nclass Module:\n    x = 1",
            "lucid/ops.py: no class Module yet",
        ),
        (
            '@continued\nclass Tensor:\n    """Again."""',
            "continue it with a plain `class Tensor:`",
        ),
        (
            "@continued\nclass Tensor(object):\n    x = 1",
            "continue it with a plain `class Tensor:`",
        ),
        (
            "@continued\nclass Tensor: x = 1",
            "continue it with a plain `class Tensor:`",
        ),
        (
            "@print\n@continued\nclass Tensor:\n    x = 1",
            "continue it with a plain `class Tensor:`",
        ),
        ('"""Again."""', "lucid/ops.py has its docstring already"),
        ("def f(): return nowhere", "lucid/ops.py uses 'nowhere'"),
        ("def f(x: nowhere): pass", "lucid/ops.py uses 'nowhere'"),
        ("def f() -> 'list[nowhere]': pass", "lucid/ops.py uses 'nowhere'"),
        ("class A:\n    x: 'nowhere'", "lucid/ops.py uses 'nowhere'"),
        ("@nowhere\ndef f(): pass", "lucid/ops.py uses 'nowhere'"),
        (
            "class A:\n    x = 1\n    def f(self): return x",
            "lucid/ops.py uses 'x'",
        ),
        (
            "def f():\n    [v for v in ()]\n    return v",
            "lucid/ops.py uses 'v'",
        ),
        ("def f(): return demo", "lucid/ops.py uses 'demo'"),
        (
            "def f(): return twice",
            "which 'twice' is it? from a import twice; from b",
        ),
        ("# lucid/nn/linear.py\nX = 1", "the tag says lucid/ops.py"),
    ],
)
def test_what_a_cell_may_not_do(
    book: Book, source: str, wanted: str
) -> None:
    others = ("", "demo = 1\nfrom a import twice\nfrom b import twice")
    book.chapter("arrays", others, TENSOR, (OPS, source))
    message = book.faults()
    first = source.splitlines()[0]
    assert message.startswith(
        f"chapters/arrays.ipynb, code cell [3] ({first}): "
    )
    assert wanted in message


@pytest.mark.parametrize(
    "source",
    [
        "def f(a, *b, c=1, **d): return [a, b, c, d]",
        "def f(): return [x + y for x in () for y in {z: z for z in ()}]",
        "def f():\n    try: pass\n    except ValueError as error: raise error",
        "class A:\n    x = 1\n    y: int = x\n    def f(self): return __class__",
        "EPS = 1\ndef f(x=EPS): return EPS",
        "def f(x: 'g'): return g(x)\ndef g(x): return f(x)",
        "def f():\n    import scipy.special\n    return scipy.special.erf",
        "def f():\n    with open('x') as file: return file, (n := 1), n",
        "try:\n    import cupy\nexcept ImportError:\n    cupy = None\nX = cupy",
        "def f():\n    global CACHE\n    CACHE = 1\ndef g(): return CACHE",
        "def f(x: Literal['some words']) -> 'Literal[\"nowhere\"]': return lambda q: q",
        "X = __name__, __file__, __doc__",
        "class A:\n    @property\n    def x(self): return 1\n"
        "    @x.setter\n    def x(self, v): pass",
    ],
)
def test_names_that_need_no_import(book: Book, source: str) -> None:
    cell = (OPS, '"""Operations."""\n' + source)
    book.chapter("arrays", ("", "from typing import Literal"), cell)
    assert book.tangle() == (0, "")
    lines = book.text("lucid/ops.py").splitlines()
    imports = [
        line for line in lines if line.startswith(("import ", "from "))
    ]
    assert set(imports) <= {
        "from __future__ import annotations",
        "from typing import Literal",
    }
    assert ("from typing import Literal" in imports) == ("Literal" in source)


def test_imports_are_sorted_and_only_those_used(book: Book) -> None:
    book.chapter(
        "arrays",
        (
            "",
            "from typing import Any, Self\nimport scipy.special\nimport scipy.linalg",
        ),
        (
            "",
            "import numpy as np, os\nfrom lucid.backend import erf as raw\nimport abc",
        ),
        (
            OPS,
            'from json import (\n    loads,\n    dumps,\n)\n"""No docstring."""\n',
        ),
    )
    assert "begins without a docstring" in book.faults()
    book.chapter(
        "arrays",
        (
            "",
            "from typing import Any, Self\nimport scipy.special\nimport scipy.linalg",
        ),
        (
            "",
            "import numpy as np, os\nfrom lucid.backend import erf as raw\nimport abc",
        ),
        (
            OPS,
            '"""Operations."""\nfrom json import (\n    loads,\n    dumps,\n)\n\n'
            "# Stays.\nX = scipy.special.erf, np.pi, raw, loads\n"
            'def f(x: "Any"): return abc.ABC\n',
        ),
    )
    assert book.tangle() == (0, "")
    assert """
from __future__ import annotations

import abc
from json import loads
from typing import Any

import numpy as np
import scipy.linalg
import scipy.special

from lucid.backend import erf as raw

# Stays.
X = """ in book.text("lucid/ops.py")


def test_init_modules_pass_names_on(book: Book) -> None:
    book.chapter(
        "arrays",
        ("", "from importlib.metadata import version"),
        (
            OPS,
            '"""Operations."""\ndef add(a, b): return a + b\ndef _hidden(): pass',
        ),
        (
            "tangle:lucid/__init__.py",
            '"""The package."""\nimport os\nfrom lucid.ops import add, _hidden\n'
            '__version__ = version("lucid")\n',
        ),
        (LINEAR, '"""Linear."""\ndef linear(x): return add(x, x)'),
        (
            "tangle:lucid/nn/__init__.py",
            '"""Layers."""\nfrom .linear import linear',
        ),
        (
            "tangle:lucid/nn/deep.py",
            '"""Deep."""\ndef deep(x): return linear(x)',
        ),
    )
    book.chapter(
        "calculus",
        ("tangle:lucid/__init__.py", "from lucid import nn\nLIMIT = 1"),
    )
    assert book.tangle() == (0, "")
    assert '''"""The package."""

from __future__ import annotations

from importlib.metadata import version

from lucid import nn
from lucid.ops import _hidden, add

__all__ = ["LIMIT", "add", "nn"]

__version__ = version("lucid")

LIMIT = 1
''' in book.text("lucid/__init__.py")
    assert "\nfrom .linear import linear\n" in book.text(
        "lucid/nn/__init__.py"
    )
    assert "\nfrom lucid.ops import add\n" in book.text("lucid/nn/linear.py")
    home = "\nfrom lucid.nn.linear import linear\n"
    assert home in book.text("lucid/nn/deep.py")


def test_a_name_defined_in_the_chapter_is_imported_from_its_home(
    book: Book,
) -> None:
    cells = [
        (OPS, '"""Operations."""\ndef add(a, b): return a + b'),
        (LINEAR, '"""Linear."""\ndef linear(x): return add(x, x)'),
    ]
    book.chapter("arrays", *cells, ("", "from lucid import add"))
    assert book.tangle() == (0, "")
    assert "\nfrom lucid.ops import add\n" in book.text("lucid/nn/linear.py")
    book.chapter("arrays", *cells, ("", "from operator import add"))
    assert "which 'add' is it?" in book.faults()
    other = (
        "tangle:lucid/other.py",
        '"""Other."""\ndef add(a, b): return a + b',
    )
    book.chapter("arrays", *cells, other)
    assert "which 'add' is it?" in book.faults()


def test_the_tag_names_one_file_of_the_package(book: Book) -> None:
    for tag in "tangle:lucid/../x.py", f"{OPS} {LINEAR}", "tangle:lucid/ops":
        book.chapter("arrays", (tag, '"""Operations."""'))
        message = book.faults()
        assert message.startswith("chapters/arrays.ipynb, code cell [1]")
        assert "wants one tag" in message


def test_a_chapter_that_is_not_in_the_table_of_contents(
    two_chapters: Book,
) -> None:
    two_chapters.toc("chapters:\n- file: arrays\n")
    assert (
        "chapters/calculus.ipynb: is not listed in _toc.yml"
        in two_chapters.faults()
    )


def test_a_file_that_is_no_notebook(two_chapters: Book) -> None:
    (two_chapters.root / "chapters/arrays.ipynb").write_text("<<<<<<< HEAD")
    status, message = two_chapters.tangle()
    assert status == 1
    assert message.startswith("chapters/arrays.ipynb: is not a notebook: ")


def test_the_output_passes_the_linter(two_chapters: Book) -> None:
    two_chapters.tangle()
    for command in (
        ["check"],
        ["check", "--select", "I"],
        ["format", "--check"],
    ):
        subprocess.run(
            [sys.executable, "-m", "ruff", *command, "--no-cache", "lucid"],
            cwd=two_chapters.root,
            check=True,
        )


def test_runs_as_a_script_from_anywhere(
    two_chapters: Book, tmp_path: Path
) -> None:
    script = [sys.executable, str(ROOT / "tools/tangle.py"), "--check"]
    result = subprocess.run(
        [*script, "--root", str(two_chapters.root)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert result.returncode == 1
    assert "lucid/ops.py: is missing; chapters/arrays.ipynb" in result.stderr


BEGUN = """
import functools
from tools.continued import continued

def logged(function):
    @functools.wraps(function)
    def wrapper(*arguments):
        return function(*arguments)
    return wrapper

class Base:
    def name(self): return "base"
    def kind(self): return "base"

class Tensor(Base):
    "A tensor."
    size: int = 1

begun, early = Tensor, Tensor()

@continued
class Tensor:
    rank: int = 2
    def name(self): return "tensor, " + super().name()
"""


def test_continued_adds_to_the_class_in_place() -> None:
    cell: dict = {}
    exec(BEGUN, cell)
    early, tensor = cell["early"], cell["Tensor"]
    assert tensor is cell["begun"]
    assert early.name() == "tensor, base"  # bare super()
    assert tensor.__doc__ == "A tensor."
    assert [*tensor.__annotations__] == ["size", "rank"]
    assert early.rank == 2


@pytest.mark.parametrize(
    "method",
    [
        "def own(self): return __class__",
        "@logged\n    def own(self): return __class__",
        "@staticmethod\n    def own(): return __class__",
        "@classmethod\n    def own(cls): return __class__",
        "@property\n    def own(self): return lambda: __class__",
        "@functools.cached_property\n    def own(self): return lambda: __class__",
    ],
)
def test_continued_methods_know_their_class(method: str) -> None:
    cell: dict = {}
    exec(f"{BEGUN}\n@continued\nclass Tensor:\n    {method}\n", cell)
    assert cell["early"].own() is cell["Tensor"]  # so that super() works


@pytest.mark.parametrize(
    ("source", "error", "wanted"),
    [
        ("class Module:\n    x = 1", NameError, "no class Module"),
        (
            "class Tensor(int):\n    x = 1",
            TypeError,
            "plain `class Tensor:`",
        ),
        ("class Tensor:\n    'Again.'", TypeError, "plain `class Tensor:`"),
    ],
)
def test_continued_refuses(
    source: str, error: type[Exception], wanted: str
) -> None:
    cell: dict = {}
    exec(BEGUN, cell)
    with pytest.raises(error, match=wanted):
        exec(f"@continued\n{source}", cell)
