"""Cost of a forward pass against tokens, batch and layers."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

from benchmarks.lines import product_flops
from benchmarks.measure import Worker, checkpoints, machine, take_turns

TOKENS = [(1, tokens) for tokens in (16, 32, 64, 128, 256, 512)]
BATCHES = [(batch, 32) for batch in (1, 2, 4, 8, 16, 32, 64)]
LAYERS = (1, 2, 4, 8)


def cases() -> Iterator[tuple[str, int, list[tuple[int, int]]]]:
    """Yield model, layers, and pairs of batch and tokens."""
    yield "base", 12, sorted({*TOKENS, *BATCHES})
    for layers in LAYERS:
        yield f"layers-{layers}", layers, [(1, 128)]


def measure(rounds: int, threads: int, who: set[str]) -> dict[str, Any]:
    """Return seconds by size, and the two limits of the machine."""
    result: dict[str, Any] = {"machine": machine(threads), "points": []}
    peers = [peer for peer in ("lucid", "torch") if peer in who]
    models = [model for model, _, _ in cases()]
    with ExitStack() as stack:
        folder = stack.enter_context(checkpoints(models))
        workers = [Worker(peer, threads) for peer in peers]
        for worker in workers:
            stack.callback(worker.close)
        for model, layers, shapes in cases():
            print(f"  sizes: {model} ...", file=sys.stderr, flush=True)
            for worker in workers:
                worker.load(folder / model)
            if model == "base":
                result["bandwidth"] = workers[0].ask("bandwidth")["gbytes"]
                result["sgemm"] = workers[0].ask("sgemm")["gflops"]
                result["about"] = {w.peer: w.ask("about") for w in workers}
            for batch, tokens in shapes:
                size = {"batch": batch, "tokens": tokens}
                for worker in workers:
                    worker.ask("prepare", kind="forward", **size)
                seconds = take_turns(workers, rounds)
                flops = product_flops(batch, tokens, layers, 768, 3072)
                result["points"].append(
                    {
                        **size,
                        "layers": layers,
                        "flops": flops,
                        "median": {
                            peer: statistics.median(s)
                            for peer, s in seconds.items()
                        },
                    }
                )
    return result


def report(result: dict[str, Any]) -> str:
    """Return a table."""
    rows = [
        f"sgemm {result['sgemm']:.0f} GFLOP/s, "
        f"copy {result['bandwidth']:.1f} GB/s"
    ]
    for point in result["points"]:
        times = ", ".join(
            f"{peer} {1000 * s:8.1f} ms"
            for peer, s in point["median"].items()
        )
        rows.append(
            f"L={point['layers']:2} B={point['batch']:2} "
            f"T={point['tokens']:3}: {times}"
        )
    return "\n".join(rows)
