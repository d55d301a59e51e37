# Tangled from chapters/arrays.ipynb; edit that, not this file.
"""Run a row-wise formula block by block, in cache and on every core."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from lucid.backend.arrays import Array, array_module

_BLOCK_BYTES = 256 * 1024  # a few arrays of this size fit a core's L2 cache


def _core_count() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


_pool: ThreadPoolExecutor | None = None


def _get_pool() -> ThreadPoolExecutor:
    global _pool
    if _pool is None:
        _pool = ThreadPoolExecutor(_core_count(), "lucid-rows")
    return _pool


def _forget_pool() -> None:
    """A forked child has none of its parent's threads."""
    global _pool
    _pool = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pool)


def run_rows(kernel: Callable[..., Any], *arrays: Array) -> list[Any]:
    """Call ``kernel`` on matching blocks of rows of ``arrays``.

    The kernel works on whole rows and writes its results into one or more of
    the arrays it is given. On NumPy the rows are cut into blocks that fit in
    cache, which all cores share; on CuPy it is called once, with everything.
    The cut depends on the shapes alone, so the same input gives the same
    bits.

    Parameters
    ----------
    kernel : callable
        Called as ``kernel(*blocks)``, by several threads at once; must not
        look beyond its rows, nor call `run_rows` itself.
    *arrays : arrays with the same first axis

    Returns
    -------
    list
        What the kernel returned for each block, in the order of the rows.

    Notes
    -----
    Explained in :doc:`/chapters/arrays`; what it saves is equation
    (arrays-traffic).

    Examples
    --------
    >>> x = np.array([[1.0, 2.0], [3.0, 4.0]])
    >>> sums = np.empty((2, 1))
    >>> def kernel(x, sums):
    ...     np.sum(x, axis=-1, keepdims=True, out=sums)
    >>> done = run_rows(kernel, x, sums)
    >>> sums.tolist()
    [[3.0], [7.0]]
    """
    rows = len(arrays[0])
    row_bytes = max(max(a.nbytes for a in arrays) // max(rows, 1), 1)
    block = max(_BLOCK_BYTES // row_bytes, 1)
    if array_module(arrays[0]) is not np or rows <= block:
        return [kernel(*arrays)]
    spans = [slice(start, start + block) for start in range(0, rows, block)]
    workers = min(_core_count(), len(spans))
    results: list[Any] = [None] * len(spans)

    def work(first: int) -> None:
        for i in range(first, len(spans), workers):
            results[i] = kernel(*(a[spans[i]] for a in arrays))

    futures = [_get_pool().submit(work, k) for k in range(1, workers)]
    work(0)
    for future in futures:
        future.result()
    return results
