# Tangled from chapters/masked-lm.ipynb; edit that, not this file.
"""The masked-LM head, whose decoder is the word embedding table."""

from __future__ import annotations

from lucid.autograd import Tensor
from lucid.models.masked_lm import MaskedLMMixin
from lucid.models.outputs import MaskedLMOutput
from lucid.models.text.bert.config import BERTConfig
from lucid.models.text.bert.model import BERTModel, BERTPretrainedModel
from lucid.nn.activations import ACTIVATIONS
from lucid.nn.init import truncated_normal, zeros
from lucid.nn.layernorm import LayerNorm
from lucid.nn.linear import Linear, linear
from lucid.nn.module import Module, Parameter


class BERTPredictionHeadTransform(Module):
    """Dense layer, activation and LayerNorm before the decoder.

    Parameters
    ----------
    config : BERTConfig

    Notes
    -----
    Derived in :doc:`/chapters/masked-lm`, equation
    (masked-lm-transform-forward).
    """

    def __init__(self, config: BERTConfig) -> None:
        size = config.hidden_size
        self.dense = Linear(size, size, init_std=config.initializer_range)
        self.activation = ACTIVATIONS[config.hidden_act]
        self.LayerNorm = LayerNorm(size, config.layer_norm_eps)

    def forward(self, states: Tensor) -> Tensor:
        """Map (B, T, H) to (B, T, H)."""
        return self.LayerNorm(self.activation(self.dense(states)))


class BERTDecoder(Module):
    """Score every word of the vocabulary with parameters it is given.

    Parameters
    ----------
    weight : Parameter, shape (V, H)
        The word embedding table itself where the two are tied.
    bias : Parameter, shape (V,)

    Notes
    -----
    Derived in :doc:`/chapters/masked-lm`, equations
    (masked-lm-decoder-forward) and (masked-lm-decoder-grad).
    """

    def __init__(self, weight: Parameter, bias: Parameter) -> None:
        self.weight = weight
        self.bias = bias

    def forward(self, states: Tensor) -> Tensor:
        """Map (B, T, H) to (B, T, V)."""
        return linear(states, self.weight, self.bias)


class BERTLMPredictionHead(Module):
    """Transform and decoder of the masked-LM head.

    Parameters
    ----------
    config : BERTConfig
    word_embeddings : Parameter, shape (V, H)
        Shared with the decoder where ``config.tie_word_embeddings`` is set.

    Notes
    -----
    Derived in :doc:`/chapters/masked-lm`. A tied table receives the look-up
    path (masked-lm-lookup-grad) plus the decoder path
    (masked-lm-decoder-grad): equation (masked-lm-tied-grad).
    """

    def __init__(
        self, config: BERTConfig, word_embeddings: Parameter
    ) -> None:
        self.transform = BERTPredictionHeadTransform(config)
        self.bias = Parameter(zeros((config.vocab_size,)))
        if config.tie_word_embeddings:
            weight = word_embeddings
        else:
            shape = (config.vocab_size, config.hidden_size)
            weight = Parameter(
                truncated_normal(shape, config.initializer_range)
            )
        self.decoder = BERTDecoder(weight, self.bias)

    def forward(self, states: Tensor) -> Tensor:
        """Map (B, T, H) to (B, T, V)."""
        return self.decoder(self.transform(states))


class BERTOnlyMLMHead(Module):
    """Holds the masked-LM head under Hugging Face's name.

    Parameters
    ----------
    config : BERTConfig
    word_embeddings : Parameter, shape (V, H)

    Notes
    -----
    Built in :doc:`/chapters/masked-lm`.
    """

    def __init__(
        self, config: BERTConfig, word_embeddings: Parameter
    ) -> None:
        self.predictions = BERTLMPredictionHead(config, word_embeddings)


class BERTForMaskedLM(BERTPretrainedModel, MaskedLMMixin):
    """BERT with the masked-LM head alone.

    Parameters
    ----------
    config : BERTConfig

    Attributes
    ----------
    bert : BERTModel
        The trunk, without a pooler.
    cls : BERTOnlyMLMHead
        The head, ``cls.predictions``.

    Notes
    -----
    Built in :doc:`/chapters/masked-lm`. Task: section 3.1 of the BERT paper.

    Examples
    --------
    >>> config = BERTConfig(vocab_size=8, hidden_size=8,
    ...                     num_hidden_layers=1, num_attention_heads=2)
    >>> model = BERTForMaskedLM(config).eval()
    >>> model(lucid.tensor([[1, 4, 3, 6, 2]])).logits.shape
    (1, 5, 8)
    """

    def __init__(self, config: BERTConfig) -> None:
        super().__init__(config)
        self.bert = BERTModel(config, add_pooling_layer=False)
        self.cls = BERTOnlyMLMHead(config, self.get_input_embeddings())

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        labels: Tensor | None = None,
    ) -> MaskedLMOutput:
        """Score every word at every position.

        Parameters
        ----------
        input_ids, attention_mask, token_type_ids : Tensor
            As for `BERTModel`.
        labels : Tensor of integers, shape (B, T), optional
            The original id where a token was masked, -100 elsewhere.

        Returns
        -------
        MaskedLMOutput
            With labels, its logits are computed when they are first asked
            for.
        """
        states = self.bert(input_ids, attention_mask, token_type_ids)[0]
        loss, logits = self.predict_words(states, labels)
        return MaskedLMOutput(loss, logits)
