"""The suite on another backend: ``pytest --backend=...``.

numpy         as always
audit         on NumPy; each call ``xp.name(...)`` is tried on CuPy's signature
cupy-double   on the strict stand-in for CuPy; nothing in the hot path waits
cupy          on a GPU, which is also ``pytest -m cuda``

Everything but the first runs the tests of the package alone.
"""

from __future__ import annotations

import importlib.util
import inspect
import sys
import types
from collections.abc import Iterator

import numpy as np
import pytest

import lucid
from lucid.backend import (
    array_module,
    arrays,
    blocks,
    random,
    special,
    switch,
)

CHOICES = ("numpy", "audit", "cupy-double", "cupy")

# Files that test the book, the tools, or the backends themselves.
NOT_THE_PACKAGE = {
    "test_backend.py",
    "test_benchmarks.py",
    "test_book.py",
    "test_cupy_breaks.py",
    "test_cupy_contract.py",
    "test_cupy_wheel.py",
    "test_doctests.py",
    "test_environment.py",
    "test_figures.py",
    "test_gpu_check.py",
    "test_museum.py",
    "test_passes.py",
    "test_reference_pages.py",
    "test_run_chapters.py",
    "test_tangle.py",
}


NEEDS = {  # what a machine with little else than a GPU may lack
    "test_operations.py": "hypothesis",
    "test_text.py": "tokenizers",
    "test_roundtrip_transformers.py": "transformers",
}


def left_out(name: str) -> bool:
    """Whether a file of tests is not collected in this run."""
    if Chosen.name == "numpy":
        return False
    needed = NEEDS.get(name)
    missing = needed is not None and importlib.util.find_spec(needed) is None
    return name in NOT_THE_PACKAGE or (Chosen.name == "cupy" and missing)


# ---- the double: nothing waits in the hot path --------------------------------

# The methods of a tensor that fetch its values, move it, or take an index
# from the host. All others belong to the hot path.
FETCH = set(
    "numpy item tolist host_values to _note __getitem__ __bool__ __float__ "
    "__int__ __iter__ __repr__ __deepcopy__ __init__".split()
)


def hot_path() -> set[types.CodeType]:
    """The functions inside which nothing may wait for the device."""
    found = [lucid.nn.Module.__call__]
    found += [
        f for name, f in vars(lucid.Tensor).items() if name not in FETCH
    ]
    for module in (lucid.nn.functional, lucid.ops):
        found += [f for f in vars(module).values() if inspect.isfunction(f)]
    if importlib.util.find_spec("lucid.optim"):
        optim = importlib.import_module("lucid.optim")
        for thing in vars(optim).values():
            found += [getattr(thing, "step", None)]
    return {f.__code__ for f in found if inspect.isfunction(f)}


def refuse_waits() -> None:
    """Make the double raise where the package waits in the hot path."""
    from cupy_double import WATCH

    hot = hot_path()
    asks = lucid.Tensor.host_values

    def watch(why: str) -> None:
        frame: types.FrameType | None = sys._getframe(1)
        while frame is not None:
            if frame.f_code is asks.__code__:
                return  # integers that were computed on the device
            if frame.f_code in hot:
                name = frame.f_code.co_name
                raise AssertionError(
                    f"{why}: {name} waits for the device, or copies"
                )
            frame = frame.f_back

    def host_values(self: lucid.Tensor) -> np.ndarray:
        """Compare what the host has noted with what lies on the device."""
        values = asks(self)
        np.testing.assert_array_equal(values, self.data._array)
        return values

    WATCH[:] = [watch]
    lucid.Tensor.host_values = host_values  # type: ignore[method-assign]


# ---- the audit: every call fits CuPy's signature --------------------------------


class Recorder(types.ModuleType):
    """NumPy, as the package sees it, that notes how it is called."""

    def __init__(self, path: str, real: object) -> None:
        super().__init__("numpy")
        self.__dict__.update(_path=path, _real=real)

    def __getattr__(self, name: str) -> object:
        value = getattr(self._real, name)
        path = f"{self._path}{name}"
        if isinstance(value, types.ModuleType):
            return Recorder(f"{path}.", value)
        if inspect.isclass(value) or not callable(value):
            return value
        return Recorded(path, value)


class Recorded:
    """A function of NumPy that notes its calls, and those of its methods."""

    def __init__(self, path: str, function: object) -> None:
        self._path, self._function = path, function

    def __call__(self, *args: object, **kwargs: object) -> object:
        CALLS.add((self._path, len(args), tuple(sorted(kwargs))))
        result = self._function(*args, **kwargs)
        if isinstance(result, np.random.Generator):
            return Recorder("random.Generator.", result)
        return result

    def __getattr__(self, name: str) -> object:
        return Recorded(
            f"{self._path}.{name}", getattr(self._function, name)
        )


CALLS: set[tuple[str, int, tuple[str, ...]]] = set()
HOST_ONLY = {  # what lucid.backend does on the host, whichever backend is on
    "errstate",
    "random.default_rng",
}


def record_calls() -> None:
    """Let the package see NumPy through a `Recorder`."""
    recorder = Recorder("", np)
    for module in (arrays, blocks, random, special, switch):
        module.np = recorder  # type: ignore[attr-defined]


def misfits() -> list[str]:
    """The recorded calls that the real CuPy would refuse."""
    from cupy_double import _signature
    from make_cupy_names import signature_text

    cupy = importlib.import_module("cupy")
    found = []
    for path, count, keywords in sorted(CALLS):
        thing: object = cupy
        for name in path.split("."):
            thing = getattr(thing, name, None)
        bare = path.split(".")[-1]
        if thing is None:
            found.append(f"{path}: CuPy has no such name")
            continue
        if "." in path and isinstance(
            getattr(cupy, path.split(".")[0]), cupy.ufunc
        ):
            if (
                path != "add.at"
            ):  # the others may be there, and refuse to work
                found.append(f"{path}: of CuPy's ufuncs we use add.at alone")
            continue
        text = signature_text(thing)
        args = [None] * (count + text.startswith("(self"))
        try:
            _signature(text).bind(*args, **dict.fromkeys(keywords))
        except TypeError as error:
            found.append(f"{path}: {error}; CuPy's is {bare}{text}")
    return found


def share_memory(a: lucid.Tensor, b: lucid.Tensor) -> bool:
    """Whether two tensors share memory, on any backend."""
    return array_module(a.data).shares_memory(a.data, b.data)


# ---- choosing -----------------------------------------------------------------------


class Chosen:
    """The backend of this run, and why it cannot run, if it cannot."""

    name = "numpy"
    reason: str | None = None


def start(config: pytest.Config) -> None:
    Chosen.name = config.getoption("--backend")
    if config.option.markexpr == "cuda":
        Chosen.name = "cupy"
    if Chosen.name == "cupy-double":
        import cupy_double

        cupy_double.install()
        switch._load_cupy.cache_clear()
        lucid.set_backend("cupy")
        refuse_waits()
    elif Chosen.name == "cupy":
        try:
            lucid.set_backend("cupy")
        except (ImportError, RuntimeError) as error:
            Chosen.reason = str(error)
    elif Chosen.name == "audit":
        if importlib.util.find_spec("cupy") is None:
            Chosen.reason = (
                "the audit needs CuPy's wheel, not installed here"
            )
        else:
            record_calls()


def one_test() -> Iterator[None]:
    """What surrounds each test."""
    if Chosen.name.startswith("cupy") and Chosen.reason is None:
        lucid.set_backend("cupy")
    CALLS.clear()
    yield
    if Chosen.name == "audit" and Chosen.reason is None:
        assert misfits() == []
