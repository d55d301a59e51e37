"""transformers reads what lucid wrote, and lucid what transformers wrote.

An optional test: it is skipped where torch or transformers is absent. It also
rebuilds every fixture and compares it with the stored one.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

WHY = (
    "optional: compares with transformers on torch, which are not installed"
)
torch = pytest.importorskip("torch", reason=WHY)
transformers = pytest.importorskip("transformers", reason=WHY)

import lucid  # noqa: E402
import lucid.models.text.bert as bert  # noqa: E402

sys.path.insert(0, str(Path(__file__).parent))
import make_fixtures  # noqa: E402

transformers.logging.set_verbosity_error()


def read_with_transformers(case, folder):
    """transformers' model from `folder`; nothing may be missing or left over."""
    (architecture,) = case.config["architectures"]
    model, report = getattr(transformers, architecture).from_pretrained(
        folder, attn_implementation="eager", output_loading_info=True
    )
    for kind, names in report.items():
        assert not names, f"{kind}: {names}"
    return model.eval()


def transformers_outputs(case, model):
    """The outputs in float32, as the fixture has them."""
    return make_fixtures.run(
        model, case.inputs, case.cotangents, torch.float32
    )


def assert_outputs(case, found):
    for name, want in case.outputs.items():
        got = found[f"output/{name}"]
        assert np.abs(got - want).max() <= 1e-5 * np.abs(want).max(), name
    for name, want in case.losses.items():
        got = float(found[f"loss/{name}"])
        assert (
            abs(got - want) <= 1e-6 * max(1.0, abs(want)) or case.cotangents
        ), name


def test_transformers_reads_what_lucid_saved(case, tmp_path):
    case.model().save_pretrained(tmp_path)
    model = read_with_transformers(case, tmp_path)
    for name, parameter in model.named_parameters():
        if name in case.weights:
            np.testing.assert_array_equal(
                parameter.detach().numpy(), case.weights[name], name
            )
    assert case.weights.keys() <= dict(model.named_parameters()).keys()
    assert_outputs(case, transformers_outputs(case, model))


def test_transformers_reads_the_config_that_lucid_saved(case, tmp_path):
    model = case.model()
    model.save_pretrained(tmp_path)
    config = transformers.AutoConfig.from_pretrained(tmp_path)
    assert isinstance(config, transformers.BertConfig)
    assert config.architectures == case.config["architectures"]
    want = transformers.BertConfig.from_dict(case.config)
    for name in (
        "vocab_size hidden_size num_hidden_layers num_attention_heads "
        "intermediate_size hidden_act hidden_dropout_prob "
        "attention_probs_dropout_prob max_position_embeddings type_vocab_size "
        "initializer_range layer_norm_eps pad_token_id classifier_dropout "
        "num_labels tie_word_embeddings"
    ).split():
        assert getattr(config, name) == getattr(want, name), name
    again = bert.BERTConfig.from_dict(config.to_dict())
    assert again == model.config


def test_lucid_reads_what_transformers_saved(case, tmp_path):
    (architecture,) = case.config["architectures"]
    config = transformers.BertConfig.from_dict(case.config)
    theirs = getattr(transformers, architecture)(config)
    if hasattr(theirs, "cls") and hasattr(theirs.cls, "predictions"):
        theirs.cls.predictions.bias = theirs.cls.predictions.decoder.bias
    with torch.no_grad():
        for name, parameter in theirs.named_parameters():
            parameter.copy_(torch.from_numpy(case.weights[name]))
    theirs.save_pretrained(tmp_path)
    model = case.model_class.from_pretrained(tmp_path)
    assert model.config == case.model().config
    got = {name: p.numpy() for name, p in model.named_parameters()}
    assert got.keys() == case.weights.keys()
    for name, want in case.weights.items():
        np.testing.assert_array_equal(got[name], want, name)


def test_an_untied_decoder_adds_its_own_bias(load_case, tmp_path):
    """Of two saved biases transformers 5 adds the decoder's; so do we."""
    case = load_case("masked_lm_untied_relu")
    config = transformers.BertConfig.from_dict(case.config)
    theirs = transformers.BertForMaskedLM(config).eval()
    predictions = theirs.cls.predictions
    with torch.no_grad():
        predictions.decoder.bias.copy_(torch.arange(config.vocab_size))
        predictions.bias.fill_(-5.0)
    ids = np.array([[1, 2, 3]])
    want = theirs(torch.from_numpy(ids)).logits.detach().numpy()
    theirs.save_pretrained(tmp_path / "theirs")
    ours = bert.BERTForMaskedLM.from_pretrained(tmp_path / "theirs")
    got = ours(lucid.tensor(ids)).logits.numpy()
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)
    ours.save_pretrained(tmp_path / "ours")
    again = transformers.BertForMaskedLM.from_pretrained(tmp_path / "ours")
    back = again.eval()(torch.from_numpy(ids)).logits.detach().numpy()
    np.testing.assert_allclose(back, want, rtol=1e-4, atol=1e-4)


def test_a_classifier_starts_from_a_pretraining_checkpoint(
    load_case, tmp_path
):
    """The trunk is read from a model with other heads, by both libraries."""
    case = load_case("pretraining_tied_gelu")
    case.model().save_pretrained(tmp_path)
    theirs = transformers.BertModel.from_pretrained(tmp_path)
    ours = bert.BERTModel.from_pretrained(tmp_path)
    want = {
        name: p.detach().numpy() for name, p in theirs.named_parameters()
    }
    got = {name: p.numpy() for name, p in ours.named_parameters()}
    assert got.keys() == want.keys()
    for name in want:
        np.testing.assert_array_equal(got[name], want[name], name)


def test_the_stored_fixtures_are_what_the_script_computes(case):
    settings, arrays, _ = make_fixtures.build(case.name)
    for name in ("transformers_version", "dtype"):
        settings.pop(name, None), case.config.pop(name, None)
    assert {k: case.config.get(k) for k in settings} == settings
    stored = {
        **{f"weight/{k}": v for k, v in case.weights.items()},
        **{f"input/{k}": v for k, v in case.inputs.items()},
        **{f"output/{k}": v for k, v in case.outputs.items()},
        **{f"loss/{k}": v for k, v in case.losses.items()},
        **{f"cotangent/{k}": v for k, v in case.cotangents.items()},
        **{f"grad/{k}": v for k, v in case.gradients.items()},
    }
    assert stored.keys() == arrays.keys()
    top = max(float(np.abs(v).max()) for v in case.gradients.values())
    for name, value in arrays.items():
        scale = (
            top if name.startswith("grad/") else float(np.abs(value).max())
        )
        assert np.abs(value - stored[name]).max() <= 1e-6 * scale, name
