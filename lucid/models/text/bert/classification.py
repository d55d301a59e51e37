# Tangled from chapters/classification.ipynb; edit that, not this file.
"""BERT with a classifier on the pooled [CLS]."""

from __future__ import annotations

from lucid.autograd import Tensor
from lucid.models.classification import SequenceClassificationModel
from lucid.models.outputs import SequenceClassificationOutput
from lucid.models.text.bert.config import BERTConfig
from lucid.models.text.bert.model import BERTModel, BERTPretrainedModel
from lucid.nn.dropout import Dropout
from lucid.nn.linear import Linear


class BERTForSequenceClassification(
    BERTPretrainedModel, SequenceClassificationModel
):
    r"""BERT with a linear classifier on the pooled [CLS].

    .. math:: z = W_{\mathrm{cls}}\,\mathrm{Dropout}(p) + b_{\mathrm{cls}}

    Parameters
    ----------
    config : BERTConfig
        ``num_labels`` is the number of outputs, ``classifier_dropout``
        (else ``hidden_dropout``) the dropout before them.

    Attributes
    ----------
    bert : BERTModel
        The trunk.
    dropout : Dropout
    classifier : Linear
        From H features to ``num_labels``.

    Notes
    -----
    The fine-tuning recipe of Devlin et al., 2019, section 4.1. Derived in
    :doc:`/chapters/classification`, equations (classification-forward) and
    (classification-grad).

    Examples
    --------
    >>> import lucid
    >>> from lucid.models.text.bert import BERTConfig
    >>> from lucid.models.text.bert import BERTForSequenceClassification
    >>> cfg = BERTConfig(num_labels=3, num_hidden_layers=2, hidden_size=128,
    ...                  num_attention_heads=2, intermediate_size=512)
    >>> model = BERTForSequenceClassification(cfg).eval()
    >>> input_ids = lucid.tensor([[101, 7592, 102]])
    >>> out = model(input_ids)
    >>> out.logits.shape   # (B=1, num_labels=3)
    (1, 3)
    """

    def __init__(self, config: BERTConfig) -> None:
        super().__init__(config)
        p = config.classifier_dropout
        self.bert = BERTModel(config)
        self.dropout = Dropout(config.hidden_dropout if p is None else p)
        self.classifier = Linear(
            config.hidden_size,
            config.num_labels,
            init_std=config.initializer_range,
        )

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        labels: Tensor | None = None,
    ) -> SequenceClassificationOutput:
        """Score the labels of each sequence.

        Parameters
        ----------
        input_ids, attention_mask, token_type_ids : Tensor
            As for `BERTModel`.
        labels : Tensor, shape (B,), optional
            Classes as integers, or for ``num_labels == 1`` floating point
            targets.

        Returns
        -------
        SequenceClassificationOutput

        Raises
        ------
        TypeError, ValueError
            If an argument has a wrong dtype, shape or value; the message
            names it.
        """
        pooled = self.bert(
            input_ids, attention_mask, token_type_ids
        ).pooler_output
        logits = self.classifier(self.dropout(pooled))
        loss = None
        if labels is not None:
            loss = self.classification_loss(logits, labels)
        return SequenceClassificationOutput(loss, logits)
