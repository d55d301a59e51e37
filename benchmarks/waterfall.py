"""From the naive layer to the package's, one step at a time.

python -m benchmarks.waterfall [--rounds N] [--batch B] prints JSON. The
steps take turns; each must compute what the first does.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import erf as slow_erf

import lucid
from lucid.autograd import Tensor
from lucid.backend import erf, matmul_rows
from lucid.models.text.bert import BERTConfig
from lucid.models.text.bert.encoder import BERTLayer
from lucid.nn import functional as F

Array = np.ndarray
EPS = 1e-12
TOLERANCE = 1e-4


def linear(x: Array, weight: Array, bias: Array) -> Array:
    """Product, then bias."""
    return x @ weight.T + bias


def gelu(x: Array) -> Array:
    """The definition, with SciPy's erf."""
    return 0.5 * x * (1.0 + slow_erf(x * math.sqrt(0.5)))


def norm(x: Array, weight: Array, bias: Array) -> Array:
    """Mean, variance, root."""
    centred = x - x.mean(-1, keepdims=True)
    variance = (centred * centred).mean(-1, keepdims=True)
    return centred / np.sqrt(variance + EPS) * weight + bias


def attend(q: Array, k: Array, v: Array, mask: Array) -> Array:
    """Scores, mask, softmax, mixing: (B, A, T, D) each."""
    scores = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])
    scores = np.where(mask, scores, -math.inf)
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True) @ v


def quick_gelu(x: Array) -> Array:
    """The same line with tanh and a polynomial for erf."""
    return 0.5 * x * (1.0 + erf(x * math.sqrt(0.5)))


def gelu_in_blocks(x: Array) -> Array:
    """GELU of the package."""
    return F.gelu(Tensor(x)).data


def norm_in_blocks(x: Array, weight: Array, bias: Array) -> Array:
    """LayerNorm of the package."""
    return F.layer_norm(Tensor(x), Tensor(weight), Tensor(bias), EPS).data


def attend_in_blocks(q: Array, k: Array, v: Array, mask: Array) -> Array:
    """Attention of the package."""
    given = (Tensor(x) for x in (q, k, v, mask))
    return F.attention(*given)[0].data


def linear_by_rows(x: Array, weight: Array, bias: Array) -> Array:
    """Product and bias, half of the rows on each core."""
    rows = matmul_rows(x.reshape(-1, x.shape[-1]), weight.T, bias)
    return rows.reshape(*x.shape[:-1], len(weight))


@dataclass(frozen=True)
class Parts:
    """The four functions that a layer is made of."""

    linear: Callable[..., Array] = linear
    gelu: Callable[[Array], Array] = gelu
    norm: Callable[..., Array] = norm
    attend: Callable[..., Array] = attend


def forward(parts: Parts, layer: BERTLayer, x: Array, mask: Array) -> Array:
    """An encoder layer: the chapters' formulas in one place."""
    weights = {name: p.data for name, p in layer.named_parameters()}

    def project(name: str, x: Array) -> Array:
        pair = weights[f"{name}.weight"], weights[f"{name}.bias"]
        return parts.linear(x, *pair)

    def normalise(name: str, x: Array) -> Array:
        pair = weights[f"{name}.weight"], weights[f"{name}.bias"]
        return parts.norm(x, *pair)

    def split(x: Array) -> Array:
        heads = layer.attention.self.heads
        return x.reshape(*x.shape[:2], heads, -1).transpose(0, 2, 1, 3)

    three = (split(project(f"attention.self.{n}", x)) for n in QKV)
    context = parts.attend(*three, mask).transpose(0, 2, 1, 3)
    a = project("attention.output.dense", context.reshape(x.shape)) + x
    a = normalise("attention.output.LayerNorm", a)
    wide = parts.gelu(project("intermediate.dense", a))
    return normalise("output.LayerNorm", project("output.dense", wide) + a)


QKV = ("query", "key", "value")
NAIVE = Parts()
TANH = replace(NAIVE, gelu=quick_gelu)
GELU = replace(TANH, gelu=gelu_in_blocks)
NORM = replace(GELU, norm=norm_in_blocks)
ATTEND = replace(NORM, attend=attend_in_blocks)
ROWS = replace(ATTEND, linear=linear_by_rows)
STEPS: dict[str, tuple[str, Parts | None]] = {
    "naive": ("one NumPy line for each formula", NAIVE),
    "tanh": ("erf by tanh and a polynomial", TANH),
    "gelu": ("GELU block by block, on all cores", GELU),
    "norm": ("LayerNorm block by block", NORM),
    "attention": ("attention block by block", ATTEND),
    "products": ("products by rows, bias while they are warm", ROWS),
    "lucid": ("the package: the same as tensors", None),
}


def prepare(
    batch: int,
    tokens: int,
    config: BERTConfig,
    mark: Callable[[Array], Array] = np.asarray,
) -> tuple[BERTLayer, dict[str, Callable[[], Array]]]:
    """Return the layer, and a function for each step.

    The functions read the layer's parameters when they are called. Input
    and mask go through ``mark`` first.
    """
    lucid.manual_seed(0)
    layer = BERTLayer(config).eval()
    draw = np.random.default_rng(0)
    shape = (batch, tokens, config.hidden_size)
    x = mark(draw.standard_normal(shape).astype(np.float32))
    mask = mark(np.ones((batch, 1, 1, tokens), dtype=bool))

    def run(parts: Parts | None) -> Array:
        with lucid.no_grad():
            if parts is None:
                return layer(Tensor(x), Tensor(mask))[0].data
            return forward(parts, layer, x, mask)

    return layer, {
        name: (lambda parts=parts: run(parts))
        for name, (_, parts) in STEPS.items()
    }


def measure(batch: int, rounds: int) -> list[dict[str, Any]]:
    """Return the median seconds of each step for a layer of BERT-base."""
    _, steps = prepare(batch, 128, BERTConfig())
    first = steps["naive"]()
    for name, step in steps.items():
        off = float(np.abs(step() - first).max())
        if not off < TOLERANCE:
            raise SystemExit(f"{name} is off by {off}")
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(rounds):
        for name, step in steps.items():
            start = time.perf_counter()
            step()
            step()
            seconds[name].append((time.perf_counter() - start) / 2)
    return [
        {
            "name": name,
            "what": what,
            "batch": batch,
            "median": statistics.median(seconds[name]),
        }
        for name, (what, _) in STEPS.items()
    ]


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--batch", type=int, default=8)
    options = parser.parse_args()
    print(json.dumps(measure(options.batch, options.rounds)))


if __name__ == "__main__":
    main()
