"""The peers: each loads a checkpoint and does the same three things."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

Batch = dict[str, np.ndarray]


def padded_batches(
    sentences: list[list[int]], size: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield ids and mask of batches as they come, each filled up."""
    for start in range(0, len(sentences), size):
        rows = sentences[start : start + size]
        ids = np.zeros((len(rows), max(map(len, rows))), np.int64)
        mask = np.zeros_like(ids)
        for i, row in enumerate(rows):
            ids[i, : len(row)] = row
            mask[i, : len(row)] = 1
        yield ids, mask


def pool(states: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Return the mean of each sequence's real tokens."""
    weights = mask[..., None].astype(np.float32)
    return (states * weights).sum(1) / weights.sum(1)


class Peer:
    """What a worker asks of a library.

    Parameters
    ----------
    folder : Path
        Where the checkpoint is.
    threads : int
    training : bool
        Whether to load the model with both pre-training heads.
    """

    def __init__(self, folder: Path, threads: int, training: bool) -> None:
        raise NotImplementedError

    def forward(self, ids: np.ndarray, mask: np.ndarray) -> np.ndarray:
        """Return the last hidden states, (B, T, H)."""
        raise NotImplementedError

    def prepare_forward(self, ids: np.ndarray) -> Callable[[], np.ndarray]:
        """Return a function that runs a batch without padding."""
        mask = np.ones_like(ids)
        return lambda: self.forward(ids, mask)

    def prepare_sentences(
        self, sentences: list[list[int]], size: int
    ) -> Callable[[], np.ndarray]:
        """Return a function that embeds sentences, the usual way."""
        batches = list(padded_batches(sentences, size))
        return lambda: np.concatenate(
            [pool(self.forward(*batch), batch[1]) for batch in batches]
        )

    def prepare_step(
        self, batch: Batch
    ) -> tuple[float, Callable[[], float]]:
        """Return the loss without dropout, and a function for a step."""
        raise NotImplementedError

    def sgemm(self, a: np.ndarray, b: np.ndarray) -> Callable[[], Any]:
        """Return a function that multiplies ``a`` by the transpose of b."""
        return lambda: a @ b.T


class Lucid(Peer):
    """This package."""

    def __init__(self, folder: Path, threads: int, training: bool) -> None:
        import lucid
        from lucid.models.text.bert import BERTForPreTraining, BERTModel

        kind = BERTForPreTraining if training else BERTModel
        self.lucid = lucid
        self.model = kind.from_pretrained(folder)

    def forward(self, ids: np.ndarray, mask: np.ndarray) -> np.ndarray:
        with self.lucid.no_grad():
            ids, mask = self.lucid.tensor(ids), self.lucid.tensor(mask)
            return self.model(ids, mask).last_hidden_state.numpy()

    def prepare_step(
        self, batch: Batch
    ) -> tuple[float, Callable[[], float]]:
        from lucid.optim import AdamW

        given = {k: self.lucid.tensor(v) for k, v in batch.items()}
        with self.lucid.no_grad():
            first = self.model(**given).loss.item()
        self.model.train()
        optimizer = AdamW(self.model.named_parameters(), lr=1e-5)

        def step() -> float:
            optimizer.zero_grad()
            loss = self.model(**given).loss
            loss.backward()
            optimizer.step()
            return loss.item()

        return first, step


class Torch(Peer):
    """Transformers on PyTorch, eager: as it is loaded, not compiled."""

    def __init__(self, folder: Path, threads: int, training: bool) -> None:
        import torch
        from transformers import BertForPreTraining, BertModel
        from transformers.utils import logging

        logging.set_verbosity_error()
        logging.disable_progress_bar()
        torch.set_num_threads(threads)
        kind = BertForPreTraining if training else BertModel
        self.torch = torch
        self.model = kind.from_pretrained(folder).eval()

    def forward(self, ids: np.ndarray, mask: np.ndarray) -> np.ndarray:
        with self.torch.no_grad():
            given = self.torch.from_numpy(ids), self.torch.from_numpy(mask)
            return self.model(*given).last_hidden_state.numpy()

    def prepare_step(
        self, batch: Batch
    ) -> tuple[float, Callable[[], float]]:
        given = {k: self.torch.from_numpy(v) for k, v in batch.items()}
        with self.torch.no_grad():
            first = self.model(**given).loss.item()
        self.model.train()
        optimizer = self.torch.optim.AdamW(self.model.parameters(), lr=1e-5)

        def step() -> float:
            optimizer.zero_grad()
            loss = self.model(**given).loss
            loss.backward()
            optimizer.step()
            return loss.item()

        return first, step

    def sgemm(self, a: np.ndarray, b: np.ndarray) -> Callable[[], Any]:
        x, weight = self.torch.from_numpy(a), self.torch.from_numpy(b)
        return lambda: self.torch.nn.functional.linear(x, weight)


class Onnx(Peer):
    """ONNX Runtime with all its graph optimisations."""

    def __init__(self, folder: Path, threads: int, training: bool) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        every = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
        options.graph_optimization_level = every
        self.session = onnxruntime.InferenceSession(
            folder / "model.onnx",
            options,
            providers=["CPUExecutionProvider"],
        )

    def forward(self, ids: np.ndarray, mask: np.ndarray) -> np.ndarray:
        given = {"input_ids": ids, "attention_mask": mask}
        return self.session.run(None, given)[0]


PEERS: dict[str, type[Peer]] = {
    "lucid": Lucid,
    "torch": Torch,
    "onnx": Onnx,
}
