"""Memory that a forward pass holds, counted by tracemalloc, not timed."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

import lucid
import lucid.models.text.bert as bert


def peak_bytes(function) -> int:
    tracemalloc.start()
    try:
        kept = function()
        return tracemalloc.get_traced_memory()[1]
    finally:
        del kept
        tracemalloc.stop()


def trunk(layers: int, **asked: bool):
    config = bert.BERTConfig(
        vocab_size=8,
        hidden_size=32,
        num_hidden_layers=layers,
        num_attention_heads=2,
        intermediate_size=64,
    )
    model = bert.BERTModel(config).eval()
    ids = lucid.tensor(np.zeros((2, 128), int))

    def run():
        with lucid.no_grad():
            return model(ids, **asked)

    run()
    return run


STATE = 2 * 128 * 32 * 4  # (B, T, H) in float32
WEIGHTS = 2 * 2 * 128 * 128 * 4  # (B, A, T, T) in float32


def growth(**asked: bool) -> int:
    """Bytes that four more layers add to the peak of a pass."""
    return peak_bytes(trunk(6, **asked)) - peak_bytes(trunk(2, **asked))


def test_what_nobody_asked_for_is_not_kept():
    assert growth() < STATE


@pytest.mark.parametrize(
    "name, each", [("hidden_states", STATE), ("attentions", WEIGHTS)]
)
def test_what_was_asked_for_is_kept(name, each):
    """Or the test above could not fail."""
    assert growth(**{f"output_{name}": True}) > 3 * each
