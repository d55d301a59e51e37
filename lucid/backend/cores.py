# Tangled from chapters/arrays.ipynb; edit that, not this file.
"""The processor's cores: a pool of threads, and BLAS out of its way."""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from threadpoolctl import ThreadpoolController

_lock = threading.Lock()
_pool: ThreadPoolExecutor | None = None
_holders = 0  # calls that hold BLAS to one thread at this moment
_threads_before: list[int] = []  # of each BLAS library, before the first


@functools.cache
def _blas() -> list[Any]:
    """Return a handle on each BLAS library that is loaded."""
    return ThreadpoolController().select(user_api="blas").lib_controllers


def _give_back() -> None:
    for library, threads in zip(_blas(), _threads_before, strict=True):
        library.set_num_threads(threads)


def thread_count() -> int:
    """Return how many threads to use: as many as BLAS has, or one a core.

    BLAS follows ``OMP_NUM_THREADS``, ``OPENBLAS_NUM_THREADS`` and
    threadpoolctl, and so does this library.

    Notes
    -----
    Explained in :doc:`/chapters/arrays`.
    """
    with _lock:
        if _holders:
            return max(_threads_before, default=_core_count())
        now = [library.num_threads for library in _blas()]
    return max(now, default=_core_count())


def _core_count() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextmanager
def pool_of_threads() -> Iterator[ThreadPoolExecutor]:
    """Lend out the pool, and hold BLAS to one thread meanwhile.

    Notes
    -----
    Explained in :doc:`/chapters/arrays`.
    """
    global _pool, _holders, _threads_before
    with _lock:
        if _pool is None:
            _pool = ThreadPoolExecutor(_core_count(), "lucid")
        if not _holders:
            _threads_before = [lib.num_threads for lib in _blas()]
            for library in _blas():
                library.set_num_threads(1)
        _holders += 1
    try:
        yield _pool
    finally:
        with _lock:
            _holders -= 1
            if not _holders:
                _give_back()


def _start_anew() -> None:
    """A forked child has none of its parent's threads and calls."""
    global _lock, _pool, _holders
    if _holders:
        _give_back()
    _lock, _pool, _holders = threading.Lock(), None, 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_anew)
