"""Every operation: its value against NumPy, its gradient against differences.

Shapes are drawn by hypothesis, broadcasting included; gradients are checked
in float64 with inputs that are not zero.
"""

import math

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lucid
import lucid.models.text.bert as bert
import lucid.nn.functional as F
from lucid import ops

settings.register_profile("lucid", max_examples=15, deadline=None)
settings.load_profile("lucid")

shapes = hnp.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=4)
seeds = st.integers(0, 2**32 - 1)


def draw(shape, seed, positive=False):
    """A float64 tensor away from zero, so that no gradient hides there."""
    rng = np.random.default_rng(seed)
    values = rng.uniform(0.3, 2.0, shape)
    if not positive:
        values *= rng.choice([-1.0, 1.0], shape)
    return lucid.tensor(values, requires_grad=True)


# ---- elementwise, with broadcasting -----------------------------------------

BINARY = {
    "add": (lambda a, b: a + b, np.add),
    "subtract": (lambda a, b: a - b, np.subtract),
    "multiply": (lambda a, b: a * b, np.multiply),
    "divide": (lambda a, b: a / b, np.divide),
}


@pytest.mark.parametrize("name", BINARY)
@given(hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=3), seeds)
def test_binary_operators(name, shapes, seed):
    ours, numpys = BINARY[name]
    a, b = (draw(s, seed + i) for i, s in enumerate(shapes.input_shapes))
    np.testing.assert_array_equal(
        ours(a, b).numpy(), numpys(a.numpy(), b.numpy())
    )
    lucid.check_gradients(ours, a, b)


WITH_NUMBERS = {
    "x + 2": lambda x: x + 2,
    "2 + x": lambda x: 2 + x,
    "x - 2.5": lambda x: x - 2.5,
    "2.5 - x": lambda x: 2.5 - x,
    "x * -3": lambda x: x * -3,
    "-3 * x": lambda x: -3 * x,
    "x / 4": lambda x: x / 4,
    "4 / x": lambda x: 4 / x,
    "x ** 2": lambda x: x**2,
    "x ** 3": lambda x: x**3,
    "x ** -1": lambda x: x**-1,
    "-x": lambda x: -x,
}


@pytest.mark.parametrize("text", WITH_NUMBERS)
@given(shapes, seeds)
def test_operators_with_numbers(text, shape, seed):
    x = draw(shape, seed)
    expected = eval(text, {"x": x.numpy()})
    np.testing.assert_array_equal(WITH_NUMBERS[text](x).numpy(), expected)
    lucid.check_gradients(WITH_NUMBERS[text], x)


FUNCTIONS = {
    "exp": (ops.exp, np.exp),
    "log": (ops.log, np.log),
    "sqrt": (ops.sqrt, np.sqrt),
    "tanh": (ops.tanh, np.tanh),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@given(shapes, seeds)
def test_elementary_functions(name, shape, seed):
    ours, numpys = FUNCTIONS[name]
    x = draw(shape, seed, positive=True)
    np.testing.assert_allclose(
        ours(x).numpy(), numpys(x.numpy()), rtol=1e-15
    )
    lucid.check_gradients(ours, x)


@given(hnp.mutually_broadcastable_shapes(num_shapes=3, max_dims=3), seeds)
def test_where(shapes, seed):
    choice, a, b = (
        draw(s, seed + i) for i, s in enumerate(shapes.input_shapes)
    )
    condition = choice > 0
    np.testing.assert_array_equal(
        ops.where(condition, a, b).numpy(),
        np.where(choice.numpy() > 0, a.numpy(), b.numpy()),
    )
    lucid.check_gradients(lambda a, b: ops.where(condition, a, b), a, b)


# ---- matrix products, shapes, reductions -------------------------------------


@given(
    hnp.mutually_broadcastable_shapes(signature=np.matmul.signature), seeds
)
@settings(max_examples=40)
def test_matmul(shapes, seed):
    if min(map(len, shapes.input_shapes)) < 2:
        return
    a, b = (draw(s, seed + i) for i, s in enumerate(shapes.input_shapes))
    np.testing.assert_allclose(
        (a @ b).numpy(), a.numpy() @ b.numpy(), rtol=1e-12, atol=1e-12
    )
    lucid.check_gradients(lambda a, b: a @ b, a, b)


@given(shapes, seeds, st.data())
def test_shape_operations(shape, seed, data):
    x = draw(shape, seed)
    axes = tuple(data.draw(st.permutations(range(len(shape)))))
    np.testing.assert_array_equal(
        x.transpose(*axes).numpy(), x.numpy().transpose(axes)
    )
    lucid.check_gradients(lambda x: x.transpose(*axes), x)
    lucid.check_gradients(lambda x: x.T, x)
    lucid.check_gradients(lambda x: x.reshape(-1), x)
    if len(shape) > 1:
        lucid.check_gradients(lambda x: x.mT, x)


@pytest.mark.parametrize("name", ["sum", "mean", "max", "min"])
@given(shapes, seeds, st.booleans(), st.data())
def test_reductions(name, shape, seed, keepdims, data):
    x = draw(shape, seed)
    some = st.lists(st.integers(-len(shape), len(shape) - 1), min_size=1)
    axis = data.draw(
        st.none()
        | st.integers(-len(shape), len(shape) - 1)
        | some.map(lambda a: tuple({i % len(shape) for i in a}))
    )
    expected = getattr(x.numpy(), name)(axis=axis, keepdims=keepdims)
    got = getattr(x, name)(axis, keepdims)
    np.testing.assert_allclose(got.numpy(), expected, rtol=1e-12, atol=1e-12)
    lucid.check_gradients(lambda x: getattr(x, name)(axis, keepdims), x)


@pytest.mark.parametrize("name", ["sum", "mean", "max", "min"])
@pytest.mark.parametrize("axis", [np.int64(1), (np.int32(0), np.int64(-1))])
def test_an_axis_may_be_a_numpy_integer(name, axis):
    x = draw((2, 3), 0)
    lucid.check_gradients(lambda x: getattr(x, name)(axis), x)


@pytest.mark.numpy_only("CuPy has no axis -1 where there is none")
@pytest.mark.parametrize("name", ["sum", "mean", "max", "min"])
def test_a_number_has_an_axis_that_reductions_take(name):
    x = draw((), 0)
    assert getattr(x, name)(axis=-1).item() == x.item()
    lucid.check_gradients(lambda x: getattr(x, name)(axis=-1), x)


@given(shapes, seeds, st.data())
def test_indexing_with_slices(shape, seed, data):
    x = draw(shape, seed)
    index = data.draw(hnp.basic_indices(shape, allow_newaxis=True))
    np.testing.assert_array_equal(x[index].numpy(), x.numpy()[index])
    lucid.check_gradients(lambda x: x[index], x)


@given(shapes, seeds, st.data())
def test_indexing_with_repeated_integers(shape, seed, data):
    x = draw(shape, seed)
    rows = data.draw(
        st.lists(st.integers(0, shape[0] - 1), min_size=1, max_size=6)
    )
    for index in (rows, np.array(rows), lucid.tensor(rows)):
        np.testing.assert_array_equal(x[index].numpy(), x.numpy()[rows])
        lucid.check_gradients(lambda x, index=index: x[index], x)


def test_equal_largest_elements_share_the_gradient():
    x = lucid.tensor([[1.0, 3.0, 3.0], [2.0, 0.0, 1.0]], requires_grad=True)
    x.max(1).sum().backward()
    np.testing.assert_array_equal(
        x.grad.numpy(), [[0.0, 0.5, 0.5], [1.0, 0.0, 0.0]]
    )


@given(shapes, seeds, st.data())
def test_concatenate(shape, seed, data):
    axis = data.draw(st.integers(0, len(shape) - 1))
    longer = [n + (i == axis) for i, n in enumerate(shape)]
    a, b = draw(shape, seed), draw(longer, seed + 1)
    np.testing.assert_array_equal(
        ops.concatenate([a, b], axis).numpy(),
        np.concatenate([a.numpy(), b.numpy()], axis),
    )
    lucid.check_gradients(lambda a, b: ops.concatenate([a, b], axis), a, b)


# ---- operations of neural networks --------------------------------------------


@given(shapes, st.integers(1, 4), seeds, st.booleans())
def test_linear(shape, out, seed, with_bias):
    inputs = [draw(shape, seed), draw((out, shape[-1]), seed + 1)]
    if with_bias:
        inputs.append(draw((out,), seed + 2))
    arrays = [t.numpy() for t in inputs]
    expected = arrays[0] @ arrays[1].T + (arrays[2] if with_bias else 0)
    np.testing.assert_allclose(
        F.linear(*inputs).numpy(), expected, rtol=1e-12, atol=1e-12
    )
    lucid.check_gradients(F.linear, *inputs)


@given(shapes, st.integers(2, 5), seeds)
def test_layer_norm(shape, size, seed):
    x = draw((*shape[:-1], size), seed)
    weight, bias = draw((size,), seed + 1), draw((size,), seed + 2)
    # two features are +-1 once normalised: keep them apart
    a = x.numpy() + np.linspace(0.0, 3.0, size)
    x = lucid.tensor(a, requires_grad=True)
    normal = (a - a.mean(-1, keepdims=True)) / np.sqrt(
        a.var(-1, keepdims=True) + 1e-3
    )
    np.testing.assert_allclose(
        F.layer_norm(x, weight, bias, 1e-3).numpy(),
        normal * weight.numpy() + bias.numpy(),
        rtol=1e-11,
        atol=1e-11,
    )
    lucid.check_gradients(
        lambda *t: F.layer_norm(*t, eps=1e-3), x, weight, bias
    )


ACTIVATIONS = {
    F.gelu: lambda x: x * 0.5 * (1 + math.erf(x / math.sqrt(2))),
    F.gelu_tanh: lambda x: (
        x
        * 0.5
        * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    ),
    F.relu: lambda x: max(x, 0.0),
}


@pytest.mark.parametrize("activation", ACTIVATIONS, ids=lambda f: f.__name__)
@given(shapes, seeds)
def test_activations(activation, shape, seed):
    x = draw(shape, seed)
    expected = np.vectorize(ACTIVATIONS[activation], otypes=[float])(
        x.numpy()
    )
    np.testing.assert_allclose(
        activation(x).numpy(), expected, rtol=1e-13, atol=1e-15
    )
    lucid.check_gradients(activation, x)


def test_activations_of_a_single_number():
    for activation, expected in ACTIVATIONS.items():
        x = lucid.tensor(np.float64(0.7), requires_grad=True)
        assert activation(x).shape == ()
        assert activation(x).item() == pytest.approx(
            expected(0.7), rel=1e-13
        )
        lucid.check_gradients(activation, x)


@given(shapes, seeds, st.data())
def test_softmax(shape, seed, data):
    x = draw(shape, seed)
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    e = np.exp(x.numpy())
    p = e / e.sum(axis, keepdims=True)
    np.testing.assert_allclose(F.softmax(x, axis).numpy(), p, rtol=1e-12)
    np.testing.assert_allclose(
        F.log_softmax(x, axis).numpy(), np.log(p), rtol=1e-12, atol=1e-14
    )
    lucid.check_gradients(lambda x: F.softmax(x, axis), x)
    lucid.check_gradients(lambda x: F.log_softmax(x, axis), x)


def test_softmax_does_not_overflow():
    for dtype in (np.float32, np.float64):
        x = lucid.tensor(np.array([1e4, 0.0, -1e4], dtype=dtype))
        np.testing.assert_array_equal(F.softmax(x).numpy(), [1.0, 0.0, 0.0])
        np.testing.assert_array_equal(
            F.log_softmax(x).numpy(), [0.0, -1e4, -2e4]
        )


sizes = st.integers(1, 3)


@given(
    sizes, sizes, sizes, sizes, seeds, st.sampled_from(["", "keys", "all"])
)
def test_attention(batch, heads, tokens, width, seed, kind):
    shape = (batch, heads, tokens, width)
    q, k, v = (draw(shape, seed + i) for i in range(3))
    rng = np.random.default_rng(seed)
    rows = {"": 0, "keys": 1, "all": tokens}[kind]
    visible = rng.random((batch, 1, rows, tokens)) < 0.6
    mask = lucid.tensor(visible) if kind else None
    scores = q.numpy() @ k.numpy().swapaxes(-1, -2) / math.sqrt(width)
    e = np.exp(scores) * (visible if kind else 1.0)
    total = e.sum(-1, keepdims=True)
    p = np.divide(e, total, out=np.zeros_like(e), where=total > 0)
    context, weights = F.attention(q, k, v, mask)
    np.testing.assert_allclose(weights.numpy(), p, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(context.numpy(), p @ v.numpy(), atol=1e-12)
    lucid.check_gradients(
        lambda q, k, v: F.attention(q, k, v, mask)[0], q, k, v
    )


def test_attention_with_dropout_has_the_gradient_of_what_it_did():
    q, k, v = (draw((2, 2, 4, 3), i) for i in range(3))

    def same_dropout(q, k, v):
        lucid.manual_seed(5)
        return F.attention(q, k, v, None, 0.4)[0]

    lucid.check_gradients(same_dropout, q, k, v)


def test_dropout_has_the_gradient_of_what_it_did():
    def same_dropout(x):
        lucid.manual_seed(5)
        return F.dropout(x, 0.4)

    lucid.check_gradients(same_dropout, draw((6, 7), 0))


def test_dropout_keeps_the_mean():
    lucid.manual_seed(0)
    y = F.dropout(lucid.tensor(np.ones((400, 500), np.float32)), 0.25)
    kept = y.numpy() > 0
    assert abs(kept.mean() - 0.75) < 0.005
    np.testing.assert_array_equal(
        np.unique(y.numpy()), np.float32([0.0, 1 / 0.75])
    )


@given(st.integers(1, 5), sizes, seeds, st.data())
def test_embedding(rows, width, seed, data):
    table = draw((rows, width), seed)
    ids = lucid.tensor(
        data.draw(
            hnp.arrays(
                np.int64,
                hnp.array_shapes(max_dims=2, max_side=4),
                elements=st.integers(0, rows - 1),
            )
        )
    )
    np.testing.assert_array_equal(
        F.embedding(ids, table).numpy(), table.numpy()[ids.numpy()]
    )
    lucid.check_gradients(lambda table: F.embedding(ids, table), table)


def test_embedding_sends_nothing_to_the_padding_row():
    table = draw((4, 3), 0)
    F.embedding(
        lucid.tensor([[0, 2, 2], [1, 2, 0]]), table, 2
    ).sum().backward()
    np.testing.assert_array_equal(
        table.grad.numpy()[:, 0], [2.0, 1.0, 0.0, 0.0]
    )


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@given(shapes, st.integers(2, 4), seeds, st.booleans())
def test_cross_entropy(reduction, shape, classes, seed, weighted):
    logits = draw((*shape, classes), seed)
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, shape)
    y[rng.random(shape) < 0.3] = -100
    w = rng.uniform(0.5, 2.0, classes) if weighted else np.ones(classes)
    z = logits.numpy()
    logp = z - np.log(np.exp(z).sum(-1, keepdims=True))
    importance = np.where(y == -100, 0.0, w[y % classes])
    picked = np.take_along_axis(logp, (y % classes)[..., None], -1)[..., 0]
    losses = -importance * picked
    expected = {
        "none": losses,
        "sum": losses.sum(),
        "mean": losses.sum() / (importance.sum() or 1.0),
    }[reduction]
    weight = lucid.tensor(w) if weighted else None
    labels = lucid.tensor(y)

    def loss(z):
        return F.cross_entropy(z, labels, weight, reduction=reduction)

    np.testing.assert_allclose(loss(logits).numpy(), expected, atol=1e-12)
    lucid.check_gradients(loss, logits)


def test_cross_entropy_scales_with_what_arrives():
    """A factor after the loss, and a gradient of another value than 1."""
    labels = lucid.tensor([0, 1, -100, 2])
    for reduction in ("mean", "sum", "none"):
        logits = draw((4, 3), 1)
        loss = F.cross_entropy(logits, labels, reduction=reduction)
        (loss.sum() * -2.5).backward(lucid.tensor(3.0, dtype="float64"))
        scaled, logits.grad = logits.grad.numpy(), None
        F.cross_entropy(logits, labels, reduction=reduction).sum().backward()
        np.testing.assert_allclose(scaled, -7.5 * logits.grad.numpy())


def test_float16_counts_more_rows_than_it_can_write():
    logits = lucid.tensor(
        np.zeros((70_000, 2), np.float16), requires_grad=True
    )
    labels = lucid.tensor(np.zeros(70_000, np.int64))
    loss = F.cross_entropy(logits, labels)
    loss.backward()
    assert loss.dtype == logits.grad.dtype == np.float16
    np.testing.assert_allclose(loss.item(), math.log(2), rtol=1e-3)
    total = np.abs(logits.grad.numpy().astype(np.float64)).sum()
    np.testing.assert_allclose(total, 1.0, rtol=1e-2)


def test_the_mean_divides_by_its_weights_whatever_their_sign():
    """Equation (losses-mean-forward) has no exception but a sum of 0."""
    logits, labels = draw((2, 3), 0), lucid.tensor([0, 0])
    plain = F.cross_entropy(logits, labels).item()
    weight = lucid.tensor(np.array([-2.0, 1.0, 1.0]))
    got = F.cross_entropy(logits, labels, weight).item()
    np.testing.assert_allclose(got, plain)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@given(shapes, seeds)
def test_mse_loss(reduction, shape, seed):
    a, b = draw(shape, seed), draw(shape, seed + 1)
    squares = (a.numpy() - b.numpy()) ** 2
    expected = {
        "none": squares,
        "sum": squares.sum(),
        "mean": squares.mean(),
    }[reduction]

    def loss(a, b):
        return F.mse_loss(a, b, reduction)

    np.testing.assert_allclose(loss(a, b).numpy(), expected, rtol=1e-12)
    lucid.check_gradients(loss, a, b)


# ---- what is refused by name --------------------------------------------------

FLOATS = {  # by the arguments that have to be floating point of one dtype
    "exp": (ops.exp, {"x": (3,)}),
    "log": (ops.log, {"x": (3,)}),
    "sqrt": (ops.sqrt, {"x": (3,)}),
    "tanh": (ops.tanh, {"x": (3,)}),
    "gelu": (F.gelu, {"x": (3,)}),
    "gelu_tanh": (F.gelu_tanh, {"x": (3,)}),
    "relu": (F.relu, {"x": (3,)}),
    "softmax": (F.softmax, {"x": (3,)}),
    "log_softmax": (F.log_softmax, {"x": (3,)}),
    "dropout": (lambda x: F.dropout(x, 0.5), {"x": (3,)}),
    "linear": (F.linear, {"x": (2, 3), "weight": (4, 3), "bias": (4,)}),
    "layer_norm": (
        F.layer_norm,
        {"x": (2, 3), "weight": (3,), "bias": (3,)},
    ),
    "attention": (
        lambda **inputs: F.attention(**inputs)[0],
        {"query": (1, 1, 2, 3), "key": (1, 1, 2, 3), "value": (1, 1, 2, 3)},
    ),
    "cross_entropy": (
        lambda **inputs: F.cross_entropy(
            labels=lucid.tensor([0, 1]), **inputs
        ),
        {"logits": (2, 3), "weight": (3,)},
    ),
    "mse_loss": (F.mse_loss, {"predictions": (3,), "targets": (3,)}),
}
SPOILT = [
    (name, argument)
    for name, (_, arguments) in FLOATS.items()
    for argument in arguments
]


@pytest.mark.parametrize("name, argument", SPOILT)
def test_floats_of_one_dtype_are_wanted(name, argument):
    function, arguments = FLOATS[name]
    fine = {k: lucid.tensor(np.ones(s, "f4")) for k, s in arguments.items()}
    assert function(**fine).dtype == np.float32
    one = fine[argument]
    for wrong in ("int64", "bool"):
        spoilt = {**fine, argument: one.to(dtype=wrong)}
        with pytest.raises(TypeError, match=f"^{argument}: .*{wrong}"):
            function(**spoilt)
    if len(fine) > 1:  # the first one is the measure, the message has both
        spoilt = {**fine, argument: one.to(dtype="float64")}
        with pytest.raises(TypeError, match="float64.*float32|float32.*64"):
            function(**spoilt)
    with pytest.raises(TypeError, match=f"^{argument}: .*ndarray"):
        function(**{**fine, argument: np.ones(one.shape, np.float32)})


def test_labels_ids_and_masks_are_tensors_too(tiny):
    x = lucid.tensor(np.ones((1, 1, 2, 3), np.float32))
    model = bert.BERTModel(tiny())
    for named, refused in {
        "labels": lambda: F.cross_entropy(x, np.zeros((1, 1, 2), int)),
        "mask": lambda: F.attention(x, x, x, np.ones((1, 1, 1, 2), bool)),
        "input_ids": lambda: model([[1, 2]]),
        "attention_mask": lambda: model(
            lucid.tensor([[1]]), np.ones((1, 1))
        ),
    }.items():
        with pytest.raises(TypeError, match=f"^{named}: .*lucid.tensor"):
            refused()


def test_one_number_is_no_row():
    one = lucid.tensor(1.0)
    with pytest.raises(ValueError, match="^logits: "):
        F.cross_entropy(one, lucid.tensor(0))
    with pytest.raises(ValueError, match="^x: "):
        F.layer_norm(one, one, one)


# ---- float32: no silent promotion, and the fast erf ---------------------------


def test_nothing_leaves_float32():
    x = lucid.tensor(
        np.float32([[0.5, -1.0], [2.0, 3.0]]), requires_grad=True
    )
    gamma, beta = (lucid.tensor([1.0, 2.0]) for _ in range(2))
    results = [
        *(f(x) for f in WITH_NUMBERS.values()),
        *(f(x) for f in ACTIVATIONS),
        *(getattr(x, name)() for name in ("sum", "mean", "max", "min")),
        ops.exp(x),
        ops.tanh(x),
        F.softmax(x),
        F.log_softmax(x),
        F.linear(x, x, gamma),
        F.layer_norm(x, gamma, beta),
        F.dropout(x, 0.5),
        F.cross_entropy(x, lucid.tensor([0, 1])),
        F.mse_loss(x, x * 2),
        F.attention(*(x.reshape(1, 1, 2, 2),) * 3, None, 0.5)[0],
    ]
    for result in results:
        assert result.dtype == np.float32
        x.grad = None
        result.sum().backward()
        assert x.grad.dtype == np.float32 and x.grad.shape == x.shape


def test_float32_gelu_is_right_to_the_last_bits():
    x = np.linspace(-9, 9, 200_001).astype(np.float32)
    exact = F.gelu(lucid.tensor(x.astype(np.float64))).numpy()
    error = np.abs(F.gelu(lucid.tensor(x)).numpy() - exact)
    assert (error / np.maximum(np.abs(x), 1)).max() < 2e-7
    huge = F.gelu(lucid.tensor(np.float32([-1e18, -50.0, 50.0, 1e18])))
    np.testing.assert_array_equal(huge.numpy(), np.float32([0, 0, 50, 1e18]))


def test_blocks_of_rows_give_the_same_as_one_piece():
    """Long inputs are cut into blocks; short ones are not."""
    rng = np.random.default_rng(0)
    x = lucid.tensor(rng.standard_normal((1000, 768), dtype=np.float32))
    ones, zeros = lucid.tensor([1.0] * 768), lucid.tensor([0.0] * 768)
    for f in (F.gelu, lambda x: F.layer_norm(x, ones, zeros)):
        whole = f(x).numpy()
        pieces = np.concatenate(
            [f(x[i : i + 1]).numpy() for i in range(1000)]
        )
        np.testing.assert_array_equal(whole, pieces)
        np.testing.assert_array_equal(whole, f(x).numpy())
