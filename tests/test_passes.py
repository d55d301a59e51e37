"""Passes over arrays, bytes and memory of an encoder layer: counted, not timed."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

import lucid
import lucid.models.text.bert as bert
from lucid.models.text.bert.encoder import BERTLayer
from lucid.optim import AdamW
from tools.passes import count, watch, watch_model

B, T, H, I, A = 4, 32, 64, 256, 2  # noqa: E741
ROWS = B * T
STATE, WIDE, WEIGHTS = ROWS * H, ROWS * I, B * A * T * T  # elements
LITTLE = STATE // 2  # a mean or a root of every row, a bias; no pass


def config(**more):
    sizes = {"hidden_size": H, "intermediate_size": I}
    return bert.BERTConfig(num_attention_heads=A, **sizes, **more)


def counted(training: bool):
    """Tallies of a layer's forward and backward pass."""
    layer = BERTLayer(config()).train(training)
    watch_model(layer)
    draw = np.random.default_rng(0)
    states = watch(draw.standard_normal((B, T, H)).astype(np.float32))
    x = lucid.Tensor(states, requires_grad=training)
    mask = lucid.Tensor(watch(np.ones((B, 1, 1, T), bool)))
    with count() as forward:
        y = layer(x, mask)[0]
    with count() as backward:
        if training:
            y.backward(lucid.Tensor(watch(np.ones((B, T, H), np.float32))))
    return forward, backward


def test_the_counter_counts():
    """Three calls by hand: one of them twice in blocks, one a product."""
    x = watch(np.ones((8, 4), np.float32))
    with count() as tally:
        y = x * 2.0 + x
    assert (tally.passes(32), tally.bytes) == (2, 4 * (2 + 3) * 32)
    with count() as tally:
        y = lucid.backend.matmul_rows(x, watch(np.ones((4, 2), np.float32)))
    assert (tally.passes(32), tally.multiplied) == (0, 2 * 8 * 4 * 2)
    assert (tally.bytes, y.sum()) == (4 * (32 + 16), 64)


def test_the_bytes_of_a_forward_pass_are_those_counted_by_hand():
    """What leaves a block is written once, what enters is read once."""
    forward, _ = counted(training=False)
    products = 4 * 2 * STATE + 2 * (STATE + WIDE)
    attention = 4 * STATE + WEIGHTS
    norms, sums, gelu = 2 * 3 * STATE, 2 * 3 * STATE, 2 * WIDE
    by_hand = 4 * (products + attention + norms + sums + gelu)
    assert by_hand <= forward.bytes <= by_hand + 4 * LITTLE


@pytest.mark.parametrize(
    "training, states, wides, weights",
    [(False, 20, 21, 7), (True, 30, 21, 12)],
)
def test_a_forward_pass_makes_no_more_passes(
    training, states, wides, weights
):
    """Six for a LayerNorm, 20 for GELU, seven for a softmax and its mask,
    five for dropout; a bias, a sum, the scale of the queries."""
    forward, _ = counted(training)
    allowed = states * STATE + wides * WIDE + weights * WEIGHTS
    assert forward.elements.total() <= allowed + LITTLE


def test_a_training_step_moves_no_more_bytes():
    """Dropout draws, compares, converts, scales and multiplies."""
    without, _ = counted(training=False)
    forward, backward = counted(training=True)
    dropout = 2 * 8.5 * STATE + 6.5 * WEIGHTS
    assert forward.bytes <= without.bytes + 4 * dropout + 4 * LITTLE
    assert backward.bytes <= 4 * 108 * STATE + 4 * LITTLE
    assert backward.elements.total() <= 158 * STATE + LITTLE


def peak(layers: int) -> int:
    """Bytes at the highest point of a training step."""
    small = config(vocab_size=8, num_hidden_layers=layers)
    model = bert.BERTForMaskedLM(small)
    ids = lucid.tensor(np.ones((B, T), int))
    optimizer = AdamW(model.parameters())

    def run():
        optimizer.zero_grad()
        loss = model(ids, labels=ids).loss
        loss.backward()
        optimizer.step()

    run()
    tracemalloc.start()
    try:
        run()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_layer_keeps_no_more_for_the_way_back():
    """In float32 arrays like its input; weights and moments are older."""
    each = (peak(6) - peak(2)) / 4 / 4 / STATE
    assert each <= 27
