"""The next-sentence head: does B follow A?"""

from __future__ import annotations

from lucid.autograd import Tensor
from lucid.models.outputs import NextSentencePredictorOutput
from lucid.models.text.bert.config import BERTConfig
from lucid.models.text.bert.model import BERTModel, BERTPretrainedModel
from lucid.nn.linear import Linear
from lucid.nn.losses import cross_entropy
from lucid.nn.module import Module


def next_sentence_loss(
    logits: Tensor, labels: Tensor, name: str = "labels"
) -> Tensor:
    """Mean cross-entropy of the two classes.

    Parameters
    ----------
    logits : Tensor, shape (B, 2)
    labels : Tensor of integers, shape (B,)
        0 where B follows A, 1 where B is a random sentence.
    name : str
        What an error message calls ``labels``.
    """
    return cross_entropy(logits, labels, name=name)


class BERTOnlyNSPHead(Module):
    """Holds the next-sentence classifier under Hugging Face's name.

    Parameters
    ----------
    config : BERTConfig
    """

    def __init__(self, config: BERTConfig) -> None:
        self.seq_relationship = Linear(
            config.hidden_size, 2, init_std=config.initializer_range
        )


class BERTForNextSentencePrediction(BERTPretrainedModel):
    """BERT with the next-sentence head alone.

    Parameters
    ----------
    config : BERTConfig
    """

    def __init__(self, config: BERTConfig) -> None:
        super().__init__(config)
        self.bert = BERTModel(config)
        self.cls = BERTOnlyNSPHead(config)

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        labels: Tensor | None = None,
    ) -> NextSentencePredictorOutput:
        """Score "B follows A" (class 0) and "B is random" (class 1).

        Parameters
        ----------
        input_ids, attention_mask, token_type_ids : Tensor
            As for `BERTModel`.
        labels : Tensor of integers, shape (B,), optional
            0 where B follows A, 1 where B is a random sentence.

        Returns
        -------
        NextSentencePredictorOutput
        """
        pooled = self.bert(
            input_ids, attention_mask, token_type_ids
        ).pooler_output
        logits = self.cls.seq_relationship(pooled)
        loss = None if labels is None else next_sentence_loss(logits, labels)
        return NextSentencePredictorOutput(loss, logits)
