"""What is not computed: logits that nobody asked for. Counted, not timed.

What is computed instead has to be equal, in values and in gradients.
"""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

import lucid
import lucid.models.text.bert as bert
from lucid.models.text.bert.masked_lm import BERTDecoder
from lucid.nn import functional as F
from lucid.nn.rows import row_numbers, take_rows
from lucid.optim import AdamW

HEADS = {
    "BERTForMaskedLM": "logits",
    "BERTForPreTraining": "prediction_logits",
}
LOGITS = pytest.mark.parametrize("name, logits", HEADS.items())
IDS = np.array([[1, 7, 3, 9, 2], [1, 3, 3, 2, 0], [1, 4, 5, 6, 2]])
MASK = np.array([[1, 1, 1, 1, 1], [1, 1, 1, 1, 0], [1, 1, 1, 1, 1]])
LABELS = np.full_like(IDS, -100)
LABELS[0, 2], LABELS[1, 1], LABELS[1, 2] = 8, 0, 49


@pytest.fixture
def rows_scored(monkeypatch) -> list[int]:
    """How many rows each call of a decoder scores."""
    seen: list[int] = []
    forward = BERTDecoder.forward

    def counted(self, states):
        seen.append(states.size // states.shape[-1])
        return forward(self, states)

    monkeypatch.setattr(BERTDecoder, "forward", counted)
    return seen


def batch(labels: np.ndarray | None = LABELS) -> dict[str, lucid.Tensor]:
    arrays = {"input_ids": IDS, "attention_mask": MASK, "labels": labels}
    return {k: lucid.tensor(v) for k, v in arrays.items() if v is not None}


def gradients(model: lucid.nn.Module, loss: lucid.Tensor) -> dict:
    model.zero_grad()
    loss.backward()
    return {
        name: p.grad.numpy()
        for name, p in model.named_parameters()
        if p.grad is not None
    }


# ---- rows ---------------------------------------------------------------------


def test_row_numbers_are_where_the_flags_are():
    flags = np.random.default_rng(0).random((7, 11)) < 0.3
    got = row_numbers(lucid.tensor(flags).data, int(flags.sum()))
    want = np.flatnonzero(flags)
    np.testing.assert_array_equal(lucid.Tensor(got).numpy(), want)


def test_rows_come_and_gradients_go_back():
    x = lucid.tensor(
        np.random.default_rng(1).standard_normal((5, 3)), requires_grad=True
    )
    rows = row_numbers(lucid.tensor([0, 1, 0, 1, 1]).data == 1, 3)
    assert lucid.check_gradients(lambda x: take_rows(x, rows), x) < 1e-8
    x.grad = None
    some = take_rows(x, rows)
    some.backward(some.detach())
    np.testing.assert_array_equal(some.numpy(), x.numpy()[[1, 3, 4]])
    np.testing.assert_array_equal(
        x.grad.numpy(), x.numpy() * [[0], [1], [0], [1], [1]]
    )


# ---- the loss from labelled rows alone --------------------------------------------


@LOGITS
@pytest.mark.parametrize("tied", [True, False])
def test_loss_and_gradients_are_those_of_the_full_computation(
    name, logits, tied, tiny
):
    model = getattr(bert, name)(tiny(tie_word_embeddings=tied))
    model.to(dtype="float64")
    loss = model(**batch()).loss
    got = gradients(model, loss)
    whole = model(**batch(labels=None))[logits]
    full = F.cross_entropy(whole, lucid.tensor(LABELS))
    want = gradients(model, full)
    assert abs(loss.item() - full.item()) < 1e-13
    assert got.keys() == want.keys()
    for key in want:
        np.testing.assert_allclose(
            got[key], want[key], rtol=0, atol=1e-13, err_msg=key
        )


@LOGITS
def test_only_labelled_rows_are_scored(name, logits, tiny, rows_scored):
    model = getattr(bert, name)(tiny())
    out = model(**batch())
    out.loss.backward()
    assert rows_scored == [3]
    assert out[logits].shape == (3, 5, 50)
    assert rows_scored == [3, 15]
    model(**batch(labels=None))
    assert rows_scored == [3, 15, 15]


@LOGITS
def test_nobody_is_asked(name, logits, tiny, rows_scored):
    """Loss and gradients are 0, and no product is of an empty array."""
    model = getattr(bert, name)(tiny())
    loss = model(**batch(np.full_like(IDS, -100))).loss
    assert loss.item() == 0.0
    assert rows_scored == [1]
    for key, g in gradients(model, loss).items():
        assert not g.any(), key


@pytest.mark.numpy_only("tracemalloc sees the host's memory")
def test_no_array_of_the_size_of_the_logits_is_made():
    config = bert.BERTConfig(
        vocab_size=4000,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
    )
    model = bert.BERTForMaskedLM(config)
    ids = np.ones((4, 64), int)
    labels = np.full_like(ids, -100)
    labels[:, ::8] = 5  # 32 of 256
    arguments = lucid.tensor(ids), None, None, lucid.tensor(labels)

    def peak(ask: bool) -> int:
        model.zero_grad()
        tracemalloc.start()
        out = model(*arguments)
        out.loss.backward()
        if ask:
            assert out.logits.shape == (4, 64, 4000)
        size = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return size

    whole = 4 * 64 * 4000 * 4
    peak(False)
    assert peak(False) < whole < peak(True)


# ---- the logits when they are asked for --------------------------------------------

WAYS = {
    "attribute": lambda out, name: getattr(out, name),
    "key": lambda out, name: out[name],
    "index": lambda out, name: out[1],
    "slice": lambda out, name: out[:2][1],
    "unpacking": lambda out, name: list(out)[1],
    "tuple": lambda out, name: out.to_tuple()[1],
}


@LOGITS
@pytest.mark.parametrize("way", WAYS)
def test_logits_are_there_in_full_when_asked_for(
    name, logits, way, tiny, rows_scored
):
    model = getattr(bert, name)(tiny()).eval()
    want = model(**batch(labels=None))[logits].numpy()
    out = model(**batch())
    del rows_scored[:]
    got = WAYS[way](out, logits)
    assert got.dtype == np.float32
    np.testing.assert_array_equal(got.numpy(), want)
    assert WAYS[way](out, logits) is got is getattr(out, logits)
    assert rows_scored == [15]


@LOGITS
def test_what_does_not_ask_does_not_compute(name, logits, tiny, rows_scored):
    out = getattr(bert, name)(tiny())(**batch())
    del rows_scored[:]
    assert logits in out.keys() and len(out) == len(out.keys())
    assert out[0] is out.loss is out["loss"]
    next(iter(out))
    with pytest.raises(KeyError, match=logits):
        out["nothing"]
    assert rows_scored == []


@LOGITS
def test_grad_mode_is_that_of_the_call(name, logits, tiny):
    model = getattr(bert, name)(tiny())
    with lucid.no_grad():
        out = model(**batch())
    assert not out[logits].requires_grad
    out = model(**batch())
    with lucid.no_grad():
        asked = out[logits]
    assert asked.requires_grad
    model.to(dtype="float64")
    out = model(**batch())
    got = gradients(model, out.loss + (out[logits] ** 2).mean())
    whole = model(**batch(labels=None))[logits]
    full = F.cross_entropy(whole, lucid.tensor(LABELS))
    want = gradients(model, full + (whole**2).mean())
    for key in want:
        np.testing.assert_allclose(
            got[key], want[key], rtol=0, atol=1e-13, err_msg=key
        )


@LOGITS
def test_asking_after_a_step_is_refused(name, logits, tiny):
    model = getattr(bert, name)(tiny())
    asked, late = model(**batch()), model(**batch())
    want = asked[logits].numpy().copy()
    optimizer = AdamW(model.parameters(), lr=1e-3)
    late.loss.backward()
    optimizer.step()
    with pytest.raises(RuntimeError, match="before the step"):
        late[logits]
    np.testing.assert_array_equal(asked[logits].numpy(), want)
    late = model(**batch())
    model.resize_token_embeddings(60)
    with pytest.raises(RuntimeError, match="before the step"):
        late[logits]


@LOGITS
@pytest.mark.parametrize(
    "labels, error, told",
    [
        (LABELS[:, 1:], ValueError, r"labels: expected shape \(3, 5\)"),
        (LABELS.reshape(-1), ValueError, r"labels: expected shape"),
        (LABELS + 0.0, TypeError, "labels: wanted integers"),
        (np.where(LABELS < 0, -1, LABELS), ValueError, "labels: -1 is out"),
        (np.where(LABELS == 0, 50, LABELS), ValueError, "labels: 50 is out"),
    ],
)
def test_bad_labels_are_named(name, logits, labels, error, told, tiny):
    with pytest.raises(error, match=told):
        getattr(bert, name)(tiny())(**batch(labels))
