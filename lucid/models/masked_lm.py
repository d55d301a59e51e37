# Tangled from chapters/masked-lm.ipynb; edit that, not this file.
"""What models with a masked-LM head share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from lucid.autograd import Tensor, check_same_backend
from lucid.backend import Array, array_module, asarray, use_backend
from lucid.models.base import PretrainedModel
from lucid.models.outputs import Later
from lucid.nn.init import truncated_normal
from lucid.nn.losses import cross_entropy
from lucid.nn.module import Parameter
from lucid.nn.rows import row_numbers, take_rows


class MaskedLMMixin(PretrainedModel):
    """Loss, tie and vocabulary size of a model with a masked-LM decoder.

    It expects the word embeddings at ``embeddings.word_embeddings`` of the
    trunk, and the head at ``cls.predictions``.

    Notes
    -----
    Built in :doc:`/chapters/masked-lm`.
    """

    cls: Any

    def get_input_embeddings(self) -> Parameter:
        """Return the word embedding table, shape (V, H)."""
        trunk = getattr(self, self.base_model_prefix)
        return trunk.embeddings.word_embeddings.weight

    def get_output_embeddings(self) -> Parameter:
        """Return the decoder's weight, shape (V, H)."""
        return self.cls.predictions.decoder.weight

    def tie_weights(self) -> None:
        """Make the decoder's weight the word embedding table itself.

        Does nothing where ``config.tie_word_embeddings`` is False.
        """
        if self.config.tie_word_embeddings:
            decoder = self.cls.predictions.decoder
            decoder.weight = self.get_input_embeddings()

    def _fit(
        self, weights: Mapping[str, np.ndarray], ignore_mismatched: bool
    ) -> dict[str, np.ndarray]:
        """Take an untied decoder's own bias, as transformers does."""
        state = super()._fit(weights, ignore_mismatched)
        tied = self.config.tie_word_embeddings
        if not tied and "cls.predictions.decoder.bias" in state:
            state.pop("cls.predictions.bias", None)
        return state

    def masked_lm_loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Mean cross-entropy over the labelled positions.

        Parameters
        ----------
        logits : Tensor, shape (..., V)
        labels : Tensor of integers, shape (...)
            The original id where a token was masked, -100 elsewhere.
        """
        return cross_entropy(logits, labels)

    def predict_words(
        self, states: Tensor, labels: Tensor | None = None
    ) -> tuple[Tensor | None, Any]:
        """Run the head: everywhere, or at first only where labels are.

        Parameters
        ----------
        states : Tensor, shape (B, T, H)
            The trunk's last states.
        labels : Tensor of integers, shape (B, T), optional
            The original id where a token was masked, -100 elsewhere.

        Returns
        -------
        loss : Tensor, one number, or None without labels
        logits : Tensor, shape (B, T, V), or Later
            With labels, a `Later`: an output computes it when it is first
            asked for.

        Raises
        ------
        TypeError, ValueError
            If labels are not integers, of another shape, out of range, or
            on another backend.

        Notes
        -----
        Derived in :doc:`/chapters/masked-lm`, equations
        (masked-lm-take-forward) and (masked-lm-take-grad).
        """
        head = self.cls.predictions
        if labels is None:
            return None, head(states)
        check_same_backend(logits=states, labels=labels)
        if labels.shape != states.shape[:-1]:
            raise ValueError(
                f"labels: expected shape {states.shape[:-1]}, got "
                f"{labels.shape}"
            )
        values = labels.host_values().reshape(-1)
        known = values[values != -100]
        if not known.size:
            known = values[:1]  # a row that does not count, for a loss of 0
        rows = row_numbers(labels.data != -100, len(known))
        asked = take_rows(labels.reshape(-1), rows)
        asked._note(known)
        some = take_rows(states.reshape(-1, states.shape[-1]), rows)
        loss = self.masked_lm_loss(head(some), asked)
        before = head.bias.data.copy()

        def all_logits() -> Tensor:
            now = head.bias.data
            if now.shape != before.shape or bool((now != before).any()):
                raise RuntimeError(
                    "logits: the weights have changed since the forward "
                    "pass; ask for the logits before the step, or run the "
                    "pass again"
                )
            return head(states)

        return loss, Later(all_logits)

    def resize_token_embeddings(self, vocab_size: int) -> None:
        """Change V: old rows are kept, new rows drawn, the tie holds.

        Parameters
        ----------
        vocab_size : int
            The new V. New biases begin at 0.

        Raises
        ------
        ValueError
            If ``vocab_size`` is less than 1 or leaves the padding row out.
        """
        config = replace(self.config, vocab_size=vocab_size)
        tables = [self.get_input_embeddings()]
        if self.get_output_embeddings() is not tables[0]:
            tables.append(self.get_output_embeddings())
        for table in tables:
            new = (max(vocab_size - table.shape[0], 0), table.shape[1])
            rows = truncated_normal(new, config.initializer_range)
            _resize(table, vocab_size, rows)
        bias = self.cls.predictions.bias
        more = max(vocab_size - bias.shape[0], 0)
        _resize(bias, vocab_size, array_module(bias.data).zeros(more))
        self.config = config
        getattr(self, self.base_model_prefix).config = config


def _resize(parameter: Parameter, length: int, more: Array) -> None:
    """New data for ``parameter``: its first ``length`` rows, then ``more``.

    The `Parameter` object stays, so all its paths see the change.
    """
    xp = array_module(parameter.data)
    with use_backend(parameter.backend):
        more = asarray(more, dtype=parameter.dtype)
    parameter.data = xp.concatenate([parameter.data[:length], more])
    parameter.grad = None
