"""Bad input: each error names the argument, what came and what was allowed.

A failed load leaves no half-loaded model: either it raises before a value has
changed, or there is no model at all.
"""

from __future__ import annotations

import json
import math
import re

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import lucid
import lucid.models.text.bert as bert
from lucid.checks import check_integer, check_number
from lucid.nn.embedding import embedding

IDS = [[1, 2, 3], [4, 5, 6]]


def t(value, dtype=None):
    return lucid.tensor(value, dtype=dtype)


@pytest.fixture
def model(tiny):
    return bert.BERTModel(tiny()).eval()


def embeds(*shape):
    return lucid.tensor(np.zeros(shape, np.float32))


# ---- the forward pass -------------------------------------------------------

BAD_TRUNK_INPUTS = {
    "a token over the vocabulary": (
        dict(input_ids=t([[1, 50]])),
        ValueError,
        r"input_ids.*\b50\b.*\b50\b",
    ),
    "a negative token": (
        dict(input_ids=t([[1, -3]])),
        ValueError,
        r"input_ids.*-3\b.*\b50\b",
    ),
    "tokens as floats": (
        dict(input_ids=t([[1.0, 2.0]])),
        TypeError,
        r"input_ids.*float32",
    ),
    "one axis": (
        dict(input_ids=t([1, 2])),
        ValueError,
        r"input_ids.*\(2,\)",
    ),
    "three axes": (
        dict(input_ids=t([[[1, 2]]])),
        ValueError,
        r"input_ids.*\(1, 1, 2\)",
    ),
    "no token": (
        dict(input_ids=lucid.tensor(np.zeros((1, 0), np.int64))),
        ValueError,
        r"input_ids",
    ),
    "no sequence": (
        dict(input_ids=lucid.tensor(np.zeros((0, 3), np.int64))),
        ValueError,
        r"input_ids",
    ),
    "too long": (
        dict(input_ids=t([[1] * 13])),
        ValueError,
        r"input_ids.*\b13\b.*\b12\b",
    ),
    "embeddings too long": (
        dict(inputs_embeds=embeds(1, 13, 16)),
        ValueError,
        r"inputs_embeds.*\b13\b.*\b12\b",
    ),
    "neither": (dict(), ValueError, r"input_ids.*inputs_embeds"),
    "both": (
        dict(input_ids=t(IDS), inputs_embeds=embeds(2, 3, 16)),
        ValueError,
        r"input_ids.*inputs_embeds",
    ),
    "embeddings of another width": (
        dict(inputs_embeds=embeds(2, 3, 15)),
        ValueError,
        r"inputs_embeds.*\b15\b.*\b16\b|inputs_embeds.*\b16\b.*\b15\b",
    ),
    "embeddings with two axes": (
        dict(inputs_embeds=embeds(3, 16)),
        ValueError,
        r"inputs_embeds.*\(3, 16\)",
    ),
    "embeddings as integers": (
        dict(inputs_embeds=lucid.tensor(np.zeros((2, 3, 16), np.int64))),
        TypeError,
        r"inputs_embeds.*int64",
    ),
    "a mask that is too short": (
        dict(input_ids=t(IDS), attention_mask=t([[1, 1], [1, 1]])),
        ValueError,
        r"attention_mask.*\(2, 2\).*\(2, 3\)|attention_mask.*\(2, 3\).*\(2, 2\)",
    ),
    "a mask without its batch": (
        dict(input_ids=t(IDS), attention_mask=t([1, 1, 1])),
        ValueError,
        r"attention_mask.*\(3,\)",
    ),
    "a mask of one sequence for two": (
        dict(input_ids=t(IDS), attention_mask=t([[1, 1, 1]])),
        ValueError,
        r"attention_mask.*\(1, 3\)",
    ),
    "a full mask that is too narrow": (
        dict(
            input_ids=t(IDS), attention_mask=t(np.ones((2, 3, 2), np.int64))
        ),
        ValueError,
        r"attention_mask.*\(2, 3, 2\)",
    ),
    "a mask with an axis of heads": (
        dict(
            input_ids=t(IDS),
            attention_mask=t(np.ones((2, 1, 3, 3), np.int64)),
        ),
        ValueError,
        r"attention_mask.*\(2, 1, 3, 3\)",
    ),
    "a mask of floats": (
        dict(
            input_ids=t(IDS), attention_mask=t(np.ones((2, 3), np.float32))
        ),
        TypeError,
        r"attention_mask.*float32",
    ),
    "a mask with a 2": (
        dict(input_ids=t(IDS), attention_mask=t([[1, 1, 2], [1, 1, 1]])),
        ValueError,
        r"attention_mask.*\b2\b",
    ),
    "a mask with a penalty": (
        dict(
            input_ids=t(IDS), attention_mask=t([[0, 0, -10000], [0, 0, 0]])
        ),
        ValueError,
        r"attention_mask.*-10000\b",
    ),
    "a segment over the limit": (
        dict(input_ids=t(IDS), token_type_ids=t([[0, 1, 2], [0, 0, 0]])),
        ValueError,
        r"token_type_ids.*\b2\b.*\b2\b",
    ),
    "a negative segment": (
        dict(input_ids=t(IDS), token_type_ids=t([[0, 1, -1], [0, 0, 0]])),
        ValueError,
        r"token_type_ids.*-1\b.*\b2\b",
    ),
    "segments of another shape": (
        dict(input_ids=t(IDS), token_type_ids=t([[0, 1], [0, 0]])),
        ValueError,
        r"token_type_ids.*\(2, 2\)",
    ),
    "segments as floats": (
        dict(
            input_ids=t(IDS), token_type_ids=t(np.zeros((2, 3), np.float32))
        ),
        TypeError,
        r"token_type_ids.*float32",
    ),
    "a position over the limit": (
        dict(input_ids=t(IDS), position_ids=t([[0, 1, 12], [0, 1, 2]])),
        ValueError,
        r"position_ids.*\b12\b.*\b12\b",
    ),
    "a negative position": (
        dict(input_ids=t(IDS), position_ids=t([[0, 1, -1], [0, 1, 2]])),
        ValueError,
        r"position_ids.*-1\b.*\b12\b",
    ),
    "positions of another shape": (
        dict(input_ids=t(IDS), position_ids=t([[0, 1, 2, 3]])),
        ValueError,
        r"position_ids.*\(1, 4\)",
    ),
    "positions as floats": (
        dict(input_ids=t(IDS), position_ids=t(np.zeros((2, 3), np.float32))),
        TypeError,
        r"position_ids.*float32",
    ),
}


@pytest.mark.parametrize("what", BAD_TRUNK_INPUTS)
def test_bad_inputs_of_the_trunk(model, what):
    arguments, error, message = BAD_TRUNK_INPUTS[what]
    with pytest.raises(error, match=message):
        model(**arguments)


BAD_LABELS = {
    "masked LM, over the vocabulary": (
        "BERTForMaskedLM",
        dict(labels=t([[1, 2, 50], [1, 1, 1]])),
        ValueError,
        r"labels.*\b50\b.*\b50\b",
    ),
    "masked LM, negative but not -100": (
        "BERTForMaskedLM",
        dict(labels=t([[1, 2, -1], [1, 1, 1]])),
        ValueError,
        r"labels.*-1\b.*\b50\b",
    ),
    "masked LM, another shape": (
        "BERTForMaskedLM",
        dict(labels=t([[1, 2], [1, 1]])),
        ValueError,
        r"labels.*\(2, 2\).*\(2, 3\)|labels.*\(2, 3\).*\(2, 2\)",
    ),
    "masked LM, flat": (
        "BERTForMaskedLM",
        dict(labels=t([1, 2, 3, 4, 5, 6])),
        ValueError,
        r"labels.*\(6,\)",
    ),
    "masked LM, floats": (
        "BERTForMaskedLM",
        dict(labels=t(np.ones((2, 3), np.float32))),
        TypeError,
        r"labels.*float32",
    ),
    "pre-training, over the vocabulary": (
        "BERTForPreTraining",
        dict(labels=t([[1, 2, 50], [1, 1, 1]])),
        ValueError,
        r"labels.*\b50\b.*\b50\b",
    ),
    "pre-training, a third class": (
        "BERTForPreTraining",
        dict(next_sentence_label=t([0, 2])),
        ValueError,
        r"next_sentence_label.*\b2\b.*\b2\b",
    ),
    "pre-training, classes of another shape": (
        "BERTForPreTraining",
        dict(next_sentence_label=t([0, 1, 1])),
        ValueError,
        r"next_sentence_label.*\(3,\)",
    ),
    "next sentence, a third class": (
        "BERTForNextSentencePrediction",
        dict(labels=t([0, 2])),
        ValueError,
        r"labels.*\b2\b.*\b2\b",
    ),
    "next sentence, another shape": (
        "BERTForNextSentencePrediction",
        dict(labels=t([0, 1, 0])),
        ValueError,
        r"labels.*\(3,\)",
    ),
    "classification, over the count": (
        "BERTForSequenceClassification",
        dict(labels=t([0, 3])),
        ValueError,
        r"labels.*\b3\b.*\b3\b",
    ),
    "classification, negative": (
        "BERTForSequenceClassification",
        dict(labels=t([0, -1])),
        ValueError,
        r"labels.*-1\b.*\b3\b",
    ),
    "classification, one for each token": (
        "BERTForSequenceClassification",
        dict(labels=t([[0, 1, 2], [0, 1, 2]])),
        ValueError,
        r"labels.*\(2, 3\)",
    ),
    "classification, floats": (
        "BERTForSequenceClassification",
        dict(labels=t([0.0, 1.0])),
        TypeError,
        r"labels.*float32",
    ),
}


@pytest.mark.parametrize("what", BAD_LABELS)
def test_bad_labels(tiny, what):
    name, arguments, error, message = BAD_LABELS[what]
    head = getattr(bert, name)(tiny(num_labels=3)).eval()
    with pytest.raises(error, match=message):
        head(t(IDS), **arguments)


def test_a_failed_forward_pass_leaves_the_model_usable(model):
    before = model(t(IDS)).last_hidden_state.numpy()
    with pytest.raises(ValueError):
        model(t([[1, 50]]))
    np.testing.assert_array_equal(
        model(t(IDS)).last_hidden_state.numpy(), before
    )


# ---- the config -------------------------------------------------------------


@pytest.mark.parametrize(
    "changes, message",
    [
        (
            dict(hidden_size=18, num_attention_heads=4),
            r"num_attention_heads.*\b4\b.*hidden_size.*\b18\b",
        ),
        (dict(hidden_act="swish"), r"hidden_act.*swish.*gelu_new"),
        (dict(hidden_act="GELU"), r"hidden_act.*GELU.*gelu"),
        (dict(vocab_size=0), r"vocab_size.*\b0\b"),
        (dict(num_hidden_layers=-1), r"num_hidden_layers.*-1\b"),
        (dict(num_attention_heads=0), r"num_attention_heads.*\b0\b"),
        (dict(intermediate_size=0), r"intermediate_size.*\b0\b"),
        (dict(max_position_embeddings=0), r"max_position_embeddings.*\b0\b"),
        (dict(type_vocab_size=0), r"type_vocab_size.*\b0\b"),
        (dict(num_labels=0), r"num_labels.*\b0\b"),
        (dict(hidden_dropout=1.5), r"hidden_dropout.*1\.5"),
        (dict(attention_dropout=-0.1), r"attention_dropout.*-0\.1"),
        (dict(classifier_dropout=2.0), r"classifier_dropout.*2\.0"),
        (dict(layer_norm_eps=0.0), r"layer_norm_eps.*0\.0"),
        (dict(initializer_range=-0.02), r"initializer_range.*-0\.02"),
        (dict(pad_token_id=50), r"pad_token_id.*\b50\b"),
        (dict(hidden_dropout=None), r"hidden_dropout.*None"),
        (dict(attention_dropout=None), r"attention_dropout.*None"),
        (dict(classifier_dropout="0.1"), r"classifier_dropout.*'0\.1'"),
        (dict(hidden_dropout=False), r"hidden_dropout.*False"),
        (dict(pad_token_id=1.5), r"pad_token_id.*1\.5"),
        (dict(layer_norm_eps="x"), r"layer_norm_eps.*'x'"),
        (dict(initializer_range=None), r"initializer_range.*None"),
        (dict(initializer_range=math.inf), r"initializer_range.*inf"),
        (dict(layer_norm_eps=math.nan), r"layer_norm_eps.*nan"),
        (dict(layer_norm_eps=math.inf), r"layer_norm_eps.*inf"),
        (dict(hidden_dropout=math.nan), r"hidden_dropout.*nan"),
        (dict(hidden_act=["gelu"]), r"hidden_act.*\['gelu'\]"),
        (dict(vocab_size=True), r"vocab_size.*True"),
        (dict(tie_word_embeddings="false"), r"tie_word_embeddings.*'false'"),
        (dict(tie_word_embeddings=1), r"tie_word_embeddings.*\b1\b"),
    ],
)
def test_a_bad_config(tiny, changes, message):
    with pytest.raises(ValueError, match=message):
        tiny(**changes)


def test_a_config_takes_whole_numbers_and_none_where_it_may(tiny):
    """0 is a dropout as good as 0.0; two fields may be left empty."""
    config = tiny(hidden_dropout=0, attention_dropout=0, initializer_range=1)
    assert config.hidden_dropout == config.attention_dropout == 0
    config = tiny(classifier_dropout=None, pad_token_id=None)
    assert config.classifier_dropout is config.pad_token_id is None


def test_numpy_numbers_in_a_config_leave_the_model_float32(tiny):
    """np.float64 is a float: the config takes it, nothing is promoted."""
    names = ("hidden_dropout", "attention_dropout", "classifier_dropout")
    rates = dict.fromkeys(names, np.float64(0.1))
    constants = dict(layer_norm_eps=np.float64(1e-12))
    config = tiny(**rates, **constants, initializer_range=np.float64(0.02))
    model = bert.BERTForSequenceClassification(config).train()
    out = model(t([[1, 2, 3]]), labels=t([1]))
    assert out.logits.dtype == out.loss.dtype == np.float32
    out.loss.backward()
    assert all(p.grad.dtype == np.float32 for p in model.parameters())


def test_labels_of_a_config_that_are_no_mapping():
    with pytest.raises(ValueError, match="id2label.*3"):
        bert.BERTConfig.from_dict({"id2label": 3})


@pytest.mark.parametrize("padding_idx", [5, -1, 1.0, True])
def test_a_padding_row_that_is_none(padding_idx):
    named = f"^padding_idx: .* from 0 to 4, got {padding_idx}"
    with pytest.raises(ValueError, match=named):
        lucid.nn.Embedding(5, 2, padding_idx)
    with pytest.raises(ValueError, match=named):
        embedding(t([1]), embeds(5, 2), padding_idx)


@pytest.mark.parametrize("value", [0, 9, 1.0, "1", None, True, [1], t(1)])
def test_an_integer_that_is_none_or_out_of_range(value):
    named = (
        f"^n: wanted an integer from 1 to 8, got {re.escape(repr(value))}"
    )
    with pytest.raises(ValueError, match=named):
        check_integer("n", value, least=1, most=8)


@pytest.mark.parametrize("kind", [int, np.int64, np.uint8])
def test_an_integer_is_one_whoever_made_it(kind):
    found = check_integer("n", kind(3), least=3, most=3)
    assert found == 3 and type(found) is int


@pytest.mark.parametrize(
    "value", [-0.1, math.nan, math.inf, "1", None, True]
)
def test_a_number_that_is_none_or_out_of_range(value):
    with pytest.raises(ValueError, match=f"^x: wanted a number .*{value!r}"):
        check_number("x", value)


def test_a_number_is_one_whoever_made_it():
    for kind in (int, float, np.float32, np.float64, np.int64):
        assert type(check_number("x", kind(2))) is float


def test_sizes_that_numpy_has_counted():
    sizes = dict(
        vocab_size=9, hidden_size=8, num_attention_heads=2, pad_token_id=1
    )
    counted = {name: np.int64(size) for name, size in sizes.items()}
    config = bert.BERTConfig(**counted)
    assert json.loads(json.dumps(config.to_dict()))["vocab_size"] == 9
    assert config == bert.BERTConfig(**sizes)


@pytest.mark.parametrize("std", [-0.1, math.nan, math.inf])
def test_a_spread_of_initial_weights_that_is_none(std):
    with pytest.raises(ValueError, match=f"^std: .*{std}"):
        lucid.nn.Linear(2, 3, init_std=std)


def test_an_unknown_config_field(tiny):
    with pytest.raises(TypeError, match="hidden_dropout_prob"):
        tiny(hidden_dropout_prob=0.1)


# ---- folders ----------------------------------------------------------------


@pytest.fixture
def folder(load_case, tmp_path):
    return load_case("classification_two_labels").write_folder(
        tmp_path / "model"
    )


def load(folder, **options):
    return bert.BERTForSequenceClassification.from_pretrained(
        folder, **options
    )


def edit_config(folder, **changes):
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_the_folder_as_it_is_loads(folder):
    assert load(folder).config.num_labels == 2
    assert load(str(folder)).config.num_labels == 2


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        load(tmp_path / "nowhere")


@pytest.mark.parametrize("file", ["config.json", "model.safetensors"])
def test_a_folder_without_a_file(folder, file):
    (folder / file).unlink()
    with pytest.raises(FileNotFoundError, match=file.replace(".", r"\.")):
        load(folder)


@pytest.mark.parametrize("file", ["config.json", "model.safetensors"])
def test_a_file_that_cannot_be_read_is_not_called_missing(folder, file):
    (folder / file).unlink()
    (folder / file).mkdir()
    with pytest.raises(OSError, match=file) as caught:
        bert.BERTModel.from_pretrained(folder)
    assert not isinstance(caught.value, FileNotFoundError)


def test_a_pickle_is_not_read(folder):
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(FileNotFoundError, match=r"model\.safetensors"):
        load(folder)


def test_a_config_that_is_no_json(folder):
    (folder / "config.json").write_text('{"vocab_size": 50,')
    with pytest.raises(ValueError, match=r"config\.json"):
        load(folder)


def test_a_config_that_is_no_mapping(folder):
    (folder / "config.json").write_text("[1, 2]")
    with pytest.raises(
        (TypeError, ValueError), match=r"config|mapping|object"
    ):
        load(folder)


@pytest.mark.parametrize(
    "changes, message",
    [
        (
            dict(hidden_size=25),
            r"num_attention_heads.*\b3\b.*hidden_size.*\b25\b",
        ),
        (dict(hidden_act="mish"), r"hidden_act.*mish"),
        (dict(model_type="gpt2"), r"model_type.*gpt2"),
        (dict(vocab_size="many"), r"vocab_size.*many"),
        (dict(position_embedding_type="relative_key"), r"relative_key"),
    ],
)
def test_a_bad_config_json(folder, changes, message):
    edit_config(folder, **changes)
    with pytest.raises((TypeError, ValueError), match=message):
        load(folder)


@pytest.mark.parametrize("keep", [0, 5, 200, 5000, -1])
def test_a_truncated_checkpoint(folder, keep):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(ValueError, match=r"model\.safetensors"):
        load(folder)


def test_a_checkpoint_that_is_something_else(folder):
    (folder / "model.safetensors").write_bytes(
        b"PK\x03\x04 this is a zip" * 30
    )
    with pytest.raises(ValueError, match=r"model\.safetensors"):
        load(folder)


LAST = "classifier.bias"


def rewrite(folder, change):
    path = folder / "model.safetensors"
    state = load_file(path)
    change(state)
    save_file(state, path)


def test_a_missing_weight(folder):
    rewrite(
        folder,
        lambda state: state.pop("bert.encoder.layer.1.output.dense.weight"),
    )
    with pytest.raises(ValueError, match=r"layer\.1\.output\.dense\.weight"):
        load(folder)


def test_a_weight_of_another_shape(folder):
    name = "bert.pooler.dense.weight"
    rewrite(
        folder,
        lambda state: state.update({name: state[name][:, :-1].copy()}),
    )
    with pytest.raises(ValueError, match=r"pooler\.dense\.weight") as raised:
        load(folder)
    assert "(24, 23)" in str(raised.value) and "(24, 24)" in str(
        raised.value
    )


def test_a_weight_of_integers(folder):
    name = "bert.pooler.dense.weight"
    rewrite(
        folder,
        lambda state: state.update({name: state[name].astype(np.int32)}),
    )
    with pytest.raises(
        (TypeError, ValueError), match=r"pooler\.dense\.weight.*int32"
    ):
        load(folder)


def test_a_config_of_another_size_than_the_weights(folder):
    edit_config(folder, vocab_size=51)
    with pytest.raises(
        ValueError, match=r"word_embeddings\.weight"
    ) as raised:
        load(folder)
    assert "(50, 24)" in str(raised.value) and "(51, 24)" in str(
        raised.value
    )


def test_half_precision_checkpoints_are_read_as_float32(folder, load_case):
    rewrite(
        folder,
        lambda state: state.update(
            {k: v.astype(np.float16) for k, v in state.items()}
        ),
    )
    model = load(folder)
    want = load_case("classification_two_labels").weights
    for name, p in model.named_parameters():
        assert p.dtype == np.float32
        np.testing.assert_array_equal(
            p.numpy(), want[name].astype(np.float16).astype(np.float32)
        )


# ---- no model is ever half loaded -------------------------------------------


def spoil_missing(state):
    del state[LAST]


def spoil_unexpected(state):
    state["zebra.weight"] = np.zeros(3, np.float32)


def spoil_shape(state):
    state[LAST] = np.zeros(5, np.float32)


def spoil_dtype(state):
    state[LAST] = np.zeros(2, np.int64)


def spoil_object(state):
    state[LAST] = None


@pytest.mark.parametrize(
    "spoil, named",
    [
        (spoil_missing, LAST),
        (spoil_unexpected, "zebra.weight"),
        (spoil_shape, LAST),
        (spoil_dtype, LAST),
        (spoil_object, LAST),
    ],
)
def test_a_refused_state_dict_changes_nothing(load_case, tiny, spoil, named):
    case = load_case("classification_two_labels")
    model = bert.BERTForSequenceClassification(
        bert.BERTConfig.from_dict(case.config)
    )
    before = {name: p.numpy().copy() for name, p in model.named_parameters()}
    state = dict(case.weights)
    spoil(state)
    with pytest.raises((KeyError, TypeError, ValueError), match=named):
        model.load_state_dict(state)
    for name, p in model.named_parameters():
        np.testing.assert_array_equal(p.numpy(), before[name], name)


def test_not_strict_skips_names_but_never_shapes(load_case):
    case = load_case("classification_two_labels")
    model = bert.BERTForSequenceClassification(
        bert.BERTConfig.from_dict(case.config)
    )
    before = {name: p.numpy().copy() for name, p in model.named_parameters()}
    state = dict(case.weights)
    spoil_missing(state)
    spoil_unexpected(state)
    name = "bert.pooler.dense.bias"
    with pytest.raises(ValueError, match=name):
        model.load_state_dict(
            {**state, name: np.zeros(3, np.float32)}, strict=False
        )
    for key, p in model.named_parameters():
        np.testing.assert_array_equal(p.numpy(), before[key], key)
    model.load_state_dict(state, strict=False)
    for key, p in model.named_parameters():
        want = before[key] if key == LAST else case.weights[key]
        np.testing.assert_array_equal(p.numpy(), want, key)


def test_loading_copies(load_case):
    """The arrays given stay the caller's: writing to them changes no model."""
    case = load_case("classification_two_labels")
    model = bert.BERTForSequenceClassification(
        bert.BERTConfig.from_dict(case.config)
    )
    state = {name: value.copy() for name, value in case.weights.items()}
    model.load_state_dict(state)
    for value in state.values():
        value += 1
    for name, p in model.named_parameters():
        np.testing.assert_array_equal(p.numpy(), case.weights[name], name)


def test_save_does_not_leave_a_broken_folder_behind(tiny, tmp_path):
    """Saving over a file is refused with its name, and nothing is written."""
    path = tmp_path / "taken"
    path.write_text("something")
    with pytest.raises((FileExistsError, NotADirectoryError), match="taken"):
        bert.BERTModel(tiny()).save_pretrained(path)
    assert path.read_text() == "something"
