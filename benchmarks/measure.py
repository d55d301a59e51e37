"""Peers taking turns. This process itself stays small and loads nothing."""

from __future__ import annotations

import importlib.util
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from benchmarks.lines import FORCED, IMPORT_SECONDS, Line, product_flops

ROOT = Path(__file__).parents[1]
MODULES = {
    "lucid": ("lucid",),
    "torch": ("torch", "transformers"),
    "onnx": ("onnxruntime", "onnx", "torch", "transformers"),
}
REST = 0.05  # seconds between two turns, for threads that wait by spinning
LEAST = 0.2  # seconds of a turn
TOLERANCE = 1e-3  # by how much what the peers compute may differ


def is_installed(peer: str) -> bool:
    """Say whether all that a peer needs is there."""
    return all(importlib.util.find_spec(name) for name in MODULES[peer])


def environment(threads: int, more: dict[str, str]) -> dict[str, str]:
    """Return the variables of a worker: its threads, no forced kernel."""
    kept = {k: v for k, v in os.environ.items() if k not in FORCED}
    libraries = ("OMP", "OPENBLAS", "MKL")
    kept |= {f"{name}_NUM_THREADS": str(threads) for name in libraries}
    path = [str(ROOT), *filter(None, [kept.get("PYTHONPATH")])]
    kept["PYTHONPATH"] = os.pathsep.join(path)
    kept.pop("PYTHONDONTWRITEBYTECODE", None)
    return kept | more


class Worker:
    """The other end of `benchmarks.worker`."""

    def __init__(
        self, peer: str, threads: int, more: dict[str, str] | None = None
    ) -> None:
        command = [sys.executable, "-m", "benchmarks.worker", peer]
        self.peer = peer
        self.loaded: tuple[Path, bool] | None = None
        self.process = subprocess.Popen(
            [*command, "--threads", str(threads)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment(threads, more or {}),
            text=True,
        )

    def ask(self, what: str, **given: Any) -> dict[str, Any]:
        """Send an order and wait for the answer."""
        assert self.process.stdin and self.process.stdout
        print(
            json.dumps({"do": what, **given}),
            file=self.process.stdin,
            flush=True,
        )
        answer = self.process.stdout.readline()
        if not answer:
            raise SystemExit(f"{self.peer}: the worker stopped; see above")
        return json.loads(answer)

    def load(self, folder: Path, training: bool = False) -> None:
        """Load a model, unless it is the one that is there."""
        if self.loaded != (folder, training):
            self.ask("load", folder=str(folder), training=training)
            self.loaded = folder, training

    def close(self) -> None:
        """End the worker."""
        self.process.communicate()


@contextmanager
def checkpoints(
    models: Iterable[str], onnx: bool = False, quick: bool = False
) -> Iterator[Path]:
    """Write what the peers load into a folder that goes away again."""
    with tempfile.TemporaryDirectory(prefix="lucid-bench-") as folder:
        command = [sys.executable, "-m", "benchmarks.checkpoints", folder]
        command += dict.fromkeys(models)
        command += ["--onnx"] if onnx else []
        command += ["--quick"] if quick else []
        subprocess.run(command, check=True, cwd=ROOT, env=environment(1, {}))
        yield Path(folder)


def compare(line: Line, samples: dict[str, list[float]]) -> None:
    """Stop if the peers do not compute the same."""
    for peer, sample in samples.items():
        pairs = list(zip(sample, samples["lucid"], strict=True))
        if not all(abs(a - b) <= TOLERANCE for a, b in pairs):  # nor NaN
            raise SystemExit(
                f"{line.name}: {peer} and lucid differ: {pairs}"
            )


def take_turns(
    workers: Sequence[Worker], rounds: int
) -> dict[str, list[float]]:
    """Return seconds a run by peer; every second round goes backwards."""
    once = {w.peer: w.ask("time", number=1)["seconds"] for w in workers}
    number = max(1, math.ceil(LEAST / max(once.values())))
    seconds: dict[str, list[float]] = {w.peer: [] for w in workers}
    for i in range(rounds):
        for worker in workers[:: -1 if i % 2 else 1]:
            time.sleep(REST)
            answer = worker.ask("time", number=number)
            seconds[worker.peer].append(answer["seconds"])
    return seconds


def ratio(theirs: list[float], ours: list[float]) -> float:
    """Return the median over the rounds of theirs by ours."""
    pairs = zip(theirs, ours, strict=True)
    return statistics.median(a / b for a, b in pairs)


def measure_line(
    line: Line, workers: list[Worker], rounds: int, quick: bool
) -> dict[str, Any]:
    """Return seconds and figures of one line."""
    size = {"batch": line.batch, "tokens": line.tokens}
    if quick:
        size = {"batch": min(line.batch, 2), "tokens": 8}
    samples = {
        w.peer: w.ask("prepare", kind=line.kind, **size)["sample"]
        for w in workers
    }
    compare(line, samples)
    rates = []
    if "sgemm" in line.targets:
        rates = [w.ask("sgemm")["gflops"] for w in workers[:2]]
    seconds = take_turns(workers, rounds)
    if "sgemm" in line.targets:
        again = [w.ask("sgemm")["gflops"] for w in workers[:2]]
        rates = [(a + b) / 2 for a, b in zip(rates, again, strict=True)]
    figures = {
        peer: ratio(theirs, seconds["lucid"])
        for peer, theirs in seconds.items()
        if peer != "lucid"
    }
    peaks = {}
    if line.name in ("base", "step"):
        peaks = {w.peer: w.ask("peak")["mib"] for w in workers}
    if "torch" in peaks:
        figures["memory"] = peaks["torch"] / peaks["lucid"]
    if rates:
        flops = product_flops(line.batch, line.tokens, 12, 768, 3072)
        done = flops / statistics.median(seconds["lucid"]) / 1e9
        figures["sgemm"] = done / rates[0]
    return {
        "name": line.name,
        "what": line.what,
        "seconds": seconds,
        "median": {p: statistics.median(s) for p, s in seconds.items()},
        "figures": figures,
        "targets": {} if quick else line.targets,
        "gflops": dict(zip((w.peer for w in workers), rates, strict=False)),
        "peak_mib": peaks,
    }


def measure(
    lines: Sequence[Line],
    rounds: int,
    threads: int,
    quick: bool,
    who: set[str],
) -> dict[str, Any]:
    """Measure the lines in their order."""
    found = []
    models = [line.model for line in lines]
    with ExitStack() as stack:
        folder = stack.enter_context(
            checkpoints(models, "onnx" in who, quick)
        )
        workers: dict[Any, Worker] = {}
        for line in lines:
            print(f"  {line.what} ...", file=sys.stderr, flush=True)
            taking_part = []
            for peer in line.peers:
                if peer not in who:
                    continue
                more = line.environment if peer == "lucid" else {}
                key = peer, *more.items()
                if key not in workers:
                    workers[key] = Worker(peer, threads, more)
                    stack.callback(workers[key].close)
                workers[key].load(folder / line.model, line.training)
                taking_part.append(workers[key])
            figures = measure_line(line, taking_part, rounds, quick)
            about = {w.peer: w.ask("about") for w in taking_part}
            found.append({**figures, "about": about})
    return {"machine": machine(threads), "lines": found}


def measure_waterfall(rounds: int, threads: int) -> list[dict[str, Any]]:
    """Return the steps from the naive layer to the package's."""
    command = [sys.executable, "-m", "benchmarks.waterfall"]
    done = subprocess.run(
        [*command, "--rounds", str(rounds)],
        check=True,
        capture_output=True,
        cwd=ROOT,
        env=environment(threads, {}),
    )
    return json.loads(done.stdout)


def import_seconds(rounds: int) -> list[float]:
    """Return how long ``import lucid`` takes, NumPy included."""
    code = (
        "import time; start = time.perf_counter(); import lucid; "
        "print(time.perf_counter() - start)"
    )
    command = [sys.executable, "-c", code]
    runs = [
        subprocess.run(
            command,
            check=True,
            capture_output=True,
            cwd=ROOT,
            env=environment(1, {}),
        ).stdout
        for _ in range(rounds + 1)
    ]
    return [float(seconds) for seconds in runs[1:]]  # the first compiles


def measure_import(rounds: int, quick: bool) -> dict[str, Any]:
    """Return the line of the import."""
    seconds = import_seconds(rounds)
    median = statistics.median(seconds)
    return {
        "name": "import",
        "what": "import lucid",
        "seconds": {"lucid": seconds},
        "median": {"lucid": median},
        "figures": {"limit": IMPORT_SECONDS / median},
        "targets": {} if quick else {"limit": 1.0},
        "peak_mib": {},
    }


def processor() -> str:
    """Return the processor's name, as far as the system tells."""
    try:
        text = Path("/proc/cpuinfo").read_text("utf-8")
    except OSError:
        return platform.processor() or platform.machine()
    names = [line for line in text.splitlines() if "model name" in line]
    return names[0].partition(":")[2].strip() if names else "unknown"


def machine(threads: int) -> dict[str, Any]:
    """Return what the numbers hold for."""
    return {
        "processor": processor(),
        "cores": os.cpu_count(),
        "threads": threads,
        "system": platform.system(),
        "python": platform.python_version(),
    }
