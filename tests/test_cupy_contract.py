"""The package keeps CuPy's rules: it runs on a strict stand-in for it.

There is no GPU here. ``cupy_double`` refuses what CuPy refuses and counts
every wait for the device. What this cannot show: speed, and CUDA itself.
"""

import copy

import cupy_double
import numpy as np
import pytest
from cupy_double import CUPY, SPECIAL, TRANSFERS, DeviceArray, install

import lucid
from lucid import backend, nn, ops
from lucid.autograd import Tensor
from lucid.backend import switch
from lucid.models.text import bert
from lucid.nn import functional as F
from lucid.optim import AdamW


@pytest.fixture(autouse=True)
def _on_the_double(monkeypatch):
    install(monkeypatch.setitem)
    switch._load_cupy.cache_clear()
    lucid.set_backend("cupy")
    TRANSFERS.clear()
    yield
    switch._load_cupy.cache_clear()
    lucid.set_backend("numpy")


def relative(got, want):
    return np.abs(got - want).max() / max(np.abs(want).max(), 1e-30)


# ---- the double is strict -------------------------------------------------------

x = DeviceArray(np.array([1.0, 2.0, 3.0]))
REFUSED = {
    "a NumPy operand": lambda: x + np.ones(3),
    "a NumPy operand on the left": lambda: np.ones(3) * x,
    "implicit conversion": lambda: np.asarray(x),
    "a NumPy function": lambda: np.exp(x),
    "where=": lambda: CUPY.exp(x, where=x > 1),
    "initial=": lambda: x.sum(initial=1.0),
    "slice assignment of NumPy": lambda: x.__setitem__(0, np.ones(1)),
    "a hash": lambda: hash(x),
    "membership": lambda: 1.0 in x,
    "use as an index": lambda: [1, 2][DeviceArray(np.array(0))],
    "add.at of int16": lambda: CUPY.add.at(
        CUPY.zeros(3, "i2"), CUPY.asarray([0]), 1
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_the_double_refuses(what):
    with pytest.raises((TypeError, ValueError)):
        REFUSED[what]()


def test_the_double_gives_the_error_function_of_float16_in_float64():
    for given, found in (("f2", "f8"), ("f4", "f4"), ("f8", "f8")):
        assert SPECIAL.erf(CUPY.zeros(3, given)).dtype == found


def test_the_double_wraps_indices_and_counts_waits():
    index = CUPY.asarray([3, -1])
    assert x[index].tolist() == [1.0, 3.0]
    view = x[0]
    assert isinstance(view, DeviceArray) and view.shape == ()
    TRANSFERS.clear()
    float(x.sum()), x.get(), bool(x[0] > 0), x[x > 1], CUPY.where(x > 1)
    CUPY.asarray([1.0])
    assert TRANSFERS == [
        "float", "get", "bool", "a boolean index",
        "where with one argument", "an array from the host",
    ]  # fmt: skip


def test_strict_finds_the_place(monkeypatch):
    monkeypatch.setattr(cupy_double, "STRICT", True)
    twice = CUPY.asarray([0, 0])
    with pytest.raises(AssertionError, match="out of range of 3"):
        x[CUPY.asarray([3])]
    with pytest.raises(AssertionError, match="written twice"):
        CUPY.zeros(3)[twice] = 1.0


# ---- the package runs on it -----------------------------------------------------


def test_every_fixture_forward_and_backward(case):
    model = case.model()
    arguments = case.arguments()
    out = model(**arguments)
    for name in out.keys():
        value = out[name]
        if isinstance(value, lucid.Tensor) and name in case.outputs:
            assert isinstance(value.data, DeviceArray)
            assert relative(value.numpy(), case.outputs[name]) < 1e-5
    case.loss(out).backward()
    for name, parameter in model.named_parameters():
        if name not in case.gradients:
            continue  # the word table, where embeddings are passed in
        assert isinstance(parameter.grad.data, DeviceArray), name
        error = relative(parameter.grad.numpy(), case.gradients[name])
        tiny = np.abs(case.gradients[name]).max() < 1e-6
        assert tiny or error < 1e-4, name


def test_no_transfer_inside_forward_or_backward(load_case, monkeypatch):
    """Ids, labels and mask are checked by what the host has sent."""
    case = load_case("pretraining_tied_gelu")
    model, arguments = case.model().train(), case.arguments()
    TRANSFERS.clear()
    loss = case.loss(model(**arguments))
    loss.backward()
    assert TRANSFERS == []


def test_a_step_of_training_waits_only_to_show_its_loss(load_case):
    case = load_case("pretraining_tied_gelu")
    model, arguments = case.model().train(), case.arguments()
    optimizer = AdamW(model.named_parameters())
    TRANSFERS.clear()
    for shown in ([], ["item"]):
        optimizer.zero_grad()
        loss = case.loss(model(**arguments))
        loss.backward()
        optimizer.step()
        if shown:
            assert np.isfinite(loss.item())
        assert TRANSFERS == shown


def test_what_the_host_has_sent_is_not_fetched_to_be_checked():
    sent = np.array([[1, 2], [3, 0]])
    for ids in (
        lucid.tensor(sent),
        lucid.tensor(sent.tolist()),
        lucid.tensor(sent.astype(np.int32), dtype="int64"),
        lucid.tensor(sent.astype(float), dtype="int64"),
        Tensor(sent).to("cupy"),
    ):
        TRANSFERS.clear()
        np.testing.assert_array_equal(ids.host_values(), [[1, 2], [3, 0]])
        assert TRANSFERS == []


def test_a_note_never_speaks_for_other_values():
    sent = np.array([1, 2, 3])
    ids = lucid.tensor(sent)
    sent[0] = 9
    assert ids.host_values().tolist() == [1, 2, 3]
    changed = [ids + 1, ids[1:], ids.reshape(1, 3), lucid.tensor(ids)]
    for other in changed:
        TRANSFERS.clear()
        np.testing.assert_array_equal(other.host_values(), other.numpy())
        assert TRANSFERS == ["get", "get"]  # the check fetched them
    ids.data = ids.data + 7
    assert ids.host_values().tolist() == [8, 9, 10]
    ids = lucid.tensor([1, 2, 3])
    ids.data[0] = 5  # unseen by the check, but never shown as a value
    assert ids.numpy().tolist() == ids.tolist() == [5, 2, 3]
    assert ids.to("numpy").tolist() == [5, 2, 3]


def test_ids_computed_on_the_device_are_checked_too():
    table = lucid.tensor(np.ones((4, 2)))
    ids = lucid.tensor([1, 3])
    assert F.embedding(ids, table).shape == (2, 2)
    with pytest.raises(ValueError, match="4"):
        F.embedding(ids + 1, table)


def test_a_seed_gives_the_same_model_on_both_backends(tiny):
    lucid.manual_seed(3)
    there = bert.BERTForPreTraining(tiny())
    with lucid.use_backend("numpy"):
        lucid.manual_seed(3)
        here = bert.BERTForPreTraining(tiny())
    for (name, a), b in zip(
        there.named_parameters(), here.parameters(), strict=True
    ):
        np.testing.assert_array_equal(a.numpy(), b.numpy(), name)


def test_moving_and_copying_keep_the_tie(tiny):
    model = bert.BERTForPreTraining(tiny())
    for moved in (copy.deepcopy(model), model.to("numpy"), model.to("cupy")):
        table = moved.bert.embeddings.word_embeddings.weight
        assert moved.cls.predictions.decoder.weight is table
    assert {p.backend for p in model.parameters()} == {"cupy"}


def test_saving_and_loading(tiny, tmp_path):
    model = bert.BERTForPreTraining(tiny()).eval()
    model.save_pretrained(tmp_path)
    again = bert.BERTForPreTraining.from_pretrained(tmp_path)
    ids = lucid.tensor([[1, 2, 3]])
    np.testing.assert_array_equal(
        again(ids)[0].numpy(), model(ids)[0].numpy()
    )
    model.resize_token_embeddings(60)
    assert model(lucid.tensor([[59]])).prediction_logits.shape == (1, 1, 60)


def test_a_model_and_an_input_on_different_backends(tiny):
    model = bert.BERTModel(tiny())
    with lucid.use_backend("numpy"):
        embeds = lucid.tensor(np.ones((1, 3, 16), np.float32))
    with pytest.raises(ValueError, match=r"numpy.*cupy|cupy.*numpy"):
        model(inputs_embeds=embeds)


ELSEWHERE = {
    "operators": lambda here, there: here + there,
    "matrix product": lambda here, there: here @ there,
    "where": lambda here, there: ops.where(there > 0, here, here),
    "where, its branches": lambda here, there: ops.where(
        here > 0, here, there
    ),
    "concatenate": lambda here, there: ops.concatenate([here, there]),
    "gradient": lambda here, there: here.backward(there),
    "linear": lambda here, there: F.linear(there, here),
    "layer norm": lambda here, there: F.layer_norm(there, here[0], here[0]),
    "embedding": lambda here, there: F.embedding(
        (there > 9).to(dtype="int64"), here
    ),
    "attention": lambda here, there: F.attention(
        *(t.reshape(1, 1, 4, 4) for t in (here, here, there))
    ),
    "mean squared error": F.mse_loss,
    "cross-entropy": lambda here, there: F.cross_entropy(
        here, there.argmax(1)
    ),
    "the weights of classes": lambda here, there: F.cross_entropy(
        here, here.argmax(1), there[0]
    ),
}


@pytest.mark.parametrize("operation", ELSEWHERE)
def test_two_backends_are_named(operation):
    here = lucid.tensor(np.ones((4, 4)), requires_grad=True)
    there = lucid.tensor(np.ones((4, 4))).to("numpy")
    with pytest.raises(ValueError, match=r"numpy.*cupy|cupy.*numpy"):
        ELSEWHERE[operation](here, there)


@pytest.mark.parametrize(
    "name", ["input_ids", "token_type_ids", "position_ids", "attention_mask"]
)
def test_a_model_names_the_argument_that_lies_elsewhere(tiny, name):
    model = bert.BERTModel(tiny())
    arguments = {"input_ids": lucid.tensor([[1, 1]])}
    arguments[name] = lucid.tensor([[1, 1]]).to("numpy")
    with pytest.raises(ValueError, match=f"{name}: lies on numpy.*cupy"):
        model(**arguments)


def test_linear_names_what_lies_elsewhere():
    x, weight = lucid.tensor(np.ones((2, 3))), lucid.tensor(np.ones((4, 3)))
    bias = lucid.tensor(np.ones(4)).to("numpy")
    with pytest.raises(ValueError, match="^bias: lies on numpy.*on cupy"):
        F.linear(x, weight, bias)
    with pytest.raises(ValueError, match="^x: lies on numpy"):
        F.linear(x.to("numpy"), weight)


def test_bad_ids_and_labels_are_refused(tiny):
    model = bert.BERTForPreTraining(tiny())
    with pytest.raises(ValueError, match="input_ids: 50"):
        model(lucid.tensor([[50]]))
    with pytest.raises(ValueError, match="input_ids: -1"):
        model(lucid.tensor([[-1]]))
    with pytest.raises(ValueError, match="labels: 50"):
        model(lucid.tensor([[1]]), labels=lucid.tensor([[50]]))


def test_every_operation(load_case):
    rng = np.random.default_rng(0)
    a, b = (
        lucid.tensor(rng.uniform(0.5, 2.0, (3, 4)), requires_grad=True)
        for _ in range(2)
    )
    heads = a.reshape(1, 1, 3, 4)
    one, rows, labels = map(lucid.tensor, ([1, 1], [0, 0, 2], [0, -100, 3]))
    TRANSFERS.clear()
    results = [
        a + b, a - 1, 2 - a, a * b, a / b, 1 / a, a**2, -a, a @ b.mT,
        a.T, a.sum(0), a.mean(), a.max(1), a.min(0, keepdims=True),
        a[1:], a[rows], a[one],
        ops.exp(a), ops.log(a), ops.sqrt(a), ops.tanh(a),
        ops.where(a > 1, a, b), ops.concatenate([a, b], 1),
        F.softmax(a), F.log_softmax(a), F.relu(a), F.gelu(a), F.gelu_tanh(a),
        F.dropout(a, 0.5), F.mse_loss(a, b),
        F.cross_entropy(a, labels, b[0].detach()),
        F.attention(heads, heads, heads, None, 0.3)[0],
    ]  # fmt: skip
    assert TRANSFERS == []
    ones = [lucid.tensor(np.ones(result.shape)) for result in results]
    TRANSFERS.clear()
    for result, one in zip(results, ones, strict=True):
        result.backward(one)
    assert TRANSFERS == []
    assert isinstance(a.grad.data, DeviceArray)
    assert "backend=cupy" in repr(a)
    layer = nn.Linear(4, 2)
    layer(a.detach().to(dtype="float32")).sum().backward()
    assert layer.weight.grad.backend == "cupy"


def test_the_switch_found_the_double():
    assert lucid.get_backend() == "cupy"
    assert backend.array_module(lucid.tensor(1.0).data) is CUPY
