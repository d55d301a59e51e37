"""Run the checks of `make test`, all or those named, and say how each went.

python tools/check.py [tangle] [chapters] [lint] [types] [book] [tests] [cupy]
                       [notebooks]
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYTHON = sys.executable
BIN = Path(PYTHON).parent
WORKERS = str(min(4, max(2, os.cpu_count() or 2)))
CHAPTERS = [
    str(p.relative_to(ROOT)) for p in sorted(ROOT.glob("chapters/*.ipynb"))
]
TEST = [PYTHON, "-m", "pytest", "-q", "-n", WORKERS]

# name: what it shows, its commands, what to do when it fails
CHECKS = {
    "tangle": (
        "lucid/ is what the chapters say",
        [[PYTHON, "tools/tangle.py", "--check"]],
        "Change the chapter, not lucid/, then: make tangle",
    ),
    "chapters": (
        "every chapter is stored as run",
        [[PYTHON, "tools/run_chapters.py", "--check"]],
        "Run and store them again: .venv/bin/python tools/run_chapters.py",
    ),
    "lint": (
        "the code is clean",
        [
            [PYTHON, "-m", "ruff", "check", "-q", "."],
            [PYTHON, "-m", "ruff", "format", "--check", "-q", "."],
        ],
        "See: .venv/bin/ruff check . ; for lucid/, change the chapter",
    ),
    "types": (
        "the types agree",
        [[PYTHON, "-m", "mypy"]],
        "See the lines above; for lucid/, change the chapter",
    ),
    "book": (
        "the book builds, warnings being errors",
        [
            [str(BIN / "jupyter-book"), "build", ".", "--all", "-W", "-n"]
            + ["--keep-going", "--quiet"]
        ],
        "Each WARNING above names its page; then: make book",
    ),
    "tests": (
        "the tests and the package's examples pass",
        [[*TEST, "tests"]],
        "One of them alone: .venv/bin/pytest tests/test_NAME.py",
    ),
    "cupy": (
        "the package keeps CuPy's rules: its tests on a strict stand-in, and "
        "each call against CuPy's signatures",
        [
            [*TEST, "--backend=cupy-double", "tests"],
            [*TEST, "--backend=audit", "tests"],
        ],
        "See tests/cupy_double.py, which says what is refused and why",
    ),
    "notebooks": (
        "every chapter runs and prints what it shows",
        [[*TEST, "--dist", "loadfile", "--nbval", *CHAPTERS]]
        if CHAPTERS
        else [],
        "If the new output is right: .venv/bin/python tools/run_chapters.py NAME",
    ),
}


def environment() -> dict[str, str]:
    """Each worker keeps to one core; nothing is left in the source tree."""
    env = dict(os.environ)
    env["PATH"] = f"{BIN}{os.pathsep}{env.get('PATH', '')}"
    env["PYTHONDONTWRITEBYTECODE"] = "1"
    for name in (
        "OMP_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "MKL_NUM_THREADS",
    ):
        env.setdefault(name, "1")
    return env


def run(names: list[str]) -> int:
    failed = []
    began = time.monotonic()
    for number, name in enumerate(names, 1):
        what, commands, advice = CHECKS[name]
        print(f"\n[{number}/{len(names)}] {name}: {what}", flush=True)
        if name == "book":
            shutil.rmtree(ROOT / "_build", ignore_errors=True)
        start = time.monotonic()
        codes = [
            subprocess.call(c, cwd=ROOT, env=environment()) for c in commands
        ]
        if any(codes):
            failed.append((name, advice))
            print(
                f"    FAILED after {time.monotonic() - start:.0f} s. {advice}"
            )
        else:
            print(f"    passed in {time.monotonic() - start:.0f} s")
    minutes, seconds = divmod(time.monotonic() - began, 60)
    print(
        f"\n{len(names) - len(failed)} of {len(names)} checks passed",
        end=" ",
    )
    print(f"in {minutes:.0f} min {seconds:.0f} s.")
    for name, advice in failed:
        print(f"  {name} failed. {advice}")
    return 1 if failed else 0


if __name__ == "__main__":
    unknown = [name for name in sys.argv[1:] if name not in CHECKS]
    if unknown:
        sys.exit(f"check: no such check {unknown}; there are {list(CHECKS)}")
    sys.exit(run(sys.argv[1:] or list(CHECKS)))
