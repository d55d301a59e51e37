"""What is not computed: padding, and logits that nobody asked for. Counted.

What is computed instead has to be equal, in values and in gradients.
"""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from cupy_double import TRANSFERS

import lucid
import lucid.models.text.bert as bert
from lucid.models.text.bert.masked_lm import BERTDecoder
from lucid.nn import functional as F
from lucid.nn import linear, packing
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


# ---- padding ------------------------------------------------------------------

HOLES = np.array(
    [[1, 1, 1, 1, 1], [1, 1, 1, 1, 0], [0, 1, 0, 1, 1], [0, 0, 0, 0, 0]]
)
MANY = np.concatenate([IDS, IDS[:1]])


def trunk(tiny, **changes) -> bert.BERTModel:
    model = bert.BERTModel(tiny(**changes)).to(dtype="float64")
    draw = np.random.default_rng(3)
    for _, p in model.named_parameters():  # biases begin at 0
        more = lucid.tensor(draw.standard_normal(p.shape) / 5)
        p.data += more.data
    return model


def weighted(states: lucid.Tensor) -> lucid.Tensor:
    """A loss that reads every element, padding too."""
    weights = np.random.default_rng(4).standard_normal(states.shape)
    return (states * lucid.tensor(weights)).sum()


def forms(model, mask: np.ndarray, **asked: bool) -> tuple:
    """Return what the padding mask gives, and what its full form gives."""
    batch, tokens = mask.shape
    full = np.broadcast_to(mask[:, None], (batch, tokens, tokens)).copy()
    return tuple(
        model(lucid.tensor(MANY[:batch]), lucid.tensor(form), **asked)
        for form in (mask, full)
    )


@pytest.mark.parametrize("asked", [False, True])
def test_real_states_are_those_of_the_padded_pass(asked, tiny):
    model = trunk(tiny)
    got, want = forms(
        model, HOLES, output_hidden_states=True, output_attentions=asked
    )
    real = HOLES.astype(bool)
    for a, b in zip(got.hidden_states, want.hidden_states, strict=True):
        assert a.shape == b.shape == (4, 5, 16)
        np.testing.assert_allclose(
            a.numpy()[real], b.numpy()[real], rtol=0, atol=1e-12
        )
        assert not a.numpy()[~real].any()
    for a, b in zip(
        got.attentions or (), want.attentions or (), strict=True
    ):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=0, atol=1e-12)


@pytest.mark.parametrize("asked", [False, True])
def test_gradients_are_those_of_the_padded_pass(asked, tiny):
    model = trunk(tiny)
    got, want = forms(model, HOLES, output_attentions=asked)
    a = gradients(model, weighted(got.last_hidden_state))
    real = lucid.tensor(HOLES[..., None].astype(float))
    b = gradients(model, weighted(want.last_hidden_state * real))
    assert a.keys() == b.keys()
    for key in a:
        np.testing.assert_allclose(
            a[key], b[key], rtol=0, atol=1e-11, err_msg=key
        )


@pytest.fixture
def rows_multiplied(monkeypatch) -> list[int]:
    """How many rows each linear map of a model is given."""
    seen: list[int] = []
    forward = linear.Linear.forward

    def counted(self, x):
        seen.append(x.size // x.shape[-1])
        return forward(self, x)

    monkeypatch.setattr(linear.Linear, "forward", counted)
    return seen


@pytest.mark.numpy_only("a device computes the padding")
def test_padding_is_not_computed(tiny, rows_multiplied):
    model = bert.BERTModel(tiny(), add_pooling_layer=False)
    forms(model, HOLES)
    half = len(rows_multiplied) // 2
    assert set(rows_multiplied[:half]) == {12}
    assert set(rows_multiplied[half:]) == {20}


@pytest.mark.parametrize(
    "mask", [np.ones((2, 5), int), np.zeros((2, 5), int)]
)
def test_a_mask_of_ones_and_a_mask_of_zeros(mask, tiny):
    model = trunk(tiny)
    got, want = forms(model, mask)
    np.testing.assert_array_equal(
        got.last_hidden_state.numpy(),
        want.last_hidden_state.numpy() * mask[..., None],
    )


def test_dropout_of_packed_rows_can_be_repeated(tiny):
    model = trunk(tiny, attention_dropout=0.5, hidden_dropout=0.0).train()
    runs = []
    for seed in (0, 0, 1):
        lucid.manual_seed(seed)
        states = model(lucid.tensor(MANY), lucid.tensor(HOLES))[0]
        runs.append((states.numpy(), gradients(model, weighted(states))))
    np.testing.assert_array_equal(runs[0][0], runs[1][0])
    for key, g in runs[0][1].items():
        np.testing.assert_allclose(
            g, runs[1][1][key], rtol=0, atol=1e-12, err_msg=key
        )
    assert np.abs(runs[0][0] - runs[2][0]).max() > 1e-3


@pytest.mark.parametrize("shape", [(4, 3, 2), (12, 2), (4, 4, 2), (2, 4, 2)])
def test_rows_that_are_not_those_of_the_mask(shape):
    """As many rows in all as the mask has, or more, and yet not those."""
    where = packing.Packing(lucid.tensor(np.ones((3, 4), np.int64)))
    with pytest.raises(ValueError, match=rf"^x: .*got shape \({shape[0]}, "):
        where.pack(lucid.tensor(np.zeros(shape)))


@pytest.mark.parametrize("shape", [(1, 2), (13, 2), (12, 1, 2)])
def test_packed_rows_that_are_not_those_of_the_mask(shape):
    """One row would be put everywhere otherwise."""
    where = packing.Packing(lucid.tensor(np.ones((3, 4), np.int64)))
    with pytest.raises(ValueError, match=r"^x: .*N = 12.*got shape"):
        where.unpack(lucid.tensor(np.zeros(shape)))


@pytest.mark.numpy_only("a device computes the padding")
def test_gradient_of_packed_attention_with_dropout():
    where = packing.Packing(lucid.tensor(HOLES))
    draw = np.random.default_rng(5)
    rows = [
        lucid.tensor(draw.standard_normal((12, 4)), requires_grad=True)
        for _ in range(3)
    ]

    def run(*rows):
        lucid.manual_seed(0)
        return packing.packed_attention(*rows, where, 2, dropout=0.4)

    assert lucid.check_gradients(run, *rows) < 1e-7
    calm = packing.packed_attention(*rows, where, 2)
    assert np.abs(calm.numpy() - run(*rows).numpy()).max() > 1e-2


@pytest.mark.numpy_only("a device computes the padding")
def test_packed_training_gives_the_same_bits(tiny):
    model = trunk(tiny).to(dtype="float32").train()
    runs = []
    for _ in range(2):
        lucid.manual_seed(0)
        states = model(lucid.tensor(MANY), lucid.tensor(HOLES))[0]
        loss = (states * states).sum()
        runs.append({"states": states.numpy(), **gradients(model, loss)})
    for key, values in runs[0].items():
        np.testing.assert_array_equal(values, runs[1][key], err_msg=key)


PADDED = [
    "masked_lm_tied_gelu_pytorch_tanh",
    "model_inputs_embeds",
    "model_longest",
    "pretraining_tied_gelu",
]


@pytest.mark.parametrize("name", PADDED)
def test_real_rows_are_those_of_transformers(name, load_case):
    case = load_case(name)
    real = case.inputs["attention_mask"].astype(bool)
    assert not real.all()
    model, arguments = case.model(), case.padded()
    out = model(**arguments)
    seen = 0
    for key, want in case.outputs.items():
        value = getattr(out, key, None)
        if not isinstance(value, lucid.Tensor):
            continue
        got = value.numpy()
        if got.shape[:2] == real.shape:
            got, want = got[real], want[real]
        assert np.abs(got - want).max() <= 1e-5 * np.abs(want).max(), key
        seen += 1
    assert seen
    if case.cotangents:
        return  # they read padding
    case.loss(out).backward()
    top = max(np.abs(want).max() for want in case.gradients.values())
    for key, p in model.named_parameters():
        error = np.abs(p.grad.numpy() - case.gradients[key]).max()
        limit = 1e-4 * np.abs(case.gradients[key]).max() + 1e-6 * top
        assert error <= limit, key


def test_nothing_is_fetched_from_a_device(load_case):
    case = load_case("pretraining_tied_gelu")
    model, arguments = case.model().train(), case.padded()
    TRANSFERS.clear()
    case.loss(model(**arguments)).backward()
    assert TRANSFERS == []
