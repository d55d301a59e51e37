"""Count what NumPy does to arrays: passes, products, bytes that change hands.

``with count() as tally`` counts the calls that touch an array which was made
inside the block, or marked by ``watch``, or computed from one of these. A *pass* reads or writes every element
of a large array once. Between two passes over an array that fits no cache
lies a way to memory and back, unless both happen inside one block of rows:
so ``Tally.bytes`` adds the arrays that `run_rows` is given, once, and of what
is computed outside of it the operands of each call.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import numpy as np

from lucid.backend import random, run_rows
from lucid.nn import Module

MAKERS = ("empty", "zeros", "ones", "full")  # arrays out of nothing
FREE = {"broadcast_to", "empty_like"}  # touch no element


@dataclass
class Tally:
    """What was counted.

    Attributes
    ----------
    elements : Counter
        By the name of a call: elements of its largest operand, added up.
    multiplied : int
        Floating point operations of matrix products, 2 M N K each.
    bytes : int
        Read and written beyond blocks of rows. Of a product, the matrix on
        the right is left out: mostly weights, read once whatever one does.
    """

    elements: Counter[str] = field(default_factory=Counter)
    multiplied: int = 0
    bytes: int = 0

    def passes(self, size: int) -> float:
        """Return passes over ``size`` elements, products left out."""
        return self.elements.total() / size


class _Watched(np.ndarray):
    """An array whose calls are counted, and all that is computed from it."""

    def __array_ufunc__(
        self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any
    ) -> Any:
        out = kwargs.get("out", ())
        kwargs = {k: _bare(v) for k, v in kwargs.items()}
        result = getattr(ufunc, method)(*map(_bare, inputs), **kwargs)
        _note(ufunc.__name__, *inputs, result)
        return out[0] if out else watch(result)

    def __array_function__(
        self, function: Any, types: Any, args: Any, kwargs: Any
    ) -> Any:
        kwargs = {k: _bare(v) for k, v in kwargs.items()}
        result = function(*map(_bare, args), **kwargs)
        if function.__name__ not in FREE:
            _note(function.__name__, *args, result)
        return watch(result)

    def __getitem__(self, index: Any) -> Any:
        result = super().__getitem__(index)
        if isinstance(result, np.ndarray) and not np.may_share_memory(
            _bare(result), _bare(self)
        ):
            _note("take", result, result)
        return result

    def __setitem__(self, index: Any, values: Any) -> None:
        _bare(self)[_bare(index)] = _bare(values)
        _note("put", values, values)

    def astype(self, *args: Any, **kwargs: Any) -> Any:
        result = super().astype(*args, **kwargs)
        if result is not self:
            _note("astype", self, result)
        return result

    def copy(self, *args: Any, **kwargs: Any) -> Any:
        result = super().copy(*args, **kwargs)
        _note("copy", self, result)
        return result


_tallies: list[Tally] = []
_here = threading.local()
_lock = threading.Lock()


def watch(x: Any) -> Any:
    """Mark an array, so that calls that touch it are counted."""
    return x.view(_Watched) if isinstance(x, np.ndarray) else x


def watch_model(model: Module) -> None:
    """Mark the parameters of a model."""
    for parameter in model.parameters():
        parameter.data = watch(parameter.data)


def _bare(x: Any) -> Any:
    if isinstance(x, (tuple, list)):
        return type(x)(map(_bare, x))
    return x.view(np.ndarray) if isinstance(x, _Watched) else x


def _note(name: str, *operands: Any) -> None:
    arrays = [x for x in operands if isinstance(x, np.ndarray)]
    largest = max((x.size for x in arrays), default=0)
    in_block = getattr(_here, "in_block", False)
    with _lock:
        for tally in _tallies:
            if name == "matmul":
                a, b, y = arrays[0], arrays[1], arrays[-1]
                tally.multiplied += 2 * y.size * a.shape[-1]
                arrays = [a, y] if b.ndim == 2 else arrays
            else:
                tally.elements[name] += largest
            if not in_block:
                once = {id(x): x.nbytes for x in arrays}  # c * c reads c
                tally.bytes += sum(once.values())


def _run_rows(
    kernel: Callable[..., Any], *arrays: Any, block: int | None = None
) -> list[Any]:
    """`run_rows`, and note what crosses it."""
    inside = getattr(_here, "in_block", False)

    def noted(*blocks: Any) -> Any:
        _here.in_block = True
        try:
            return kernel(*blocks)
        finally:
            _here.in_block = inside

    with _lock:
        for tally in _tallies:
            tally.bytes += sum(a.nbytes for a in arrays)
    return run_rows(noted, *arrays, block=block)


class _Drawing:
    """The stream of dropout, noted."""

    def __init__(self, generator: Any) -> None:
        self.generator = generator

    def random(self, *args: Any, **kwargs: Any) -> Any:
        drawn = self.generator.random(*args, **kwargs)
        _note("random", drawn)
        return watch(drawn)


def _watched_maker(make: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args, **kwargs: watch(make(*args, **kwargs))


@contextmanager
def count() -> Iterator[Tally]:
    """Count until the block ends; from one thread at a time."""
    tally = Tally()
    drawing = _Drawing(random.device_rng(np))
    with ExitStack() as stack:
        for name in MAKERS:
            maker = _watched_maker(getattr(np, name))
            stack.enter_context(patch.object(np, name, maker))
        for name, module in list(sys.modules.items()):
            if (
                name.startswith("lucid")
                and vars(module).get("run_rows") is run_rows
            ):
                stack.enter_context(
                    patch.object(module, "run_rows", _run_rows)
                )
        stack.enter_context(patch.dict(random._device, {"numpy": drawing}))
        _tallies.append(tally)
        try:
            yield tally
        finally:
            _tallies.remove(tally)
