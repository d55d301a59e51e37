"""The two reference pages hold: examples as written, signatures, attributes.

The examples below are the pages' text, copied without a change and run by doctest.
"""

from __future__ import annotations

import doctest
import inspect

import numpy as np
import pytest

import lucid
import lucid.models as models
import lucid.models.text.bert as bert
from lucid import nn

PRETRAINING = """
>>> import lucid
>>> from lucid.models.text.bert import BERTConfig, BERTForPreTraining
>>> cfg = BERTConfig(num_hidden_layers=2, hidden_size=128,
...                  num_attention_heads=2, intermediate_size=512)
>>> model = BERTForPreTraining(cfg).eval()
>>> input_ids = lucid.tensor([[101, 7592, 103, 102, 2088, 102]])
>>> out = model(input_ids)
>>> out.prediction_logits.shape    # MLM logits  (B=1, T=6, V=30522)
(1, 6, 30522)
>>> out.seq_relationship_logits.shape   # NSP logits  (B=1, 2)
(1, 2)
"""

CLASSIFICATION = """
>>> import lucid
>>> from lucid.models.text.bert import BERTConfig, BERTForSequenceClassification
>>> cfg = BERTConfig(num_labels=3, num_hidden_layers=2, hidden_size=128,
...                  num_attention_heads=2, intermediate_size=512)
>>> model = BERTForSequenceClassification(cfg).eval()
>>> input_ids = lucid.tensor([[101, 7592, 102]])
>>> out = model(input_ids)
>>> out.logits.shape   # (B=1, num_labels=3)
(1, 3)
"""


@pytest.mark.parametrize(
    "page, examples",
    [
        ("BERTForPreTraining", PRETRAINING),
        ("BERTForSequenceClassification", CLASSIFICATION),
    ],
)
def test_examples_run_as_written(page, examples):
    test = doctest.DocTestParser().get_doctest(
        examples, {}, page, None, None
    )
    report: list[str] = []
    result = doctest.DocTestRunner(verbose=False).run(
        test, out=report.append
    )
    assert result.attempted == examples.count(">>>")
    assert result.failed == 0, "".join(report)


OPTIONAL = "Tensor | None"
PRETRAINING_FORWARD = {
    "input_ids": ("Tensor", inspect.Parameter.empty),
    "attention_mask": (OPTIONAL, None),
    "token_type_ids": (OPTIONAL, None),
    "labels": (OPTIONAL, None),
    "next_sentence_label": (OPTIONAL, None),
}
CLASSIFICATION_FORWARD = {
    name: value
    for name, value in PRETRAINING_FORWARD.items()
    if name != "next_sentence_label"
}


@pytest.mark.parametrize(
    "name, bases, forward, output",
    [
        (
            "BERTForPreTraining",
            ("PretrainedModel", "MaskedLMMixin"),
            PRETRAINING_FORWARD,
            "BERTForPreTrainingOutput",
        ),
        (
            "BERTForSequenceClassification",
            ("SequenceClassificationModel",),
            CLASSIFICATION_FORWARD,
            "SequenceClassificationOutput",
        ),
    ],
)
def test_signatures_are_the_pages(name, bases, forward, output):
    model_class = getattr(bert, name)
    for base in bases:
        assert issubclass(model_class, getattr(models, base))
    constructor = inspect.signature(model_class.__init__)
    assert list(constructor.parameters) == ["self", "config"]
    assert constructor.parameters["config"].annotation == "BERTConfig"
    assert constructor.return_annotation in ("None", None)
    signature = inspect.signature(model_class.forward)
    parameters = dict(signature.parameters)
    assert parameters.pop("self") is not None
    got = {key: (p.annotation, p.default) for key, p in parameters.items()}
    assert got == forward
    assert list(got) == list(forward), (
        "the order of the arguments is the page's"
    )
    assert all(
        p.kind is p.POSITIONAL_OR_KEYWORD for p in parameters.values()
    )
    assert signature.return_annotation == output


def test_pretraining_attributes(tiny):
    model = bert.BERTForPreTraining(tiny(vocab_size=60))
    assert isinstance(model.bert, bert.BERTModel)
    assert isinstance(model.cls, nn.Module)
    assert isinstance(model.cls.predictions, nn.Module)
    assert isinstance(model.cls.seq_relationship, nn.Linear)
    assert model.cls.seq_relationship.weight.shape == (2, 16)


@pytest.mark.parametrize("tied", [True, False])
def test_the_decoder_is_tied_as_the_config_says(tiny, tied):
    assert bert.BERTConfig().tie_word_embeddings is True
    model = bert.BERTForPreTraining(tiny(tie_word_embeddings=tied))
    embeddings = model.bert.embeddings.word_embeddings.weight
    assert (model.cls.predictions.decoder.weight is embeddings) is tied


def test_pretraining_loss_is_the_sum_of_what_is_supplied(tiny):
    model = bert.BERTForPreTraining(tiny()).eval()
    ids = lucid.tensor([[1, 2, 3], [4, 5, 6]])
    labels = lucid.tensor([[-100, 7, -100], [8, -100, 9]])
    next_label = lucid.tensor([0, 1])
    both = model(ids, labels=labels, next_sentence_label=next_label)
    assert both.loss.item() == pytest.approx(
        both.mlm_loss.item() + both.nsp_loss.item(), rel=1e-6
    )
    only_mlm = model(ids, labels=labels)
    assert (
        only_mlm.loss.item()
        == only_mlm.mlm_loss.item()
        == both.mlm_loss.item()
    )
    assert only_mlm.nsp_loss is None
    only_nsp = model(ids, next_sentence_label=next_label)
    assert (
        only_nsp.loss.item()
        == only_nsp.nsp_loss.item()
        == both.nsp_loss.item()
    )
    assert only_nsp.mlm_loss is None
    neither = model(ids)
    assert neither.loss is None


def test_classification_attributes(tiny):
    model = bert.BERTForSequenceClassification(tiny(num_labels=3))
    assert isinstance(model.bert, bert.BERTModel)
    assert isinstance(model.dropout, nn.Dropout)
    assert isinstance(model.classifier, nn.Linear)
    assert model.classifier.weight.shape == (3, 16)


def test_classifier_dropout_falls_back_to_hidden_dropout(tiny):
    make = bert.BERTForSequenceClassification
    assert make(tiny(hidden_dropout=0.3)).dropout.p == 0.3
    assert (
        make(tiny(hidden_dropout=0.3, classifier_dropout=0.0)).dropout.p
        == 0.0
    )
    assert make(tiny(classifier_dropout=0.4)).dropout.p == 0.4


def test_one_label_is_regression(tiny):
    model = bert.BERTForSequenceClassification(tiny(num_labels=1)).eval()
    ids = lucid.tensor([[1, 2, 3], [4, 5, 6]])
    targets = np.array([0.5, -1.5], np.float32)
    out = model(ids, labels=lucid.tensor(targets))
    want = ((out.logits.numpy()[:, 0] - targets) ** 2).mean()
    assert out.loss.item() == pytest.approx(float(want), rel=1e-6)


def test_the_embeddings_take_ids_or_embeddings_and_positions(tiny):
    """The second page's text under ``forward``."""
    model = bert.BERTModel(tiny()).eval()
    ids = lucid.tensor([[1, 2, 3]])
    words = model.embeddings.word_embeddings.weight.numpy()
    by_ids = model(input_ids=ids).last_hidden_state.numpy()
    by_embeds = model(
        inputs_embeds=lucid.tensor(words[ids.numpy()])
    ).last_hidden_state.numpy()
    np.testing.assert_array_equal(by_ids, by_embeds)
    default = model(
        input_ids=ids, position_ids=lucid.tensor([[0, 1, 2]])
    ).last_hidden_state.numpy()
    np.testing.assert_array_equal(by_ids, default)
    shifted = model(
        input_ids=ids, position_ids=lucid.tensor([[3, 4, 5]])
    ).last_hidden_state.numpy()
    assert np.abs(shifted - by_ids).max() > 1e-3


def test_config_defaults_are_bert_base_uncased():
    config = bert.BERTConfig()
    want = dict(
        vocab_size=30522,
        hidden_size=768,
        num_hidden_layers=12,
        num_attention_heads=12,
        intermediate_size=3072,
        hidden_act="gelu",
        hidden_dropout=0.1,
        attention_dropout=0.1,
        max_position_embeddings=512,
        type_vocab_size=2,
        initializer_range=0.02,
        layer_norm_eps=1e-12,
        pad_token_id=0,
        classifier_dropout=None,
        num_labels=2,
        tie_word_embeddings=True,
    )
    assert {name: getattr(config, name) for name in want} == want
