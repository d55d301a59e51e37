"""The examples in the package's docstrings do what they show."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import numpy as np
import pytest

import lucid

NAMES = ["lucid"] + [
    info.name for info in pkgutil.walk_packages(lucid.__path__, "lucid.")
]


@pytest.mark.parametrize("name", NAMES)
def test_examples(name):
    module = importlib.import_module(name)
    # What every reader of the book has at hand, besides the module's own names.
    names = {"np": np, "lucid": lucid, **vars(module)}
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    result = doctest.testmod(module, globs=names, optionflags=flags)
    assert result.failed == 0, (
        f"{result.failed} of {result.attempted} examples fail"
    )
