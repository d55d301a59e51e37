"""Compare CuPy with NumPy, operation by operation, and time BERT-base.

    python3 tools/gpu_check.py            or    make gpu-check

For a borrowed machine with a CUDA device: it wants python3, numpy, cupy,
safetensors and pytest, installs nothing, and takes less than the four minutes
it gives itself. It prints two tables, runs the tests of the package on the
device (``pytest -m cuda``) in the time that is left, and writes one JSON
file. Where PyTorch is installed, the same model is timed beside it.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
SECONDS = 230.0  # for everything
TIMING_SECONDS = 20.0  # for one line of the second table
BATCH, TOKENS = 8, 128

# lucid asks threadpoolctl which BLAS there is. Without it, it may hear: none.
NO_THREADPOOLCTL = """
class ThreadpoolController:
    lib_controllers = ()
    def select(self, **_):
        return self
"""


def find_lucid() -> Any:
    """Import lucid from this checkout, whatever else is missing."""
    paths = [str(ROOT)]
    if importlib.util.find_spec("threadpoolctl") is None:
        folder = tempfile.mkdtemp()
        Path(folder, "threadpoolctl.py").write_text(NO_THREADPOOLCTL)
        paths.append(folder)
    sys.path[:0] = paths
    before = os.environ.get("PYTHONPATH", "")
    os.environ["PYTHONPATH"] = os.pathsep.join([*paths, before])
    return importlib.import_module("lucid")


# ---- parity ---------------------------------------------------------------------


class Operation(NamedTuple):
    """A function of tensors, and how far apart two libraries may be."""

    shapes: tuple[tuple[int, ...], ...]
    function: Callable[..., Any]
    float32: float = 1e-6  # of the largest element
    float64: float = 1e-13


def operations(lucid: Any) -> dict[str, Operation]:
    """The operations, on shapes of a small BERT."""
    functional, ops = (
        lucid.nn.functional,
        importlib.import_module("lucid.ops"),
    )
    rng = np.random.default_rng(1)
    ids = rng.integers(0, 300, (4, 64))
    labels = np.where(rng.random(256) < 0.15, ids.ravel(), -100)
    seen = (np.arange(64) < 50)[None, None, None]
    row, table = (4, 64, 96), (300, 96)
    head = (4, 3, 64, 32)

    def keep_mask(q: Any, k: Any, v: Any) -> Any:
        return functional.attention(q, k, v, lucid.tensor(seen))[0]

    return {
        "a + b": Operation((row, (96,)), lambda a, b: a + b),
        "a * b": Operation((row, (96,)), lambda a, b: a * b),
        "a / b": Operation((row, row), lambda a, b: a / b),
        "exp": Operation((row,), ops.exp),
        "log": Operation((row,), lambda a: ops.log(a * a)),
        "tanh": Operation((row,), ops.tanh),
        "sum": Operation((row,), lambda a: a.sum((0, 1)), 1e-5),
        "max": Operation((row,), lambda a: a.max(-1)),
        "rows by index": Operation((table,), lambda w: w[lucid.tensor(ids)]),
        "a @ b": Operation((row, (96, 80)), lambda a, b: a @ b, 1e-5),
        "linear": Operation((row, (80, 96), (80,)), functional.linear, 1e-5),
        "embedding": Operation(
            (table,),
            lambda w: functional.embedding(lucid.tensor(ids), w),
            1e-5,
        ),
        "layer norm": Operation(
            (row, (96,), (96,)), functional.layer_norm, 1e-5, 1e-12
        ),
        "gelu": Operation((row,), functional.gelu),
        "gelu, tanh": Operation((row,), functional.gelu_tanh),
        "softmax": Operation((row,), functional.softmax),
        "attention": Operation((head, head, head), keep_mask, 1e-5, 1e-12),
        "cross-entropy": Operation(
            ((256, 300),),
            lambda z: functional.cross_entropy(z, lucid.tensor(labels)),
            1e-5,
            1e-12,
        ),
    }


def run_both_ways(
    lucid: Any, operation: Operation, dtype: str
) -> list[np.ndarray]:
    """The result and the gradients, by the active backend, from one seed."""
    rng = np.random.default_rng(0)
    inputs = [
        lucid.tensor(
            (rng.uniform(0.3, 2.0, s) * rng.choice([-1, 1], s)).astype(
                dtype
            ),
            requires_grad=True,
        )
        for s in operation.shapes
    ]
    result = operation.function(*inputs)
    weights = rng.uniform(0.5, 1.5, result.shape).astype(dtype)
    result.backward(lucid.tensor(weights))
    return [result.numpy(), *(x.grad.numpy() for x in inputs)]


def distance(a: np.ndarray, b: np.ndarray) -> float:
    """The largest difference, in units of the largest element."""
    gap = np.abs(a.astype(np.float64) - b).max()
    return float(gap / max(np.abs(b).max(), 1e-30))


def compare(lucid: Any) -> list[dict[str, Any]]:
    """Each operation, forward and backward, on CuPy against NumPy."""
    rows = []
    for name, operation in operations(lucid).items():
        for dtype in ("float32", "float64"):
            needs_scipy = name == "gelu" and dtype == "float64"
            if needs_scipy and importlib.util.find_spec("scipy") is None:
                continue
            both = []
            for backend in ("cupy", "numpy"):
                with lucid.use_backend(backend):
                    both.append(run_both_ways(lucid, operation, dtype))
            errors = [distance(a, b) for a, b in zip(*both, strict=True)]
            rows.append(
                {
                    "operation": name,
                    "dtype": dtype,
                    "forward": errors[0],
                    "backward": max(errors[1:]),
                    "tolerance": getattr(operation, dtype),
                    "passed": max(errors) <= getattr(operation, dtype),
                }
            )
    return rows


def compare_model(lucid: Any) -> dict[str, Any]:
    """A small BERT of one seed: its loss, and all its gradients."""
    bert = importlib.import_module("lucid.models.text.bert")
    found = []
    for backend in ("cupy", "numpy"):
        with lucid.use_backend(backend):
            lucid.manual_seed(0)
            model = bert.bert_tiny(model=bert.BERTForPreTraining).eval()
            loss = model(**batch_of(lucid, 4, 32)).loss
            loss.backward()
            found.append(
                {"loss": loss.numpy()}
                | {n: p.grad.numpy() for n, p in model.named_parameters()}
            )
    there, here = found
    largest = max(np.abs(g).max() for n, g in here.items() if n != "loss")
    gaps = [np.abs(there[n] - g).max() / largest for n, g in here.items()]
    return {
        "operation": "BERT, 2 layers",
        "dtype": "float32",
        "forward": distance(there["loss"], here["loss"]),
        "backward": float(max(gaps[1:])),
        "tolerance": 1e-4,
        "passed": bool(max(gaps) <= 1e-4),
    }


def batch_of(lucid: Any, batch: int, tokens: int) -> dict[str, Any]:
    """A batch of pre-training made of random ids."""
    rng = np.random.default_rng(0)
    ids = rng.integers(1000, 30000, (batch, tokens))
    labels = np.where(rng.random(ids.shape) < 0.15, ids, -100)
    labels[:, 1] = ids[:, 1]
    arrays = {
        "input_ids": ids,
        "token_type_ids": (np.arange(tokens) > tokens // 2)
        * np.ones_like(ids),
        "labels": labels,
        "next_sentence_label": rng.integers(0, 2, batch),
    }
    return {name: lucid.tensor(a) for name, a in arrays.items()}


# ---- time -----------------------------------------------------------------------


def timed(
    event: Callable[[], Any],
    elapsed: Callable[[Any, Any], float],
    run: Callable[[], Any],
    repeats: int,
) -> dict[str, float]:
    """Median milliseconds on the device, and until the host is free again."""
    began = time.perf_counter()
    for _ in range(3):
        run()
    device, host = [], []
    for _ in range(repeats):
        if device and time.perf_counter() - began > TIMING_SECONDS:
            break
        start, end = event(), event()
        start.record()
        begin = time.perf_counter()
        run()
        host.append(1000 * (time.perf_counter() - begin))
        end.record()
        end.synchronize()
        device.append(elapsed(start, end))
    return {
        "device_ms": statistics.median(device),
        "host_ms": statistics.median(host),
        "repeats": len(device),
    }


def lucid_runs(lucid: Any, size: str) -> dict[str, Callable[[], Any]]:
    """BERT: a forward pass, and a step of training."""
    bert = importlib.import_module("lucid.models.text.bert")
    optim = importlib.import_module("lucid.optim")
    make = getattr(bert, f"bert_{size}")
    model = make(model=bert.BERTForPreTraining)
    optimizer = optim.AdamW(model.parameters(), lr=1e-4)
    batch = batch_of(lucid, BATCH, TOKENS)

    def forward() -> None:
        model.eval()
        with lucid.no_grad():
            model(batch["input_ids"], token_type_ids=batch["token_type_ids"])

    def step() -> None:
        model.train()
        optimizer.zero_grad()
        model(**batch).loss.backward()
        optimizer.step()

    return {"forward": forward, "training step": step}


def torch_runs(
    torch: Any, lucid: Any, device: str = "cuda"
) -> dict[str, Callable[[], Any]]:
    """BERT-base from PyTorch's own layers, on its device."""
    nn = torch.nn

    class Bert(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(30522, 768)
            self.segments = nn.Embedding(2, 768)
            self.places = nn.Embedding(512, 768)
            self.norm = nn.LayerNorm(768, eps=1e-12)
            layer = nn.TransformerEncoderLayer(
                768, 12, 3072, 0.1, "gelu", 1e-12, batch_first=True
            )
            self.layers = nn.TransformerEncoder(
                layer, 12, enable_nested_tensor=False
            )
            self.pool, self.pair = nn.Linear(768, 768), nn.Linear(768, 2)
            self.change = nn.Linear(768, 768)
            self.change_norm = nn.LayerNorm(768, eps=1e-12)
            self.bias = nn.Parameter(torch.zeros(30522))

        def forward(self, ids: Any, segments: Any) -> Any:
            at = torch.arange(ids.shape[1], device=ids.device)
            x = self.words(ids) + self.segments(segments) + self.places(at)
            x = self.layers(
                nn.functional.dropout(self.norm(x), 0.1, self.training)
            )
            first = torch.tanh(self.pool(x[:, 0]))
            h = self.change_norm(nn.functional.gelu(self.change(x)))
            return h @ self.words.weight.T + self.bias, self.pair(first)

    with lucid.use_backend("numpy"):
        batch = {
            name: torch.tensor(t.numpy(), device=device)
            for name, t in batch_of(lucid, BATCH, TOKENS).items()
        }
    ids, segments = batch["input_ids"], batch["token_type_ids"]
    model = Bert().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def forward() -> None:
        model.eval()
        with torch.no_grad():
            model(ids, segments)

    def step() -> None:
        model.train()
        optimizer.zero_grad()
        words, pair = model(ids, segments)
        loss = nn.functional.cross_entropy(
            words.flatten(0, 1), batch["labels"].flatten()
        ) + nn.functional.cross_entropy(pair, batch["next_sentence_label"])
        loss.backward()
        optimizer.step()

    return {"forward": forward, "training step": step}


def time_all(
    lucid: Any, cupy: Any, size: str, repeats: int
) -> dict[str, Any]:
    """Both libraries, one after the other, each with its own events."""
    pool = cupy.get_default_memory_pool()
    found: dict[str, Any] = {"lucid": {}}
    for name, run in lucid_runs(lucid, size).items():
        found["lucid"][name] = timed(
            cupy.cuda.Event, cupy.cuda.get_elapsed_time, run, repeats
        )
        found["lucid"][name]["pool_mib"] = pool.total_bytes() / 2**20
    pool.free_all_blocks()
    if importlib.util.find_spec("torch") is not None:
        torch = importlib.import_module("torch")
        if torch.cuda.is_available():
            found["torch"] = {
                name: timed(
                    lambda: torch.cuda.Event(enable_timing=True),
                    lambda a, b: a.elapsed_time(b),
                    run,
                    repeats,
                )
                for name, run in torch_runs(torch, lucid).items()
            }
            found["torch"]["version"] = torch.__version__
    return found


# ---- the tests, the machine, the report ---------------------------------------------


def run_tests(seconds: float) -> dict[str, Any]:
    """Run ``pytest -m cuda`` in the time that is left."""
    if importlib.util.find_spec("pytest") is None:
        return {"outcome": "pytest is not installed"}
    command = [sys.executable, "-m", "pytest", "-q", "-m", "cuda"]
    command += ["-p", "no:cacheprovider", "tests"]
    try:
        run = subprocess.run(
            command,
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=seconds,
        )
    except subprocess.TimeoutExpired:
        return {"outcome": f"not finished in {seconds:.0f} s"}
    lines = run.stdout.splitlines() or [run.stderr[-500:]]
    failed = [line for line in lines if re.match("FAILED|ERROR", line)]
    return {"outcome": lines[-1], "failed": failed, "code": run.returncode}


def machine(cupy: Any) -> dict[str, Any]:
    """What the figures belong to."""
    runtime = cupy.cuda.runtime
    device = runtime.getDeviceProperties(0)
    return {
        "device": device["name"].decode(),
        "compute_capability": f"{device['major']}.{device['minor']}",
        "memory_gib": round(device["totalGlobalMem"] / 2**30, 1),
        "cuda_driver": runtime.driverGetVersion(),
        "cuda_runtime": runtime.runtimeGetVersion(),
        "cupy": cupy.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "tf32": os.environ.get("CUPY_TF32", "0") == "1",
    }


def show(result: dict[str, Any]) -> None:
    """Print the tables."""
    print(
        f"\n{'operation':16}{'dtype':9}{'forward':>9}{'backward':>10}"
        f"{'allowed':>9}"
    )
    for row in result["parity"]:
        print(
            f"{row['operation']:16}{row['dtype']:9}{row['forward']:9.0e}"
            f"{row['backward']:10.0e}{row['tolerance']:9.0e}"
            f"{'' if row['passed'] else '   FAILED'}"
        )
    print(f"\nBERT-{result['size']}, B={BATCH}, T={TOKENS}, float32, median")
    for library, runs in result["times"].items():
        for name, t in runs.items():
            if isinstance(t, dict):
                print(
                    f"{library:8}{name:15}{t['device_ms']:9.2f} ms, the host "
                    f"is free after {t['host_ms']:.2f} ms"
                )
    if "torch" not in result["times"]:
        print("torch   is not installed here, or sees no device")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", default="gpu_check.json")
    parser.add_argument("--size", default="base", help="tiny, ..., base")
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--no-tests", action="store_true")
    options = parser.parse_args(arguments)
    began = time.monotonic()
    lucid = find_lucid()
    try:
        lucid.set_backend("cupy")
    except (ImportError, RuntimeError) as error:
        print(f"Nothing was measured: {error}")
        return 2
    cupy = importlib.import_module("cupy")
    result: dict[str, Any] = {"machine": machine(cupy), "size": options.size}
    print(*(f"{k}: {v}" for k, v in result["machine"].items()), sep="\n")
    result["parity"] = [*compare(lucid), compare_model(lucid)]
    result["times"] = time_all(lucid, cupy, options.size, options.repeats)
    show(result)
    if not options.no_tests:
        left = SECONDS - (time.monotonic() - began)
        print(f"\nThe tests of the package, for up to {left:.0f} s ...")
        result["tests"] = run_tests(max(left, 1.0))
        print(*result["tests"].get("failed", []), sep="\n")
        print(result["tests"]["outcome"])
    result["seconds"] = round(time.monotonic() - began, 1)
    Path(options.json).write_text(json.dumps(result, indent=1) + "\n")
    print(f"\n{result['seconds']:.0f} s; all of it is in {options.json}")
    tests_failed = result.get("tests", {}).get("code", 0) != 0
    passed = all(row["passed"] for row in result["parity"])
    return 0 if passed and not tests_failed else 1


if __name__ == "__main__":
    sys.exit(main())
