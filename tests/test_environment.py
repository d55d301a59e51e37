"""pyproject.toml and environment.yml ask for the same packages."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))[
    "project"
]
# What the conda environment is for: reading, running and proving the book.
EXTRAS = ("book", "lab", "test")


def wanted_by_project() -> dict[str, SpecifierSet]:
    lines = list(PROJECT["dependencies"])
    for extra in EXTRAS:
        lines += PROJECT["optional-dependencies"][extra]
    found = {}
    for line in lines:
        requirement = Requirement(line)
        name = canonicalize_name(requirement.name)
        if name != PROJECT["name"]:
            found[name] = requirement.specifier
    return found


def wanted_by_conda() -> dict[str, SpecifierSet]:
    text = (ROOT / "environment.yml").read_text("utf-8")
    below = text.split("dependencies:\n", 1)[1]
    found = {}
    for line in re.findall(r"^ +- ([^-:\n][^:\n]+)$", below, re.M):
        requirement = Requirement(line)
        found[canonicalize_name(requirement.name)] = requirement.specifier
    return found


def test_same_packages_and_versions():
    conda = wanted_by_conda()
    python = conda.pop("python")
    conda.pop("pip")
    assert python == SpecifierSet(PROJECT["requires-python"])
    assert conda == wanted_by_project()


def test_conda_installs_the_package_itself():
    text = (ROOT / "environment.yml").read_text("utf-8")
    assert re.search(r"^  - pip:\n      - -e \.$", text, re.M)


def test_the_two_conda_environments_differ_by_cupy_alone():
    with_cupy, without = [], []
    for name in ("environment.yml", "environment-cuda.yml"):
        lines = (ROOT / name).read_text("utf-8").splitlines()
        with_cupy.append([line.strip() for line in lines if "cupy" in line])
        without.append([line for line in lines if "cupy" not in line])
    assert without[0] == without[1]
    wheel, package = (lines[0].removeprefix("- ") for lines in with_cupy)
    assert len(with_cupy[0]) == len(with_cupy[1]) == 1
    assert wheel in PROJECT["optional-dependencies"]["test"]
    for extra in ("cuda12", "cuda13"):  # what pip gives a CUDA machine
        (line,) = PROJECT["optional-dependencies"][extra]
        requirement = Requirement(line)
        assert requirement.extras == {"ctk"}
        assert requirement.specifier == Requirement(package).specifier


def test_this_interpreter_is_among_the_named_ones():
    from platform import python_version

    supported = SpecifierSet(PROJECT["requires-python"])
    assert Version(python_version()) in supported


def test_theme_shows_one_search_bar():
    """sphinx-book-theme 1.3 shows two; the pin must keep it out."""
    theme = wanted_by_project()["sphinx-book-theme"]
    assert Version("1.3.0") not in theme
    assert Version("1.1.4") in theme
