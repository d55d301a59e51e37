# Tangled from chapters/arrays.ipynb; edit that, not this file.
"""Share the rows of a computation among the cores, block by block."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextvars import copy_context
from typing import Any

import numpy as np

from lucid.backend.arrays import Array, array_module
from lucid.backend.cores import pool_of_threads, thread_count

_BLOCK_BYTES = 384 * 1024  # a few arrays of this size fit a core's L2 cache


def run_rows(
    kernel: Callable[..., Any], *arrays: Array, block: int | None = None
) -> list[Any]:
    """Call ``kernel`` on matching blocks of rows of ``arrays``.

    The kernel works on whole rows and writes its results into one or more of
    the arrays it is given. On NumPy the rows are cut into blocks, which all
    cores share; on CuPy it is called once, with everything.

    Parameters
    ----------
    kernel : callable
        Called as ``kernel(*blocks)``, by several threads at once; must not
        look beyond its rows, nor call `run_rows` itself.
    *arrays : arrays with the same first axis
    block : int, optional
        Rows in a block. By default as many as fit in cache: that depends on
        shapes and dtypes alone, so the same input gives the same bits.

    Returns
    -------
    list
        What the kernel returned for each block, in the order of the rows.

    Raises
    ------
    ValueError
        If the first axes differ.

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
    lengths = [len(a) for a in arrays]
    rows = lengths[0]
    if lengths != [rows] * len(arrays):
        raise ValueError(f"arrays: first axes of different length {lengths}")
    if block is None:
        row_bytes = max(a.nbytes for a in arrays) // max(rows, 1)
        block = max(_BLOCK_BYTES // max(row_bytes, 1), 1)
    if array_module(arrays[0]) is not np or rows <= block:
        return [kernel(*arrays)]
    spans = [slice(start, start + block) for start in range(0, rows, block)]
    workers = min(thread_count(), len(spans))
    results: list[Any] = [None] * len(spans)
    shares = deque(range(workers))

    def work() -> None:
        while True:
            try:
                first = shares.popleft()
            except IndexError:  # all shares are taken
                return
            for i in range(first, len(spans), workers):
                results[i] = kernel(*(a[spans[i]] for a in arrays))

    with pool_of_threads() as pool:
        futures = _ask_for_help(pool, work, workers - 1)
        try:
            work()
        finally:
            wait(futures)
    for future in futures:
        future.result()
    return results


def _ask_for_help(
    pool: ThreadPoolExecutor, work: Callable[[], None], helpers: int
) -> list[Future[None]]:
    """Have other threads work, too, under the caller's np.errstate."""
    futures: list[Future[None]] = []
    for _ in range(helpers):
        try:
            futures.append(pool.submit(copy_context().run, work))
        except RuntimeError:  # Python is ending and starts no thread
            break
    return futures


_FEW_ROWS = 256  # a thread with fewer packs b for too little


def matmul_rows(a: Array, b: Array, bias: Array | None = None) -> Array:
    """Matrix product, the rows of ``a`` shared out among the threads.

    Parameters
    ----------
    a : array, shape (M, K)
    b : array, shape (K, N)
    bias : array, shape (N,), optional
        Added to every row, by the thread that has just made it.

    Returns
    -------
    array, shape (M, N)

    Notes
    -----
    Explained in :doc:`/chapters/arrays`.
    """
    xp = array_module(a)
    product = xp.empty((len(a), b.shape[1]), dtype=a.dtype)

    def kernel(a: Array, product: Array) -> None:
        xp.matmul(a, b, out=product)
        if bias is not None:
            xp.add(product, bias, out=product)

    share = -(-len(a) // thread_count())
    block = share if share >= _FEW_ROWS else len(a)
    run_rows(kernel, a, product, block=block)
    return product
