# Tangled from chapters/embeddings.ipynb; edit that, not this file.
"""Word, position and segment embeddings, summed and normalised."""

from __future__ import annotations

from lucid.autograd import Tensor, check_same_backend
from lucid.models.text.bert.config import BERTConfig
from lucid.nn.dropout import Dropout
from lucid.nn.embedding import Embedding
from lucid.nn.layernorm import LayerNorm
from lucid.nn.module import Module


class BERTEmbeddings(Module):
    """Sum the word, position and segment embeddings, then normalise.

    Parameters
    ----------
    config : BERTConfig

    Attributes
    ----------
    word_embeddings : Embedding, table of shape (V, H)
    position_embeddings : Embedding
        Table of shape (``max_position_embeddings``, H).
    token_type_embeddings : Embedding
        Table of shape (``type_vocab_size``, H).
    LayerNorm : LayerNorm
    dropout : Dropout

    Notes
    -----
    Derived in :doc:`/chapters/embeddings`, equations
    (embeddings-sum-forward) and (embeddings-sum-grad). Devlin et al.
    (2019), figure 2, shows the sum; LayerNorm and dropout are in
    Google's code.
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
        token_type_ids : Tensor of integers, (B, T) or (1, T), optional
            Segment of each token; all 0 by default.
        position_ids : Tensor of integers, (B, T) or (1, T), optional
            By default 0 .. T - 1.
        inputs_embeds : Tensor, shape (B, T, H), optional
            Instead of looking words up.

        Returns
        -------
        Tensor, shape (B, T, H)

        Raises
        ------
        TypeError
            If ids are not integers, or embeddings not floating point.
        ValueError
            If both or neither of ids and embeddings are given, a shape is
            wrong, an id is out of range, or the sequence is too long.
        """
        given = "inputs_embeds" if input_ids is None else "input_ids"
        words = self._words(input_ids, inputs_embeds)
        shape = words.shape[:2]
        if 0 in shape:
            raise ValueError(
                f"{given}: one sequence of one token is the least, got "
                f"shape {shape}"
            )
        segments = self._segments(token_type_ids, shape)
        positions = self._positions(position_ids, shape, given)
        return self.dropout(self.LayerNorm(words + segments + positions))

    def _segments(
        self, token_type_ids: Tensor | None, shape: tuple[int, ...]
    ) -> Tensor:
        """Return (B, T, H) or (1, T, H); by default row 0, (1, H)."""
        if token_type_ids is None:
            return self.token_type_embeddings.weight[:1]
        _check_shape(token_type_ids, shape, "token_type_ids")
        return self.token_type_embeddings(token_type_ids)

    def _positions(
        self, position_ids: Tensor | None, shape: tuple[int, ...], given: str
    ) -> Tensor:
        """Return (B, T, H) or (1, T, H); by default rows 0.., (T, H)."""
        if position_ids is not None:
            _check_shape(position_ids, shape, "position_ids")
            return self.position_embeddings(position_ids)
        table, tokens = self.position_embeddings.weight, shape[1]
        if tokens > table.shape[0]:
            raise ValueError(
                f"{given}: {tokens} tokens are too many; the model has "
                f"{table.shape[0]} positions"
            )
        return table[:tokens]

    def _words(
        self, input_ids: Tensor | None, inputs_embeds: Tensor | None
    ) -> Tensor:
        """Look words up, or take the caller's rows: (B, T, H)."""
        if input_ids is not None and inputs_embeds is not None:
            raise ValueError(
                "input_ids, inputs_embeds: exactly one is required, got both"
            )
        if input_ids is not None:
            check_same_backend(input_ids=input_ids)
            if input_ids.ndim != 2:
                raise ValueError(
                    f"input_ids: expected shape (B, T), got "
                    f"{input_ids.shape}"
                )
            return self.word_embeddings(input_ids)
        if inputs_embeds is None:
            raise ValueError(
                "input_ids, inputs_embeds: exactly one is required, got "
                "neither"
            )
        table = self.word_embeddings.weight
        check_same_backend(weight=table, inputs_embeds=inputs_embeds)
        size = table.shape[1]
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


def _check_shape(ids: Tensor, shape: tuple[int, ...], name: str) -> None:
    """Raise unless ``ids`` have shape (B, T) or (1, T)."""
    allowed = sorted({shape, (1, shape[1])})
    if ids.shape not in allowed:
        wanted = " or ".join(map(str, allowed))
        raise ValueError(f"{name}: expected shape {wanted}, got {ids.shape}")
