# Tangled from chapters/next-sentence.ipynb; edit that, not this file.
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

    Returns
    -------
    Tensor, one number

    Raises
    ------
    TypeError, ValueError
        If labels are not integers, not one per pair, or not 0 or 1. A label
        -100 does not raise: its pair is left out.

    Notes
    -----
    Derived in :doc:`/chapters/next-sentence`, equations
    (next-sentence-loss-forward) and (next-sentence-score-grad).

    Examples
    --------
    >>> sure_it_follows = lucid.tensor([[9.0, -9.0]])
    >>> next_sentence_loss(sure_it_follows, lucid.tensor([0])).item() < 1e-6
    True
    """
    return cross_entropy(logits, labels, name=name)


class BERTOnlyNSPHead(Module):
    """Holds the next-sentence classifier under Hugging Face's name.

    Parameters
    ----------
    config : BERTConfig

    Attributes
    ----------
    seq_relationship : Linear
        From H to 2: class 0 "B follows A", class 1 "B is random".

    Notes
    -----
    Derived in :doc:`/chapters/next-sentence`, equations
    (next-sentence-forward) and (next-sentence-head-grad).
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

    Attributes
    ----------
    bert : BERTModel
        The trunk, with its pooler.
    cls : BERTOnlyNSPHead
        The head, ``cls.seq_relationship``.

    Notes
    -----
    Built in :doc:`/chapters/next-sentence`: the head is equation
    (next-sentence-forward); its gradient goes through the pooler by
    (next-sentence-tanh-grad) and (next-sentence-pooler-grad). Task: section
    3.1 of the BERT paper.
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
