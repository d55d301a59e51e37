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
            Its ``loss`` is the sum of the losses whose labels were given.
        """
        trunk = self.bert(input_ids, attention_mask, token_type_ids)
        words = self.cls.predictions(trunk.last_hidden_state)
        pair = self.cls.seq_relationship(trunk.pooler_output)
        losses = {}
        if labels is not None:
            losses["mlm_loss"] = self.masked_lm_loss(words, labels)
        if next_sentence_label is not None:
            losses["nsp_loss"] = next_sentence_loss(
                pair, next_sentence_label, "next_sentence_label"
            )
        loss = None
        for part in losses.values():
            loss = part if loss is None else loss + part
        return BERTForPreTrainingOutput(loss, words, pair, **losses)
