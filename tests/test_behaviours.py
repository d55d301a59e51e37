"""Behaviours which public BERT implementations got wrong, one test or more per row.

The rows are those of the project's list of thirty-two; each docstring names where
the fault was reported. Rows 4, 6, 7, 8 and the data half of row 25 are in
test_data.py, row 30 in test_text.py, rows 31 and 32 in test_optim.py.
"""

from __future__ import annotations

import copy
import inspect
import math

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import lucid
import lucid.models.text.bert as bert
from lucid import nn
from lucid.nn import functional as F

WORDS = "bert.embeddings.word_embeddings.weight"
DECODER = "cls.predictions.decoder.weight"
BIAS = "cls.predictions.bias"


def randn(
    *shape: int, seed: int = 0, dtype: type = np.float32
) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def weights(model: nn.Module) -> dict[str, np.ndarray]:
    return {name: p.numpy().copy() for name, p in model.named_parameters()}


def change(model: nn.Module, **arrays: np.ndarray) -> None:
    """Set some parameters; a double underscore stands for the dot."""
    model.load_state_dict(
        {name.replace("__", "."): value for name, value in arrays.items()},
        strict=False,
    )


def randomise(model: nn.Module, seed: int = 0) -> nn.Module:
    """Far from the initial weights: LayerNorms not the identity, no zero bias."""
    rng = np.random.default_rng(seed)
    new = {
        name: (
            (1.0 if name.endswith("LayerNorm.weight") else 0.0)
            + 0.3 * rng.normal(size=p.shape)
        ).astype(p.dtype)
        for name, p in model.named_parameters()
    }
    model.load_state_dict(new)
    return model


def module_at(model: nn.Module, path: str) -> nn.Module:
    for part in path.split("."):
        model = model[int(part)] if part.isdigit() else getattr(model, part)
    return model


def gradient(model: nn.Module, name: str) -> np.ndarray:
    return dict(model.named_parameters())[name].grad.numpy()


# ---- the loss and its labels ------------------------------------------------


@pytest.mark.parametrize("name", ["BERTForMaskedLM", "BERTForPreTraining"])
def test_row_01_all_labels_ignored_gives_loss_zero(tiny, name):
    """transformers #16711: all labels are -100 and the loss is NaN."""
    model = getattr(bert, name)(tiny()).eval()
    ids = lucid.tensor([[1, 2, 3]])
    out = model(ids, labels=lucid.tensor([[-100, -100, -100]]))
    assert out.loss.item() == 0.0
    out.loss.backward()
    seen = [p.grad.numpy() for p in model.parameters() if p.grad is not None]
    assert seen
    for g in seen:
        assert np.isfinite(g).all() and not g.any()


def test_row_01_all_ignored_leaves_the_next_sentence_loss_alone(tiny):
    model = bert.BERTForPreTraining(tiny()).eval()
    out = model(
        lucid.tensor([[1, 2, 3]]),
        labels=lucid.tensor([[-100, -100, -100]]),
        next_sentence_label=lucid.tensor([1]),
    )
    assert out.mlm_loss.item() == 0.0
    assert out.loss.item() == out.nsp_loss.item() > 0.0


@pytest.mark.parametrize("vocab", [50, 200])
def test_row_02_minus_100_is_ignored_not_an_index(vocab):
    """transformers #2491, #2718, #2759: -100 is a legal index once V >= 100."""
    logits = randn(2, vocab)
    two = lucid.tensor(logits, requires_grad=True)
    one = lucid.tensor(logits[:1], requires_grad=True)
    loss = F.cross_entropy(two, lucid.tensor([7, -100]))
    alone = F.cross_entropy(one, lucid.tensor([7]))
    assert loss.item() == alone.item()
    loss.backward()
    alone.backward()
    np.testing.assert_array_equal(two.grad.numpy()[:1], one.grad.numpy())
    assert not two.grad.numpy()[1].any()


@pytest.mark.parametrize("vocab", [50, 200])
def test_row_02_minus_1_is_a_label_out_of_range(vocab):
    logits = lucid.tensor(randn(2, vocab))
    with pytest.raises(ValueError, match=r"labels.*-1\b"):
        F.cross_entropy(logits, lucid.tensor([7, -1]))
    told = F.cross_entropy(logits, lucid.tensor([7, -1]), ignore_index=-1)
    assert (
        told.item() == F.cross_entropy(logits[:1], lucid.tensor([7])).item()
    )


def test_row_02_in_the_model_at_a_vocabulary_over_100(tiny):
    model = randomise(bert.BERTForMaskedLM(tiny(vocab_size=137)).eval())
    ids = lucid.tensor([[5, 6, 7]])
    out = model(ids, labels=lucid.tensor([[-100, 9, -100]]))
    want = F.cross_entropy(out.logits[0][1:2], lucid.tensor([9]))
    assert out.loss.item() == pytest.approx(want.item(), rel=1e-6)


@pytest.mark.parametrize(
    "name", ["BERTForPreTraining", "BERTForNextSentencePrediction"]
)
@pytest.mark.parametrize("label", [0, 1])
def test_row_03_both_next_sentence_classes_give_gradient(tiny, name, label):
    """codertimo/BERT-pytorch #49, #98: ignore_index=0 drops class 0."""
    model = randomise(getattr(bert, name)(tiny()).eval())
    argument = (
        "next_sentence_label" if name == "BERTForPreTraining" else "labels"
    )
    out = model(
        lucid.tensor([[1, 2, 3]]), **{argument: lucid.tensor([label])}
    )
    assert out.loss.item() > 0.0
    out.loss.backward()
    g = gradient(model, "cls.seq_relationship.bias")
    assert g[label] < -1e-3 and g[1 - label] > 1e-3


def test_row_03_token_0_is_a_masked_lm_target_like_any_other(tiny):
    model = randomise(bert.BERTForMaskedLM(tiny()).eval())
    out = model(lucid.tensor([[1, 2]]), labels=lucid.tensor([[0, -100]]))
    want = F.cross_entropy(out.logits[0][:1], lucid.tensor([0]))
    assert out.loss.item() == pytest.approx(want.item(), rel=1e-6)
    assert out.loss.item() > 0.0


def test_row_05_logits_at_ignored_positions_do_not_matter():
    """d2l-en #2582: the mean taken before the mask, which then has no effect."""
    labels = lucid.tensor([3, -100, 4, -100])
    logits = randn(4, 10)
    other = logits.copy()
    other[[1, 3]] = 50 * randn(2, 10, seed=1)
    loss = F.cross_entropy(lucid.tensor(logits), labels)
    assert loss.item() == F.cross_entropy(lucid.tensor(other), labels).item()
    counted = F.cross_entropy(
        lucid.tensor(logits[[0, 2]]), lucid.tensor([3, 4])
    )
    assert loss.item() == pytest.approx(counted.item(), rel=1e-6)
    total = F.cross_entropy(lucid.tensor(logits), labels, reduction="sum")
    assert total.item() == pytest.approx(2 * loss.item(), rel=1e-6)
    each = F.cross_entropy(lucid.tensor(logits), labels, reduction="none")
    assert each.shape == (4,)
    assert not each.numpy()[[1, 3]].any() and each.numpy()[[0, 2]].all()


def test_row_05_class_weights_divide_by_the_weights_that_count():
    """The mean is over the weights of the counted labels, as in the field."""
    weight = np.array([0.5, 2.0, 1.0], np.float32)
    logits = randn(4, 3)
    labels = np.array([0, -100, 1, 2])
    got = F.cross_entropy(
        lucid.tensor(logits),
        lucid.tensor(labels),
        weight=lucid.tensor(weight),
    )
    log_p = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    kept = [0, 2, 3]
    w = weight[labels[kept]]
    want = -(w * log_p[kept, labels[kept]]).sum() / w.sum()
    assert got.item() == pytest.approx(float(want), rel=1e-6)


def test_row_27_equal_values_have_no_error(tiny):
    """transformers #11780, FARM #229: (B, 1) minus (B,) broadcasts to (B, B)."""
    values = randn(4)
    assert (
        F.mse_loss(lucid.tensor(values), lucid.tensor(values)).item() == 0.0
    )
    model = bert.BERTForSequenceClassification(tiny(num_labels=1)).eval()
    randomise(model)
    ids = lucid.tensor([[1, 2], [3, 4], [5, 6]])
    logits = model(ids).logits.numpy()
    assert np.ptp(logits) > 1e-3
    assert model(ids, labels=lucid.tensor(logits[:, 0])).loss.item() == 0.0


def test_row_27_targets_of_another_shape_raise(tiny):
    with pytest.raises(ValueError, match=r"targets.*\(4, 1\)"):
        F.mse_loss(lucid.tensor(randn(4)), lucid.tensor(randn(4, 1)))
    with pytest.raises(ValueError, match=r"\(4,\)"):
        F.mse_loss(lucid.tensor(randn(4, 1)), lucid.tensor(randn(4)))
    model = bert.BERTForSequenceClassification(tiny(num_labels=1)).eval()
    ids = lucid.tensor([[1, 2], [3, 4]])
    with pytest.raises(ValueError, match=r"labels.*\(3,\)"):
        model(ids, labels=lucid.tensor(randn(3)))
    with pytest.raises(ValueError, match=r"labels.*\(2, 2\)"):
        model(ids, labels=lucid.tensor(randn(2, 2)))


@pytest.mark.parametrize("label", [3, -1, 99])
def test_row_29_a_label_out_of_range_names_itself_and_the_count(tiny, label):
    """transformers #216, #976: a label outside 0..n-1."""
    model = bert.BERTForSequenceClassification(tiny(num_labels=3)).eval()
    ids = lucid.tensor([[1, 2], [3, 4]])
    with pytest.raises(ValueError, match=rf"labels.*{label}\b.*\b3\b"):
        model(ids, labels=lucid.tensor([0, label]))


def test_row_29_in_the_other_heads(tiny):
    ids = lucid.tensor([[1, 2]])
    with pytest.raises(ValueError, match=r"labels.*\b50\b.*\b50\b"):
        bert.BERTForMaskedLM(tiny())(ids, labels=lucid.tensor([[50, 1]]))
    with pytest.raises(ValueError, match=r"labels.*\b2\b.*\b2\b"):
        bert.BERTForNextSentencePrediction(tiny())(
            ids, labels=lucid.tensor([2])
        )
    model = bert.BERTForPreTraining(tiny())
    with pytest.raises(
        ValueError, match=r"next_sentence_label.*\b2\b.*\b2\b"
    ):
        model(ids, next_sentence_label=lucid.tensor([2]))


# ---- the mask and the inputs ------------------------------------------------


def test_row_09_a_query_that_sees_nothing_attends_to_nothing(tiny):
    """transformers PR #17306, #15326: NaN, or attention over padding."""
    model = randomise(bert.BERTModel(tiny()).eval())
    ids = lucid.tensor([[1, 2, 3]])
    mask = np.ones((1, 3, 3), np.int64)
    mask[0, 1] = 0
    out = model(
        ids,
        attention_mask=lucid.tensor(mask),
        output_attentions=True,
        output_hidden_states=True,
    )
    for layer in out.attentions:
        assert not layer.numpy()[:, :, 1].any(), (
            "no weight at all in that row"
        )
        np.testing.assert_allclose(
            layer.numpy()[:, :, [0, 2]].sum(-1), 1, rtol=1e-6
        )
    for state in out.hidden_states:
        assert np.isfinite(state.numpy()).all()
    (out.last_hidden_state * out.last_hidden_state).sum().backward()
    for name, p in model.named_parameters():
        if p.grad is not None:
            assert np.isfinite(p.grad.numpy()).all(), name


def test_row_09_a_sequence_of_padding_only(tiny):
    model = randomise(bert.BERTModel(tiny()).eval())
    ids = lucid.tensor([[1, 2, 3], [0, 0, 0]])
    mask = lucid.tensor([[1, 1, 1], [0, 0, 0]])
    out = model(ids, attention_mask=mask, output_attentions=True)
    assert not out.attentions[0].numpy()[1].any()
    assert np.isfinite(out.last_hidden_state.numpy()).all()
    alone = model(lucid.tensor([[1, 2, 3]])).last_hidden_state.numpy()
    np.testing.assert_allclose(
        out.last_hidden_state.numpy()[0], alone[0], rtol=0, atol=1e-6
    )


def test_row_09_is_documented():
    text = inspect.getdoc(F.attention)
    assert (
        "no key" in text or "sees nothing" in text or "fully masked" in text
    )


def test_row_09_masked_keys_get_no_weight_however_large_their_score(tiny):
    """A finite penalty added to the scores can be outbid; a boolean mask cannot."""
    model = bert.BERTModel(tiny(num_hidden_layers=1)).eval()
    randomise(model)
    name = "encoder.layer.0.attention.self.{}.{}"
    big = 1e3 * np.eye(16, dtype=np.float32)
    change(model, **{name.format("query", "weight"): big})
    change(model, **{name.format("key", "weight"): big})
    mask = lucid.tensor([[1, 1, 0, 0]])
    out = model(
        lucid.tensor([[1, 2, 3, 4]]),
        attention_mask=mask,
        output_attentions=True,
    )
    assert not out.attentions[0].numpy()[..., 2:].any()
    assert np.isfinite(out.last_hidden_state.numpy()).all()


@pytest.mark.parametrize("padding", [1, 3, 7])
def test_row_10_padding_does_not_change_real_tokens(tiny, padding):
    """transformers #278, #2860, candle #1798."""
    model = randomise(bert.BERTModel(tiny()).eval())
    ids = np.array([[3, 14, 15, 9]])
    alone = model(lucid.tensor(ids), output_hidden_states=True)
    padded_ids = np.concatenate(
        [ids, np.zeros((1, padding), np.int64)], axis=1
    )
    mask = lucid.tensor((np.arange(4 + padding) < 4)[None].astype(np.int64))
    padded = model(
        lucid.tensor(padded_ids),
        attention_mask=mask,
        output_hidden_states=True,
    )
    for got, want in zip(
        padded.hidden_states, alone.hidden_states, strict=True
    ):
        np.testing.assert_allclose(
            got.numpy()[:, :4], want.numpy(), rtol=0, atol=2e-6
        )
    np.testing.assert_allclose(
        padded.pooler_output.numpy(), alone.pooler_output.numpy(), atol=1e-6
    )


def test_row_10_what_stands_in_the_padding_does_not_matter(tiny):
    model = randomise(bert.BERTForMaskedLM(tiny()).eval())
    mask = lucid.tensor([[1, 1, 0, 0]])
    labels = lucid.tensor([[5, 6, -100, -100]])
    results = []
    for ids in ([[1, 2, 0, 0]], [[1, 2, 33, 44]]):
        out = model(lucid.tensor(ids), attention_mask=mask, labels=labels)
        results.append((out.logits.numpy()[:, :2], out.loss.item()))
    np.testing.assert_array_equal(results[0][0], results[1][0])
    assert results[0][1] == results[1][1]


def test_row_10_a_padding_mask_and_its_full_form_agree(tiny):
    model = randomise(bert.BERTModel(tiny()).eval())
    ids = lucid.tensor([[1, 2, 3, 0], [4, 5, 0, 0]])
    mask = np.array([[1, 1, 1, 0], [1, 1, 0, 0]])
    full = np.broadcast_to(mask[:, None], (2, 4, 4)).copy()
    by_padding = model(
        ids, attention_mask=lucid.tensor(mask)
    ).last_hidden_state
    for form in (full, full.astype(bool), full.astype(np.int32)):
        by_full = model(
            ids, attention_mask=lucid.tensor(form)
        ).last_hidden_state
        real = mask.astype(bool)
        np.testing.assert_allclose(
            by_full.numpy()[real],
            by_padding.numpy()[real],
            rtol=0,
            atol=2e-6,
        )
    nothing = model(ids).last_hidden_state.numpy()
    assert np.abs(nothing - by_padding.numpy())[real].max() > 1e-3


@pytest.mark.parametrize(
    "name",
    [
        "BERTModel",
        "BERTForPreTraining",
        "BERTForMaskedLM",
        "BERTForNextSentencePrediction",
        "BERTForSequenceClassification",
    ],
)
def test_row_11_the_order_of_the_arguments(tiny, name):
    """transformers #800, #1788: segments passed as the mask, positionally."""
    model = randomise(getattr(bert, name)(tiny()).eval())
    order = list(inspect.signature(model.forward).parameters)
    assert order[:3] == ["input_ids", "attention_mask", "token_type_ids"]
    ids, mask = lucid.tensor([[1, 2, 3]]), lucid.tensor([[1, 1, 0]])
    segments = lucid.tensor([[0, 1, 1]])
    by_place = model(ids, mask, segments)[0].numpy()
    by_name = model(
        input_ids=ids, attention_mask=mask, token_type_ids=segments
    )
    np.testing.assert_array_equal(by_place, by_name[0].numpy())
    swapped = model(ids, segments, mask)[0].numpy()
    assert np.abs(swapped - by_place).max() > 1e-3
    # The head hands them on in the right order: what stands under the mask's
    # 0 has no effect on the first token, what stands under its 1 has one.
    hidden = model(lucid.tensor([[1, 2, 9]]), mask, segments)[0].numpy()
    seen = model(lucid.tensor([[1, 9, 3]]), mask, segments)[0].numpy()
    first = (0, 0) if by_place.ndim == 3 else 0
    np.testing.assert_array_equal(hidden[first], by_place[first])
    assert np.abs(seen[first] - by_place[first]).max() > 1e-5


def test_row_11_a_mask_of_another_dtype_or_shape_is_a_clear_error(tiny):
    model = bert.BERTModel(tiny()).eval()
    ids = lucid.tensor([[1, 2, 3]])
    for mask in (
        lucid.tensor([[1.0, 1.0, 0.0]]),
        lucid.tensor([[1, 1]]),
        lucid.tensor([1, 1, 1]),
        lucid.tensor([[0, 1, 2]]),
        lucid.tensor([[0, -10000, 0]]),
    ):
        with pytest.raises((TypeError, ValueError), match="attention_mask"):
            model(ids, mask)
    with pytest.raises(ValueError, match=r"token_type_ids.*\b2\b"):
        model(ids, token_type_ids=lucid.tensor([[0, 1, 2]]))


@pytest.mark.parametrize("name", ["BERTModel", "BERTForPreTraining"])
def test_row_24_a_sequence_over_the_limit(tiny, name):
    """transformers #125, #97: length over the limit crashes, or wraps on a GPU."""
    model = getattr(bert, name)(tiny(max_position_embeddings=8)).eval()
    assert model(lucid.tensor([[1] * 8]))[0].shape[1] == 8
    with pytest.raises(ValueError, match=r"\b9\b.*\b8\b"):
        model(lucid.tensor([[1] * 9]))


@pytest.mark.parametrize("token", [50, 51, 1000, -1, -50])
def test_row_24_a_token_outside_the_vocabulary(tiny, token):
    model = bert.BERTModel(tiny()).eval()
    with pytest.raises(ValueError, match=rf"input_ids.*{token}\b.*\b50\b"):
        model(lucid.tensor([[1, token]]))


def test_row_24_in_the_plain_layer():
    layer = nn.Embedding(5, 3)
    for token in (5, -1):
        with pytest.raises(ValueError, match=rf"{token}\b.*\b5\b"):
            layer(lucid.tensor([0, token]))


# ---- initial weights, eval and train ----------------------------------------


@pytest.mark.parametrize("name", ["BERTModel", "BERTForPreTraining"])
@pytest.mark.parametrize("pad", [0, 3])
def test_row_12_the_padding_row_starts_at_zero(tiny, name, pad):
    """transformers #344, pytorch #6411: re-randomised by init."""
    model = getattr(bert, name)(tiny(pad_token_id=pad))
    trunk = getattr(model, "bert", model)
    rows = np.abs(trunk.embeddings.word_embeddings.weight.numpy()).max(
        axis=1
    )
    assert rows[pad] == 0.0
    assert (np.delete(rows, pad) > 0.0).all()


def test_row_12_look_ups_send_the_padding_row_no_gradient(tiny):
    model = bert.BERTModel(tiny(pad_token_id=3)).eval()
    out = model(lucid.tensor([[1, 3, 2, 3]]))
    (out.last_hidden_state * lucid.tensor(randn(1, 4, 16))).sum().backward()
    g = gradient(model, "embeddings.word_embeddings.weight")
    assert not g[3].any()
    assert np.abs(g[[1, 2]]).min() > 0.0
    assert not np.delete(g, [1, 2], axis=0).any()


def test_row_12_the_tied_decoder_does_use_the_padding_row(tiny):
    model = bert.BERTForMaskedLM(tiny(pad_token_id=0)).eval()
    model(
        lucid.tensor([[1, 0]]), labels=lucid.tensor([[4, -100]])
    ).loss.backward()
    assert gradient(model, WORDS)[0].any()


def test_row_12_loading_keeps_the_padding_row(load_case, tmp_path):
    case = load_case("pretraining_tied_gelu")
    want = case.weights[WORDS][0]
    assert np.abs(want).min() > 0.0
    loaded = bert.BERTForPreTraining.from_pretrained(
        case.write_folder(tmp_path)
    )
    words = loaded.bert.embeddings.word_embeddings.weight
    np.testing.assert_array_equal(words.numpy()[0], want)
    copied = copy.deepcopy(loaded).to(dtype=np.float32).bert
    np.testing.assert_array_equal(
        copied.embeddings.word_embeddings.weight.numpy()[0], want
    )


def test_row_21_initial_weights(tiny):
    """transformers #143: LayerNorm drawn at random; initializer_range ignored."""
    for scale in (0.02, 0.05):
        config = tiny(
            initializer_range=scale,
            hidden_size=64,
            intermediate_size=128,
            vocab_size=500,
        )
        for name, p in bert.BERTForPreTraining(config).named_parameters():
            value = p.numpy()
            if name.endswith("LayerNorm.weight"):
                assert (value == 1.0).all(), name
            elif name.endswith("bias"):
                assert not value.any(), name
            else:
                assert np.abs(value).max() <= 2 * scale * (1 + 1e-6), name
                assert abs(value.mean()) < 0.3 * scale, name
                if value.size >= 4096:
                    # A normal cut at two deviations keeps 0.880 of its own.
                    assert value.std() == pytest.approx(
                        0.88 * scale, rel=0.04
                    ), name
                    assert np.abs(value).max() > 1.9 * scale, name


def test_row_21_the_head_of_a_classifier_is_drawn_alike(tiny):
    config = tiny(num_labels=200, initializer_range=0.05, hidden_size=32)
    head = bert.BERTForSequenceClassification(config).classifier
    assert head.weight.numpy().std() == pytest.approx(0.044, rel=0.04)
    assert not head.bias.numpy().any()


def test_row_22_every_layer_norm_has_the_configs_eps(tiny):
    """keras-hub #642: eps 1e-12 only in the embeddings."""
    x = lucid.tensor(1e-3 * np.array([[1, -1, 2, -2]]), dtype=np.float32)
    for eps, small, large in ((1e-12, 0.632, 1.265), (1e-5, 0.283, 0.566)):
        config = tiny(
            hidden_size=4,
            num_attention_heads=1,
            num_hidden_layers=2,
            layer_norm_eps=eps,
        )
        model = bert.BERTForPreTraining(config).eval()
        paths = [
            name.removesuffix(".weight")
            for name, _ in model.named_parameters()
            if name.endswith("LayerNorm.weight")
        ]
        assert len(paths) == 1 + 2 * 2 + 1
        for path in paths:
            got = module_at(model, path)(x).numpy()
            want = [[small, -small, large, -large]]
            np.testing.assert_allclose(
                got, want, rtol=0, atol=6e-4, err_msg=path
            )


def test_row_22_the_default_is_berts(tiny):
    assert bert.BERTConfig().layer_norm_eps == 1e-12


def gelu_erf(x: float) -> float:
    return 0.5 * x * (1 + math.erf(x / math.sqrt(2)))


def gelu_tanh(x: float) -> float:
    return (
        0.5
        * x
        * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    )


@pytest.mark.parametrize("x", [2.7, -2.7, 0.5, -0.1, 0.0, 6.0, -9.0])
def test_row_23_two_gelus_under_two_names(x):
    """keras-bert #129: they differ by 4.73e-4 near 2.70."""
    value = lucid.tensor([x])
    assert F.gelu(value).item() == pytest.approx(gelu_erf(x), abs=1e-6)
    assert F.gelu_tanh(value).item() == pytest.approx(gelu_tanh(x), abs=1e-6)
    if abs(x) == 2.7:
        distance = abs(F.gelu(value).item() - F.gelu_tanh(value).item())
        assert distance == pytest.approx(4.73e-4, abs=2e-6)


def test_row_23_the_configs_names(tiny):
    """The erf form is "gelu"; the rest agrees if the names are exchanged."""
    ids = lucid.tensor([[1, 2, 3]])
    state = weights(randomise(bert.BERTModel(tiny())))
    results = {}
    formulas = {"gelu": gelu_erf, "relu": lambda x: max(x, 0.0)}
    at = lucid.tensor([[2.7]])
    for act in ("gelu", "gelu_new", "gelu_pytorch_tanh", "relu"):
        model = bert.BERTModel(tiny(hidden_act=act)).eval()
        model.load_state_dict(state)
        results[act] = model(ids).last_hidden_state.numpy()
        value = model.encoder.layer[0].intermediate.activation(at).item()
        want = formulas.get(act, gelu_tanh)(2.7)
        assert value == pytest.approx(want, abs=1e-6), act
    np.testing.assert_array_equal(
        results["gelu_new"], results["gelu_pytorch_tanh"]
    )
    assert 0 < np.abs(results["gelu"] - results["gelu_new"]).max() < 1e-2
    assert np.abs(results["gelu"] - results["relu"]).max() > 1e-2


def test_row_25_label_0_means_that_b_follows_a(tiny):
    """transformers #836, google-research/bert #125: the polarity of NSP."""
    for name in ("BERTForPreTraining", "BERTForNextSentencePrediction"):
        model = getattr(bert, name)(tiny()).eval()
        # A head that is sure that B follows A: its score is the first column.
        change(
            model,
            cls__seq_relationship__weight=np.zeros((2, 16), np.float32),
            cls__seq_relationship__bias=np.array([4.0, -4.0], np.float32),
        )
        argument = "next_sentence_label" if "Training" in name else "labels"
        ids = lucid.tensor([[1, 2, 3]])
        follows = model(ids, **{argument: lucid.tensor([0])}).loss.item()
        random = model(ids, **{argument: lucid.tensor([1])}).loss.item()
        assert follows == pytest.approx(math.log1p(math.exp(-8)), rel=1e-3)
        assert random == pytest.approx(
            8 + math.log1p(math.exp(-8)), rel=1e-5
        )
        text = " ".join((inspect.getdoc(type(model).forward) or "").split())
        assert "0" in text and "follows" in text, (
            "the polarity is documented"
        )


def test_row_26_eval_repeats_and_train_does_not(tiny):
    """transformers #679, #9039: dropout left on."""
    for hidden, attention in ((0.1, 0.1), (0.5, 0.0), (0.0, 0.5)):
        config = tiny(hidden_dropout=hidden, attention_dropout=attention)
        model = randomise(bert.BERTModel(config))
        ids = lucid.tensor([[1, 2, 3, 4, 5, 6]])

        def run(model=model, ids=ids):
            return model(ids).last_hidden_state.numpy()

        model.eval()
        np.testing.assert_array_equal(run(), run())
        model.train()
        assert (run() != run()).any()
        lucid.manual_seed(5)
        first = run()
        lucid.manual_seed(5)
        np.testing.assert_array_equal(first, run())


def test_row_26_a_loaded_model_is_in_eval_mode(load_case, tmp_path):
    folder = load_case("model_plain").write_folder(tmp_path)
    model = bert.BERTModel.from_pretrained(folder)
    ids = lucid.tensor([[1, 2, 3, 4, 5, 6]])
    np.testing.assert_array_equal(
        model(ids)[0].numpy(), model(ids)[0].numpy()
    )


def test_row_26_the_classifiers_own_dropout_obeys(tiny):
    config = tiny(classifier_dropout=0.5)
    model = randomise(bert.BERTForSequenceClassification(config))
    ids = lucid.tensor([[1, 2, 3]])

    def run():
        return model(ids).logits.numpy()

    model.eval()
    np.testing.assert_array_equal(run(), run())
    model.train()
    assert any((run() != run()).any() for _ in range(3))


# ---- the tied decoder -------------------------------------------------------


@pytest.mark.parametrize("name", ["BERTForMaskedLM", "BERTForPreTraining"])
@pytest.mark.parametrize("size", [60, 40])
@pytest.mark.parametrize("tied", [True, False])
def test_row_13_resizing_takes_decoder_and_bias_along(
    tiny, name, size, tied
):
    """transformers #851, #2480, #9058."""
    model = randomise(
        getattr(bert, name)(tiny(tie_word_embeddings=tied))
    ).eval()
    before = weights(model)
    decoder_before = model.cls.predictions.decoder.weight.numpy().copy()
    model.resize_token_embeddings(size)
    kept = min(size, 50)
    words = model.bert.embeddings.word_embeddings.weight
    decoder = model.cls.predictions.decoder.weight
    bias = model.cls.predictions.bias
    assert words.shape == decoder.shape == (size, 16)
    assert bias.shape == (size,)
    assert model.config.vocab_size == size
    np.testing.assert_array_equal(words.numpy()[:kept], before[WORDS][:kept])
    np.testing.assert_array_equal(
        decoder.numpy()[:kept], decoder_before[:kept]
    )
    np.testing.assert_array_equal(bias.numpy()[:kept], before[BIAS][:kept])
    assert (decoder is words) is tied
    assert len({id(p) for p in model.parameters()}) == len(before)
    out = model(
        lucid.tensor([[1, size - 1]]), labels=lucid.tensor([[size - 1, 2]])
    )
    assert out[
        "logits" if name == "BERTForMaskedLM" else "prediction_logits"
    ].shape == (
        1,
        2,
        size,
    )
    out.loss.backward()
    assert gradient(model, WORDS).shape == (size, 16)
    with pytest.raises(ValueError, match=rf"\b{size}\b"):
        model(lucid.tensor([[size]]))


def test_row_13_new_rows_are_drawn_like_the_first(tiny):
    model = bert.BERTForMaskedLM(tiny(initializer_range=0.05))
    model.resize_token_embeddings(550)
    new = model.bert.embeddings.word_embeddings.weight.numpy()[50:]
    assert new.std() == pytest.approx(0.044, rel=0.05)
    assert not model.cls.predictions.bias.numpy()[50:].any()


def test_row_13_a_resized_model_saves_and_loads(tiny, tmp_path):
    model = randomise(bert.BERTForPreTraining(tiny())).eval()
    model.resize_token_embeddings(53)
    model.save_pretrained(tmp_path)
    again = bert.BERTForPreTraining.from_pretrained(tmp_path).eval()
    ids = lucid.tensor([[1, 52]])
    np.testing.assert_array_equal(
        model(ids)[0].numpy(), again(ids)[0].numpy()
    )


def test_row_14_the_decoder_bias_is_added_once(tiny):
    """transformers PR #2928."""
    for name in ("BERTForMaskedLM", "BERTForPreTraining"):
        model = randomise(getattr(bert, name)(tiny())).eval()
        change(model, **{BIAS: np.ones(50, np.float32)})
        ids = lucid.tensor([[1, 2, 3]])
        h = model.bert(ids).last_hidden_state
        h = model.cls.predictions.transform(h).numpy()
        table = model.bert.embeddings.word_embeddings.weight.numpy()
        got = model(ids)[0].numpy()
        np.testing.assert_allclose(got, h @ table.T + 1.0, rtol=0, atol=2e-6)


@pytest.mark.parametrize(
    "aliases", [(), (DECODER,), ("bias",), (DECODER, "bias")]
)
def test_row_15_loads_with_or_without_the_aliases(
    load_case, tmp_path, aliases
):
    """candle PR #2879: decoder.weight and decoder.bias missing from a checkpoint."""
    case = load_case("pretraining_tied_gelu")
    extra = {}
    if DECODER in aliases:
        extra[DECODER] = case.weights[WORDS]
    if "bias" in aliases:
        extra["cls.predictions.decoder.bias"] = case.weights[BIAS]
    model = bert.BERTForPreTraining.from_pretrained(
        case.write_folder(tmp_path, **extra)
    )
    assert model.cls.predictions.decoder.weight is (
        model.bert.embeddings.word_embeddings.weight
    )
    np.testing.assert_array_equal(
        model.cls.predictions.bias.numpy(), case.weights[BIAS]
    )
    fresh = bert.BERTForPreTraining(model.config)
    fresh.load_state_dict({**case.weights, **extra})
    for name, value in weights(fresh).items():
        np.testing.assert_array_equal(value, case.weights[name], name)


def test_row_15_only_the_decoders_alias_is_there(load_case, tmp_path):
    """A file may also hold the shared bias under the decoder's name alone."""
    case = load_case("pretraining_tied_gelu")
    state = dict(case.weights)
    state["cls.predictions.decoder.bias"] = state.pop(BIAS)
    folder = case.write_folder(tmp_path)
    save_file(state, folder / "model.safetensors")
    model = bert.BERTForPreTraining.from_pretrained(folder)
    np.testing.assert_array_equal(
        model.cls.predictions.bias.numpy(), case.weights[BIAS]
    )


def test_row_15_an_untied_decoder_has_a_bias_of_its_own(load_case, tmp_path):
    """Of an untied model transformers 5 saves two biases, and adds one."""
    case = load_case("masked_lm_untied_relu")
    own = case.weights[BIAS] + 0.5
    folder = case.write_folder(
        tmp_path, **{"cls.predictions.decoder.bias": own}
    )
    model = bert.BERTForMaskedLM.from_pretrained(folder)
    np.testing.assert_array_equal(model.cls.predictions.bias.numpy(), own)


@pytest.mark.parametrize("alias, own", [(DECODER, WORDS), ("bias", BIAS)])
def test_row_15_aliases_that_contradict_each_other_raise(
    load_case, tmp_path, alias, own
):
    case = load_case("pretraining_tied_gelu")
    alias = "cls.predictions.decoder.bias" if alias == "bias" else alias
    other = case.weights[own].copy()
    other.flat[-1] += 0.5
    folder = case.write_folder(tmp_path, **{alias: other})
    with pytest.raises(ValueError, match=alias.replace(".", r"\.")):
        bert.BERTForPreTraining.from_pretrained(folder)
    model = bert.BERTForPreTraining(bert.BERTConfig.from_dict(case.config))
    before = weights(model)
    with pytest.raises(ValueError, match=alias.replace(".", r"\.")):
        model.load_state_dict({**case.weights, alias: other})
    for name, value in weights(model).items():
        np.testing.assert_array_equal(value, before[name], name)


@pytest.mark.parametrize("name", ["BERTForMaskedLM", "BERTForPreTraining"])
def test_row_16_the_tie_survives_load_copy_and_move(tiny, name, tmp_path):
    """pytorch #188346, LLMs-from-scratch #822: the tied weight becomes a copy."""

    def assert_tied(model):
        words = model.bert.embeddings.word_embeddings.weight
        assert model.cls.predictions.decoder.weight is words
        names = [name for name, _ in model.named_parameters()]
        assert WORDS in names and DECODER not in names
        return words

    model = getattr(bert, name)(tiny())
    first = assert_tied(model)
    state = {k: v.numpy() + 1 for k, v in model.state_dict().items()}
    model.load_state_dict(state)
    words = assert_tied(model)
    np.testing.assert_array_equal(words.numpy(), state[WORDS])
    assert words is first, (
        "loading fills the parameters that an optimiser holds"
    )
    copied = copy.deepcopy(model)
    assert assert_tied(copied) is not words
    assert_tied(model.to(dtype=np.float64))
    assert_tied(model.to(backend="numpy"))
    assert_tied(copy.deepcopy(model.to(dtype=np.float32).train().eval()))
    model.tie_weights()
    assert_tied(model)
    model.save_pretrained(tmp_path)
    assert_tied(getattr(bert, name).from_pretrained(tmp_path))


def test_row_16_a_copy_shares_nothing_with_its_original(tiny):
    model = bert.BERTForPreTraining(tiny())
    copied = copy.deepcopy(model)
    before = weights(model)
    copied.load_state_dict({k: v + 1 for k, v in before.items()})
    for name, value in weights(model).items():
        np.testing.assert_array_equal(value, before[name], name)


@pytest.mark.numpy_only("the parameters are as many everywhere")
def test_row_16_the_base_model_has_the_papers_parameters():
    model = bert.BERTForPreTraining(bert.BERTConfig())

    def count(module):
        return sum(math.prod(p.shape) for p in module.parameters())

    assert count(model.bert) == 109_482_240
    assert count(model) == 110_106_428


def test_row_17_each_parameter_is_listed_once(tiny):
    """returnn #1319: tied parameter listed twice, decayed twice."""
    for tied in (True, False):
        model = bert.BERTForPreTraining(tiny(tie_word_embeddings=tied))
        parameters = list(model.parameters())
        assert len({id(p) for p in parameters}) == len(parameters)
        names = [name for name, _ in model.named_parameters()]
        assert len(set(names)) == len(names) == len(parameters)
        assert (DECODER in names) is not tied


def masked_lm_run(model, state, ids, labels):
    model.load_state_dict(state)
    model.eval()
    return model(lucid.tensor(ids), labels=lucid.tensor(labels)).loss


def test_row_17_its_gradient_is_the_sum_of_both_paths(tiny):
    ids, labels = [[1, 2, 3, 4]], [[-100, 7, -100, 2]]
    tied = bert.BERTForMaskedLM(tiny()).to(dtype=np.float64)
    state = weights(randomise(tied))
    masked_lm_run(tied, state, ids, labels).backward()
    got = gradient(tied, WORDS)

    # By identity: two separate arrays with the same values, one for each path.
    untied = bert.BERTForMaskedLM(tiny(tie_word_embeddings=False))
    untied.to(dtype=np.float64)
    both = {**state, DECODER: state[WORDS]}
    masked_lm_run(untied, both, ids, labels).backward()
    look_up, decoder = gradient(untied, WORDS), gradient(untied, DECODER)
    assert np.abs(look_up).max() > 1e-3 and np.abs(decoder).max() > 1e-3
    np.testing.assert_allclose(got, look_up + decoder, rtol=0, atol=1e-12)

    # By number: token 2 is looked up and a target, 7 a target only, 30 neither.
    for row, column in ((2, 0), (1, 3), (7, 5), (30, 9)):
        ends = []
        for step in (1e-5, -1e-5):
            moved = {**state, WORDS: state[WORDS].copy()}
            moved[WORDS][row, column] += step
            ends.append(masked_lm_run(tied, moved, ids, labels).item())
        numeric = (ends[0] - ends[1]) / 2e-5
        assert got[row, column] == pytest.approx(numeric, rel=1e-5, abs=1e-9)


# ---- checkpoints ------------------------------------------------------------


def test_row_18_old_layer_norm_names_are_read(load_case, tmp_path):
    """transformers #29554, PR #35615: gamma and beta of LayerNorm."""
    case = load_case("classification_two_labels")
    old = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
            "LayerNorm.bias", "LayerNorm.beta"
        ): value
        for name, value in case.weights.items()
    }
    assert old.keys() != case.weights.keys()
    folder = case.write_folder(tmp_path)
    save_file(old, folder / "model.safetensors")
    model = bert.BERTForSequenceClassification.from_pretrained(folder)
    for name, value in weights(model).items():
        np.testing.assert_array_equal(value, case.weights[name], name)


@pytest.mark.parametrize(
    "suffix", ["gamma", "beta_weight", "LayerNorm_gamma"]
)
def test_row_18_other_gammas_and_betas_are_left_alone(
    load_case, tmp_path, suffix
):
    """A name that merely contains gamma or beta is not a LayerNorm's."""
    case = load_case("classification_two_labels")
    folder = case.write_folder(tmp_path)
    # In the trunk it is refused by its own name ...
    state = dict(case.weights)
    state[f"bert.pooler.dense.{suffix}"] = state.pop(
        "bert.pooler.dense.bias"
    )
    save_file(state, folder / "model.safetensors")
    with pytest.raises(
        ValueError, match=rf"bert\.pooler\.dense\.{suffix}\b"
    ):
        bert.BERTForSequenceClassification.from_pretrained(folder)
    # ... and in a head it fills nothing, and the gap is named.
    state = dict(case.weights)
    state[f"classifier.{suffix}"] = state.pop("classifier.bias")
    save_file(state, folder / "model.safetensors")
    with pytest.warns(UserWarning, match=r"classifier\.bias"):
        model = bert.BERTForSequenceClassification.from_pretrained(folder)
    assert not model.classifier.bias.numpy().any()


def test_row_18_old_and_new_name_at_once_is_refused(load_case, tmp_path):
    case = load_case("model_plain")
    name = "embeddings.LayerNorm.gamma"
    value = case.weights["embeddings.LayerNorm.weight"]
    folder = case.write_folder(tmp_path, **{name: value + 1})
    with pytest.raises(ValueError, match=r"embeddings\.LayerNorm\.gamma"):
        bert.BERTModel.from_pretrained(folder)


def test_row_19_a_square_kernel_is_used_the_right_way_round(
    load_case, tmp_path
):
    """transformers #9657: only the values of an asymmetric kernel can tell."""
    case = load_case("model_plain")
    kernel = case.weights["pooler.dense.weight"]
    assert kernel.shape[0] == kernel.shape[1]
    model = bert.BERTModel.from_pretrained(case.write_folder(tmp_path))
    np.testing.assert_array_equal(model.pooler.dense.weight.numpy(), kernel)
    x = randn(3, kernel.shape[1])
    got = model.pooler.dense(lucid.tensor(x)).numpy()
    want = x @ kernel.T + case.weights["pooler.dense.bias"]
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-5)
    assert np.abs(x @ kernel - x @ kernel.T).max() > 0.1


def test_row_19_tensorflow_names_and_optimiser_slots_never_fill_a_weight(
    load_case, tmp_path
):
    """A kernel under TensorFlow's name, or Adam's slots, must not load silently."""
    case = load_case("model_plain")
    slots = {
        "pooler.dense.weight.adam_m": case.weights["pooler.dense.weight"]
        * 0,
        "pooler/dense/kernel/adam_v": case.weights["pooler.dense.weight"]
        * 0,
    }
    folder = case.write_folder(tmp_path / "slots", **slots)
    try:
        model = bert.BERTModel.from_pretrained(folder)
    except ValueError as error:
        assert "adam_" in str(error)
    else:
        for name, value in weights(model).items():
            np.testing.assert_array_equal(value, case.weights[name], name)
    state = dict(case.weights)
    state["pooler.dense.kernel"] = state.pop("pooler.dense.weight")
    folder = case.write_folder(tmp_path / "kernel")
    save_file(state, folder / "model.safetensors")
    with pytest.raises(ValueError, match=r"pooler\.dense\.kernel"):
        bert.BERTModel.from_pretrained(folder)


@pytest.mark.parametrize("name", ["pretraining_tied_gelu", "model_plain"])
@pytest.mark.parametrize("there", [True, False])
def test_row_20_the_position_ids_buffer_may_be_there(
    load_case, tmp_path, name, there
):
    """transformers #25330, #6882."""
    case = load_case(name)
    prefix = "" if name == "model_plain" else "bert."
    extra = (
        {f"{prefix}embeddings.position_ids": np.arange(16)[None]}
        if there
        else {}
    )
    model = case.model_class.from_pretrained(
        case.write_folder(tmp_path, **extra)
    )
    for key, value in weights(model).items():
        np.testing.assert_array_equal(value, case.weights[key], key)


def test_row_20_it_is_not_written(tiny, tmp_path):
    bert.BERTModel(tiny()).save_pretrained(tmp_path)
    names = load_file(tmp_path / "model.safetensors")
    assert not [name for name in names if "position_ids" in name]


@pytest.mark.parametrize("wanted", [5, 1])
def test_row_28_another_number_of_labels_is_not_silent(
    load_case, tmp_path, wanted
):
    """transformers #135, PR #12664."""
    case = load_case("classification_seven_labels")
    folder = case.write_folder(tmp_path)
    with pytest.raises(
        ValueError, match=r"classifier\.(weight|bias)"
    ) as raised:
        bert.BERTForSequenceClassification.from_pretrained(
            folder, num_labels=wanted
        )
    assert f"({wanted}" in str(raised.value) and "(7" in str(raised.value)
    with pytest.warns(UserWarning, match=r"classifier\.weight"):
        model = bert.BERTForSequenceClassification.from_pretrained(
            folder, num_labels=wanted, ignore_mismatched_sizes=True
        )
    assert model.config.num_labels == wanted
    for name, value in weights(model).items():
        if name.startswith("classifier"):
            assert value.shape[0] == wanted
            assert np.abs(value).max() <= 2 * 0.02 + 1e-7, (
                "drawn as at first"
            )
        else:
            np.testing.assert_array_equal(value, case.weights[name], name)


@pytest.mark.parametrize(
    "name",
    ["bert.encoder.layer.0.output.dense.bias", "bert.pooler.dense.bias"],
)
def test_row_28_the_option_covers_the_head_alone(load_case, tmp_path, name):
    """A trunk of another width is never re-drawn, option or not."""
    case = load_case("classification_seven_labels")
    state = dict(case.weights)
    state[name] = state[name][:-1]
    folder = case.write_folder(tmp_path)
    save_file(state, folder / "model.safetensors")
    with pytest.raises(ValueError, match=name.replace(".", r"\.")):
        bert.BERTForSequenceClassification.from_pretrained(
            folder, ignore_mismatched_sizes=True
        )
