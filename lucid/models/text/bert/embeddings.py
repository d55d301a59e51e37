"""Word, position and segment embeddings, summed and normalised."""

from __future__ import annotations

import numpy as np

from lucid.autograd import Tensor
from lucid.backend import active_module
from lucid.models.text.bert.config import BERTConfig
from lucid.nn.dropout import Dropout
from lucid.nn.embedding import Embedding
from lucid.nn.layernorm import LayerNorm
from lucid.nn.module import Module


class BERTEmbeddings(Module):
    """Sum the word, position and token-type embeddings.

    Parameters
    ----------
    config : BERTConfig
    """

    def __init__(self, config: BERTConfig) -> None:
        size, std = config.hidden_size, config.initializer_range
        self.word_embeddings = Embedding(
            config.vocab_size, size, config.pad_token_id, std, "input_ids"
        )
        self.position_embeddings = Embedding(
            config.max_position_embeddings, size, None, std, "position_ids"
        )
        self.token_type_embeddings = Embedding(
            config.type_vocab_size, size, None, std, "token_type_ids"
        )
        self.LayerNorm = LayerNorm(size, config.layer_norm_eps)
        self.dropout = Dropout(config.hidden_dropout)

    def forward(
        self,
        input_ids: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
    ) -> Tensor:
        """Embed a batch.

        Exactly one of ``input_ids`` and ``inputs_embeds`` is required.

        Parameters
        ----------
        input_ids : Tensor of integers, shape (B, T)
        token_type_ids : Tensor of integers, shape (B, T), optional
            Segment of each token; all 0 by default.
        position_ids : Tensor of integers, shape (B, T) or (1, T), optional
            By default 0 .. T - 1.
        inputs_embeds : Tensor, shape (B, T, H), optional
            Instead of looking words up.

        Returns
        -------
        Tensor, shape (B, T, H)

        Raises
        ------
        ValueError
            If both or neither of ids and embeddings are given, a shape is
            wrong, an id is out of range, or the sequence is too long.
        """
        words = self._words(input_ids, inputs_embeds)
        batch, tokens, _ = words.shape
        given = "inputs_embeds" if input_ids is None else "input_ids"
        limit = self.position_embeddings.weight.shape[0]
        xp = active_module()
        if batch == 0 or tokens == 0:
            raise ValueError(
                f"{given}: one sequence of one token is the least, got "
                f"shape {words.shape[:2]}"
            )
        if position_ids is None:
            if tokens > limit:
                raise ValueError(
                    f"{given}: {tokens} tokens are too many; the model has "
                    f"{limit} positions"
                )
            position_ids = Tensor(xp.arange(tokens)[None, :])
        if token_type_ids is None:
            token_type_ids = Tensor(xp.zeros((1, tokens), dtype=np.int64))
        for name, ids in (
            ("position_ids", position_ids),
            ("token_type_ids", token_type_ids),
        ):
            if ids.shape not in ((batch, tokens), (1, tokens)):
                raise ValueError(
                    f"{name}: expected shape {(batch, tokens)}, got "
                    f"{ids.shape}"
                )
        x = (
            words
            + self.token_type_embeddings(token_type_ids)
            + self.position_embeddings(position_ids)
        )
        return self.dropout(self.LayerNorm(x))

    def _words(
        self, input_ids: Tensor | None, inputs_embeds: Tensor | None
    ) -> Tensor:
        if input_ids is not None and inputs_embeds is not None:
            raise ValueError(
                "input_ids, inputs_embeds: exactly one is required, got both"
            )
        if input_ids is not None:
            if input_ids.ndim != 2:
                raise ValueError(
                    f"input_ids: expected shape (B, T), got {input_ids.shape}"
                )
            return self.word_embeddings(input_ids)
        if inputs_embeds is None:
            raise ValueError(
                "input_ids, inputs_embeds: exactly one is required, got "
                "neither"
            )
        size = self.word_embeddings.weight.shape[1]
        if inputs_embeds.dtype.kind != "f":
            raise TypeError(
                f"inputs_embeds: wanted floating point, got "
                f"{inputs_embeds.dtype}"
            )
        if inputs_embeds.ndim != 3 or inputs_embeds.shape[2] != size:
            raise ValueError(
                f"inputs_embeds: expected shape (B, T, {size}), got "
                f"{inputs_embeds.shape}"
            )
        return inputs_embeds
