"""Write the parity fixtures in ``tests/data/`` from transformers and torch.

    python tests/make_fixtures.py            writes every fixture
    python tests/make_fixtures.py CASE ...   writes the named ones

The tests need neither library: they read what this script wrote. It was last
run with the versions that ``tests/data/VERSIONS.json`` names.

A fixture is two files. ``<case>.json`` is the ``config.json`` which
transformers would write for the model, with its class under
``architectures``. ``<case>.safetensors`` holds

``weight/<name>``
    every parameter once, under Hugging Face's name (a tied decoder has none
    of its own)
``input/<argument>``
    the arguments of the forward pass
``output/<name>``
    what it returns: logits, ``last_hidden_state``, ``pooler_output``,
    ``hidden_states.<i>``, ``attentions.<i>``
``loss/<name>``
    ``loss``, and ``mlm_loss`` and ``nsp_loss`` where the model adds two
``cotangent/<name>``
    for the trunk alone, which has no loss: its loss is the sum over the two
    outputs of the output times these numbers
``grad/<name>``
    the gradient of ``loss`` with respect to that parameter, or to
    ``inputs_embeds``

**Precision.** The weights are drawn in float32. torch then computes in
float64 with just these weights, so that the numbers here are the truth to the
last digit that float32 can hold and a test never charges torch's rounding to
lucid. Outputs and gradients are stored in float32, losses in float64. For
each case the script also runs torch in float32 and prints how far it lands
from its own float64 result; the tolerances of the tests have to be wider than
that to mean anything, and are.

**Weights.** A fresh BERT has LayerNorm weights of 1 and biases of 0, and
tests that use one miss any code which forgets them. Here the LayerNorm
weights have a magnitude of 0.4 to 2.2 and either sign, and no bias is zero.
Dropout is off (eval mode), attention is transformers' "eager" one.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import torch
import transformers
from safetensors.numpy import save_file

DATA = Path(__file__).parent / "data"

TINY = dict(
    vocab_size=50,
    hidden_size=24,
    num_hidden_layers=2,
    num_attention_heads=3,
    intermediate_size=40,
    max_position_embeddings=16,
)

# Each case: the class, what its config changes in TINY, and which inputs it is given.
CASES = {
    "pretraining_tied_gelu": (
        "BertForPreTraining",
        {},
        ["padding", "segments"],
    ),
    "pretraining_tied_gelu_v137": (
        "BertForPreTraining",
        dict(vocab_size=137, hidden_size=16, num_attention_heads=2),
        ["padding", "segments"],
    ),
    "pretraining_untied_gelu_new": (
        "BertForPreTraining",
        dict(
            hidden_act="gelu_new",
            tie_word_embeddings=False,
            layer_norm_eps=1e-5,
        ),
        ["padding", "segments"],
    ),
    "masked_lm_tied_gelu_pytorch_tanh": (
        "BertForMaskedLM",
        dict(
            vocab_size=137,
            hidden_size=16,
            num_attention_heads=4,
            hidden_act="gelu_pytorch_tanh",
        ),
        ["padding"],
    ),
    "masked_lm_untied_relu": (
        "BertForMaskedLM",
        dict(
            hidden_act="relu", tie_word_embeddings=False, num_hidden_layers=1
        ),
        ["segments"],
    ),
    "next_sentence": (
        "BertForNextSentencePrediction",
        dict(num_attention_heads=1),
        ["padding", "segments"],
    ),
    "classification_one_label": (
        "BertForSequenceClassification",
        dict(num_labels=1),
        ["padding"],
    ),
    "classification_two_labels": (
        "BertForSequenceClassification",
        dict(num_labels=2, hidden_act="gelu_new"),
        ["padding", "segments"],
    ),
    "classification_seven_labels": (
        "BertForSequenceClassification",
        dict(
            num_labels=7,
            num_hidden_layers=3,
            hidden_size=16,
            num_attention_heads=2,
            type_vocab_size=3,
        ),
        ["segments"],
    ),
    "model_plain": ("BertModel", dict(pad_token_id=3), []),
    "model_position_ids": (
        "BertModel",
        dict(hidden_size=20, num_attention_heads=5),
        ["padding", "positions"],
    ),
    "model_inputs_embeds": (
        "BertModel",
        dict(intermediate_size=28),
        ["padding", "segments", "embeds"],
    ),
    "model_full_mask": (
        "BertModel",
        dict(hidden_size=20, num_attention_heads=2),
        ["full_mask", "segments"],
    ),
    "model_longest": (
        "BertModel",
        dict(max_position_embeddings=9, hidden_act="relu"),
        ["longest", "padding"],
    ),
    "model_one_token": (
        "BertModel",
        dict(num_hidden_layers=1),
        ["one_token"],
    ),
}


def draw_weights(model: torch.nn.Module, rng: np.random.Generator) -> None:
    """Give every parameter of `model` random float32 values."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            shape = tuple(parameter.shape)
            if name.endswith("LayerNorm.weight"):
                value = rng.uniform(0.4, 2.2, shape) * rng.choice(
                    [-1.0, 1.0], shape
                )
            elif name.endswith("LayerNorm.bias"):
                value = rng.normal(0.0, 0.7, shape)
            elif name.endswith("bias"):
                value = rng.normal(0.0, 0.4, shape)
            elif "embeddings" in name or "decoder" in name:
                value = rng.normal(0.0, 0.25, shape)
            else:
                value = rng.normal(0.0, shape[1] ** -0.5, shape)
            parameter.copy_(torch.from_numpy(value.astype(np.float32)))


def draw_inputs(
    class_name: str, config, flags: list[str], rng: np.random.Generator
) -> dict[str, np.ndarray]:
    """Draw the arguments of the forward pass, in lucid's form."""
    batch, tokens = 3, 8
    if "longest" in flags:
        tokens = config.max_position_embeddings
    if "one_token" in flags:
        batch, tokens = 1, 1
    lengths = (
        np.array([tokens, tokens - 3, 2])[:batch]
        if "padding" in flags
        else np.full(batch, tokens)
    )
    mask = (np.arange(tokens) < lengths[:, None]).astype(np.int64)
    ids = rng.integers(0, config.vocab_size, (batch, tokens))
    ids = np.where(mask == 1, ids, config.pad_token_id)
    inputs = {}
    if "embeds" in flags:
        inputs["inputs_embeds"] = rng.normal(
            0.0, 0.8, (batch, tokens, config.hidden_size)
        ).astype(np.float32)
    else:
        inputs["input_ids"] = ids
    if "padding" in flags:
        inputs["attention_mask"] = mask
    if "full_mask" in flags:
        full = rng.integers(0, 2, (batch, tokens, tokens))
        full[:, np.arange(tokens), np.arange(tokens)] = (
            1  # a query always sees itself: no row is empty
        )
        inputs["attention_mask"] = full
    if "segments" in flags:
        split = rng.integers(1, tokens, (batch, 1))
        inputs["token_type_ids"] = np.where(
            np.arange(tokens) < split, 0, config.type_vocab_size - 1
        )
    if (
        "positions" in flags
    ):  # two sequences packed into a row; shifted by 5; in reverse order
        inputs["position_ids"] = np.stack(
            [
                np.r_[np.arange(5), np.arange(tokens - 5)],
                np.arange(tokens) + 5,
                np.arange(tokens)[::-1],
            ]
        )
    if class_name in ("BertForPreTraining", "BertForMaskedLM"):
        chosen = (rng.random((batch, tokens)) < 0.5) & (mask == 1)
        chosen[0, 1] = True
        inputs["labels"] = np.where(
            chosen, rng.integers(0, config.vocab_size, (batch, tokens)), -100
        )
    if class_name == "BertForPreTraining":
        inputs["next_sentence_label"] = np.array([0, 1, 1])
    if class_name == "BertForNextSentencePrediction":
        inputs["labels"] = np.array([1, 0, 1])
    if class_name == "BertForSequenceClassification":
        if config.num_labels == 1:
            inputs["labels"] = rng.normal(0.0, 2.0, batch).astype(np.float32)
        else:
            inputs["labels"] = rng.integers(0, config.num_labels, batch)
    return inputs


def run(
    model: torch.nn.Module,
    inputs: dict[str, np.ndarray],
    cotangents: dict[str, np.ndarray],
    dtype: torch.dtype,
):
    """Forward and backward in `dtype`: outputs, losses and gradients."""
    model = model.to(dtype).eval()
    model.zero_grad(set_to_none=True)
    arguments = {}
    for name, value in inputs.items():
        tensor = torch.from_numpy(np.ascontiguousarray(value))
        arguments[name] = (
            tensor.to(dtype) if tensor.is_floating_point() else tensor
        )
    mask = arguments.get("attention_mask")
    if mask is not None and mask.ndim == 3:
        # transformers takes such a mask as the term added to the scores
        arguments["attention_mask"] = (
            (1 - mask).to(dtype) * torch.finfo(dtype).min
        )[:, None]
    if "inputs_embeds" in arguments:
        arguments["inputs_embeds"].requires_grad_(True)
    out = model(
        **arguments, output_hidden_states=True, output_attentions=True
    )

    found: dict[str, torch.Tensor] = {}
    for name in (
        "last_hidden_state",
        "pooler_output",
        "logits",
        "prediction_logits",
        "seq_relationship_logits",
    ):
        if getattr(out, name, None) is not None:
            found[f"output/{name}"] = out[name]
    for name in ("hidden_states", "attentions"):
        for index, value in enumerate(out[name]):
            found[f"output/{name}.{index}"] = value

    if cotangents:
        loss = sum(
            (out[name] * torch.from_numpy(value).to(dtype)).sum()
            for name, value in cotangents.items()
        )
    else:
        loss = out.loss
    found["loss/loss"] = loss
    if "next_sentence_label" in arguments:
        cross_entropy = torch.nn.functional.cross_entropy
        logits = out.prediction_logits
        found["loss/mlm_loss"] = cross_entropy(
            logits.flatten(0, 1), arguments["labels"].flatten()
        )
        found["loss/nsp_loss"] = cross_entropy(
            out.seq_relationship_logits, arguments["next_sentence_label"]
        )

    loss.backward()
    for name, parameter in model.named_parameters():
        if parameter.grad is not None:
            found[f"grad/{name}"] = parameter.grad
    if "inputs_embeds" in arguments:
        found["grad/inputs_embeds"] = arguments["inputs_embeds"].grad
    return {name: value.detach().numpy() for name, value in found.items()}


def distance(got: np.ndarray, want: np.ndarray) -> float:
    """The largest difference, as a fraction of the largest wanted value."""
    return float(np.abs(got - want).max() / max(np.abs(want).max(), 1e-300))


def build(case: str):
    """Compute one fixture: config, arrays, and torch's float32 distances."""
    class_name, changes, flags = CASES[case]
    rng = np.random.default_rng([20181011, *case.encode()])
    config = transformers.BertConfig(**{**TINY, **changes})
    config._attn_implementation = "eager"
    config.architectures = [class_name]
    settings = json.loads(config.to_json_string(use_diff=False))
    model = getattr(transformers, class_name)(config)
    if (
        not config.tie_word_embeddings
        and hasattr(model, "cls")
        and hasattr(model.cls, "predictions")
    ):
        # One decoder bias, as tied models have it: transformers 5 leaves two
        # when untied, and uses the decoder's own.
        model.cls.predictions.bias = model.cls.predictions.decoder.bias
    draw_weights(model, rng)
    inputs = draw_inputs(class_name, config, flags, rng)
    weights = {
        f"weight/{name}": value.detach().numpy().copy()
        for name, value in model.named_parameters()
    }
    cotangents = {}
    if class_name == "BertModel":
        batch, tokens = inputs.get(
            "input_ids", inputs.get("inputs_embeds")
        ).shape[:2]
        shape = (batch, tokens, config.hidden_size)
        cotangents["last_hidden_state"] = rng.normal(0.0, 1.0, shape).astype(
            np.float32
        )
        cotangents["pooler_output"] = rng.normal(
            0.0, 1.0, shape[::2]
        ).astype(np.float32)

    single = run(model, inputs, cotangents, torch.float32)
    exact = run(model, inputs, cotangents, torch.float64)
    worst = dict.fromkeys(("output", "loss", "grad"), 0.0)
    for name in exact:
        kind = name.split("/")[0]
        if kind == "loss":
            worst[kind] = max(
                worst[kind], abs(float(single[name]) - float(exact[name]))
            )
        elif not name.endswith("self.key.bias"):  # zero: see test_parity.py
            worst[kind] = max(
                worst[kind], distance(single[name], exact[name])
            )

    arrays = dict(weights)
    arrays.update({f"input/{name}": value for name, value in inputs.items()})
    arrays.update(
        {f"cotangent/{name}": value for name, value in cotangents.items()}
    )
    for name, value in exact.items():
        arrays[name] = (
            value if name.startswith("loss/") else value.astype(np.float32)
        )
    arrays = {
        name: np.array(value, order="C") for name, value in arrays.items()
    }
    return settings, arrays, worst


def main(cases: list[str]) -> None:
    DATA.mkdir(exist_ok=True)
    for case in cases or CASES:
        settings, arrays, worst = build(case)
        save_file(arrays, DATA / f"{case}.safetensors")
        (DATA / f"{case}.safetensors").chmod(0o644)
        (DATA / f"{case}.json").write_text(
            json.dumps(settings, indent=2, sort_keys=True) + "\n"
        )
        size = (DATA / f"{case}.safetensors").stat().st_size
        distances = ", ".join(
            f"{kind} {value:.1e}" for kind, value in worst.items()
        )
        print(
            f"{case:34} {size / 1024:6.1f} KiB; torch's float32 is off by: {distances}"
        )
    versions = {
        "numpy": np.__version__,
        "torch": torch.__version__,
        "transformers": transformers.__version__,
    }
    (DATA / "VERSIONS.json").write_text(
        json.dumps(versions, indent=2) + "\n"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
