# Tangled from chapters/pretraining.ipynb; edit that, not this file.
"""BERT with both pre-training heads."""

from __future__ import annotations

from lucid.autograd import Tensor
from lucid.models.masked_lm import MaskedLMMixin
from lucid.models.outputs import BERTForPreTrainingOutput
from lucid.models.text.bert.config import BERTConfig
from lucid.models.text.bert.masked_lm import BERTLMPredictionHead
from lucid.models.text.bert.model import BERTModel, BERTPretrainedModel
from lucid.models.text.bert.next_sentence import next_sentence_loss
from lucid.nn.linear import Linear
from lucid.nn.module import Module, Parameter


class BERTPreTrainingHeads(Module):
    """Both heads: ``predictions`` and ``seq_relationship``.

    Parameters
    ----------
    config : BERTConfig
    word_embeddings : Parameter, shape (V, H)
        Shared with the decoder where ``config.tie_word_embeddings`` is set.

    Attributes
    ----------
    predictions : BERTLMPredictionHead
        Reads every row of the last states.
    seq_relationship : Linear
        Reads the pooled vector; from H features to 2.

    Notes
    -----
    Put together in :doc:`/chapters/pretraining`.
    """

    def __init__(
        self, config: BERTConfig, word_embeddings: Parameter
    ) -> None:
        self.predictions = BERTLMPredictionHead(config, word_embeddings)
        self.seq_relationship = Linear(
            config.hidden_size, 2, init_std=config.initializer_range
        )


class BERTForPreTraining(BERTPretrainedModel, MaskedLMMixin):
    r"""BERT with the joint masked-LM and next-sentence objective.

    .. math:: \mathcal{L} = \mathcal{L}_{\mathrm{MLM}}
        + \mathcal{L}_{\mathrm{NSP}}

    Parameters
    ----------
    config : BERTConfig
        ``tie_word_embeddings`` says whether the masked-LM decoder is the
        word embedding table itself.

    Attributes
    ----------
    bert : BERTModel
        The trunk.
    cls : BERTPreTrainingHeads
        Both heads, ``cls.predictions`` and ``cls.seq_relationship``.

    Notes
    -----
    The objective of Devlin et al., 2019, section 3.1. Derived in
    :doc:`/chapters/pretraining`, equations (pretraining-forward) and
    (pretraining-grad).

    Examples
    --------
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

    def __init__(self, config: BERTConfig) -> None:
        super().__init__(config)
        self.bert = BERTModel(config)
        self.cls = BERTPreTrainingHeads(config, self.get_input_embeddings())

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        labels: Tensor | None = None,
        next_sentence_label: Tensor | None = None,
    ) -> BERTForPreTrainingOutput:
        """Score every word at every position, and the pair of sentences.

        Parameters
        ----------
        input_ids, attention_mask, token_type_ids : Tensor
            As for `BERTModel`.
        labels : Tensor of integers, shape (B, T), optional
            The original id where a token was masked, -100 elsewhere.
        next_sentence_label : Tensor of integers, shape (B,), optional
            0 where B follows A, 1 where B is a random sentence.

        Returns
        -------
        BERTForPreTrainingOutput
            Its ``loss`` is the sum of the losses whose labels were given,
            equation (pretraining-forward). With ``labels``, its
            ``prediction_logits`` are computed when they are first asked
            for.

        Raises
        ------
        TypeError, ValueError
            If an argument has a wrong dtype, shape or value; the message
            names it.
        """
        trunk = self.bert(input_ids, attention_mask, token_type_ids)
        mlm, words = self.predict_words(trunk.last_hidden_state, labels)
        pair = self.cls.seq_relationship(trunk.pooler_output)
        nsp = None
        if next_sentence_label is not None:
            nsp = next_sentence_loss(
                pair, next_sentence_label, "next_sentence_label"
            )
        parts = [part for part in (mlm, nsp) if part is not None]
        loss = sum(parts[1:], start=parts[0]) if parts else None
        return BERTForPreTrainingOutput(loss, words, pair, mlm, nsp)
