"""One peer in a process of its own, which does what it is told.

A line of JSON comes in on standard input, one goes out for it. Whatever a
library prints goes to standard error.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import os
import resource
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peers import PEERS, Peer

VOCABULARY = 30522
SHAPE = (1024, 768, 3072)  # of the product that tells a machine's rate


class Worker:
    """A peer, and the work that was last prepared for it."""

    def __init__(self, name: str, threads: int) -> None:
        self.name = name
        self.threads = threads
        self.folder = Path()
        self.peer: Peer
        self.run: Callable[[], Any]

    def load(self, folder: str, training: bool) -> dict[str, Any]:
        """Let go of one model and load another."""
        self.run = self.peer = None  # type: ignore[assignment]
        self.folder = Path(folder)
        self.peer = PEERS[self.name](self.folder, self.threads, training)
        return {}

    def prepare(self, kind: str, batch: int, tokens: int) -> dict[str, Any]:
        """Get ready, run once; return a few numbers that all must agree on."""
        self.forget_peak()
        draw = np.random.default_rng(0)
        ids = draw.integers(1, VOCABULARY, (batch, tokens))
        if kind == "step":
            hidden = draw.random(ids.shape) < 0.15
            first, self.run = self.peer.prepare_step(
                {
                    "input_ids": ids,
                    "labels": np.where(hidden, ids, -100),
                    "next_sentence_label": draw.integers(0, 2, batch),
                }
            )
            sample = [first]
        elif kind == "padded":
            text = (self.folder / "sentences.json").read_text("utf-8")
            self.run = self.peer.prepare_sentences(json.loads(text), batch)
            sample = self.run()[-1, :8].tolist()
        else:
            self.run = self.peer.prepare_forward(ids)
            sample = self.run()[-1, -1, :8].tolist()
        return {"sample": sample}

    def time(self, number: int) -> dict[str, float]:
        """Return the seconds of a run, the mean of ``number`` of them."""
        start = time.perf_counter()
        for _ in range(number):
            self.run()
        return {"seconds": (time.perf_counter() - start) / number}

    def sgemm(self) -> dict[str, float]:
        """Return the rate of a product in GFLOP/s, the median of seven."""
        m, k, n = SHAPE
        product = self.peer.sgemm(
            np.ones((m, k), np.float32), np.ones((n, k), np.float32)
        )
        product()
        seconds = []
        for _ in range(7):
            start = time.perf_counter()
            product()
            seconds.append(time.perf_counter() - start)
        return {"gflops": 2 * m * k * n / statistics.median(seconds) / 1e9}

    def bandwidth(self) -> dict[str, float]:
        """Return GB/s read and written by a copy that fits no cache."""
        from lucid.backend import run_rows

        source = np.ones((256, 262144), np.float32)
        target = np.zeros_like(source)
        seconds = []
        for _ in range(7):
            start = time.perf_counter()
            run_rows(lambda a, b: np.copyto(b, a), source, target, block=16)
            seconds.append(time.perf_counter() - start)
        return {
            "gbytes": 2 * source.nbytes / statistics.median(seconds) / 1e9
        }

    def forget_peak(self) -> None:
        """Begin the peak anew, so that loading is not in it. Linux only."""
        gc.collect()
        with contextlib.suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5", "ascii")

    def peak(self) -> dict[str, float]:
        """Return the most memory this process had since `prepare`, MiB."""
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return {"mib": peak / (2**20 if sys.platform == "darwin" else 1024)}

    def about(self) -> dict[str, Any]:
        """Return versions and thread pools."""
        from threadpoolctl import threadpool_info

        keys = ("internal_api", "architecture", "num_threads", "version")
        pools = [
            {k: pool.get(k) for k in keys} for pool in threadpool_info()
        ]
        names = ("lucid", "numpy", "torch", "transformers", "onnxruntime")
        versions = {
            name: sys.modules[name].__version__
            for name in names
            if hasattr(sys.modules.get(name), "__version__")
        }
        return {"versions": versions, "threadpools": pools}


def main() -> None:
    """Do what comes in until nothing more comes."""
    parser = argparse.ArgumentParser()
    parser.add_argument("peer", choices=PEERS)
    parser.add_argument("--threads", type=int, required=True)
    options = parser.parse_args()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    worker = Worker(options.peer, options.threads)
    for order in sys.stdin:
        given = json.loads(order)
        answer = getattr(worker, given.pop("do"))(**given)
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
