"""lucid in float32 against transformers' numbers: outputs, losses, every gradient.

The reference was computed by torch in float64 from the same float32 weights
(``tests/make_fixtures.py``). The tolerances:

- forward: 1e-5 of the largest value of that output;
- losses: 1e-6, or 1e-6 of the loss where that is more (float32 holds a loss of
  8 only to 5e-7);
- gradients: 1e-4 of the largest value of that parameter's gradient. Some are
  zero by an identity (a key bias adds the same to every score of a row, and
  softmax does not see it; with one token no score matters), so torch's number is
  itself rounding: they have to be within 1e-6 of the model's largest gradient.

In float64 lucid then has to reach what the fixture holds.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import lucid
import lucid.models.text.bert as bert

FORWARD, LOSS, GRADIENT, ZERO = 1e-5, 1e-6, 1e-4, 1e-6


def largest(array: np.ndarray) -> float:
    return float(np.abs(array).max())


def assert_close(
    name: str, got: np.ndarray, want: np.ndarray, limit: float
) -> None:
    assert got.shape == want.shape, name
    error = largest(got.astype(np.float64) - want)
    assert error <= limit, f"{name}: off by {error:.2e}, allowed {limit:.2e}"


def compute(case, dtype=np.float32):
    """Run the model as the fixture was run; the trunk also shows its inside."""
    model, arguments = case.model(dtype), case.arguments(dtype)
    if case.model_class is bert.BERTModel:
        arguments.update(output_hidden_states=True, output_attentions=True)
    return model, arguments, model(**arguments)


def named_outputs(out) -> dict[str, lucid.Tensor]:
    found = {}
    for name in out.keys():
        value = out[name]
        if isinstance(value, tuple):
            found.update(
                {f"{name}.{i}": part for i, part in enumerate(value)}
            )
        else:
            found[name] = value
    return found


def trunk(case, model, arguments) -> dict[str, lucid.Tensor]:
    """Hidden states and attentions of a model with a head, from its trunk."""
    if case.model_class is bert.BERTModel:
        return {}
    inner = {k: v for k, v in arguments.items() if "label" not in k}
    return named_outputs(
        model.bert(
            **inner, output_hidden_states=True, output_attentions=True
        )
    )


def gradients(model, arguments) -> dict[str, np.ndarray]:
    leaves = dict(model.named_parameters())
    if "inputs_embeds" in arguments:
        leaves["inputs_embeds"] = arguments["inputs_embeds"]
    return {
        k: v.grad.numpy() for k, v in leaves.items() if v.grad is not None
    }


def test_parameter_names_and_shapes_are_hugging_faces(case):
    got = {name: p.shape for name, p in case.model().named_parameters()}
    assert got == {name: value.shape for name, value in case.weights.items()}


def test_forward(case):
    model, arguments, out = compute(case)
    got = {**trunk(case, model, arguments), **named_outputs(out)}
    assert case.outputs.keys() <= got.keys()
    for name, want in case.outputs.items():
        assert got[name].dtype == np.float32, name
        assert_close(name, got[name].numpy(), want, FORWARD * largest(want))


def test_losses(case):
    out = compute(case)[2]
    losses = {} if case.cotangents else case.losses  # a trunk has none
    assert losses.keys() == {name for name in out.keys() if "loss" in name}
    for name, want in losses.items():
        assert out[name].shape == (), name
        assert abs(out[name].item() - want) <= LOSS * max(1.0, abs(want)), (
            name
        )


def test_gradients(case):
    model, arguments, out = compute(case)
    case.loss(out).backward()
    got = gradients(model, arguments)
    assert case.gradients.keys() == got.keys()
    top = max(largest(want) for want in case.gradients.values())
    for name, want in case.gradients.items():
        assert got[name].dtype == np.float32, name
        limit = GRADIENT * largest(want)
        if largest(want) < 1e-12 * top:
            assert "key" in name or "query" in name
            limit = ZERO * top
        assert_close(name, got[name], want, limit)


def test_float64_reaches_the_reference(case):
    """The tolerances above are float32's; in float64 only storage is left."""
    model, arguments, out = compute(case, np.float64)
    got = {**trunk(case, model, arguments), **named_outputs(out)}
    for name, want in case.outputs.items():
        assert got[name].dtype == np.float64, name
        assert_close(name, got[name].numpy(), want, 1e-7 * largest(want))
    loss = case.loss(out)
    assert abs(loss.item() - case.losses["loss"]) <= 1e-12 * abs(
        case.losses["loss"]
    )
    loss.backward()
    got = gradients(model, arguments)
    top = max(largest(want) for want in case.gradients.values())
    for name, want in case.gradients.items():
        assert got[name].dtype == np.float64, name
        assert_close(
            name, got[name], want, 1e-7 * largest(want) + 1e-14 * top
        )


def test_from_pretrained_reads_the_same_model(case, tmp_path):
    loaded = case.model_class.from_pretrained(
        case.write_folder(tmp_path)
    ).eval()
    want = named_outputs(compute(case)[2])
    got = named_outputs(loaded(**case.arguments()))
    for name in got:
        np.testing.assert_array_equal(
            got[name].numpy(), want[name].numpy(), name
        )


def test_save_pretrained_keeps_everything(case, tmp_path):
    model = case.model()
    model.save_pretrained(tmp_path / "new" / "folder")
    again = case.model_class.from_pretrained(tmp_path / "new" / "folder")
    assert again.config == model.config
    state, want = again.state_dict(), model.state_dict()
    assert state.keys() == want.keys()
    for name in want:
        np.testing.assert_array_equal(
            state[name].numpy(), want[name].numpy(), name
        )


HEADS = {
    "BERTModel": set(),
    "BERTForPreTraining": set(),
    "BERTForMaskedLM": set(),
    "BERTForNextSentencePrediction": set(),
    "BERTForSequenceClassification": {
        "classifier.weight",
        "classifier.bias",
    },
}


@pytest.mark.parametrize("name", HEADS)
def test_every_class_reads_a_pretraining_checkpoint(
    load_case, tmp_path, name
):
    """Heads it does not have are passed over; a head that is missing is named."""
    case = load_case("pretraining_tied_gelu")
    folder = case.write_folder(tmp_path)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = getattr(bert, name).from_pretrained(folder)
    told = " ".join(str(w.message) for w in caught)
    assert len(caught) == bool(HEADS[name])
    for key, p in model.named_parameters():
        if key in HEADS[name]:
            assert key in told
        else:
            stored = f"bert.{key}" if name == "BERTModel" else key
            np.testing.assert_array_equal(
                p.numpy(), case.weights[stored], key
            )


@pytest.mark.parametrize("name", [n for n in HEADS if n != "BERTModel"])
def test_every_class_reads_the_trunk_alone(load_case, tmp_path, name):
    """A trunk saved by itself has no prefix; only the head stays as drawn."""
    case = load_case("model_plain")
    folder = case.write_folder(tmp_path)
    with pytest.warns(UserWarning, match=r"classifier|cls"):
        model = getattr(bert, name).from_pretrained(folder)
    for key, p in model.bert.named_parameters():
        np.testing.assert_array_equal(p.numpy(), case.weights[key], key)


def test_no_grad_gives_the_same_numbers_and_keeps_no_graph(case):
    want = named_outputs(compute(case)[2])
    with lucid.no_grad():
        got = named_outputs(compute(case)[2])
    for name, value in got.items():
        np.testing.assert_array_equal(
            value.numpy(), want[name].numpy(), name
        )
        assert not value.requires_grad, name
