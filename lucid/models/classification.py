# Tangled from chapters/classification.ipynb; edit that, not this file.
"""What models that classify whole sequences share."""

from __future__ import annotations

from lucid.autograd import Tensor
from lucid.models.base import PretrainedModel
from lucid.nn.losses import cross_entropy, mse_loss


class SequenceClassificationModel(PretrainedModel):
    """A model with one row of logits per sequence.

    Notes
    -----
    Derived in :doc:`/chapters/classification`, equations
    (classification-loss-forward) and (classification-loss-grad).
    """

    def classification_loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Cross-entropy, or squared error for a single output.

        Computes equation (classification-loss-forward).

        Parameters
        ----------
        logits : Tensor, shape (B, num_labels)
        labels : Tensor, shape (B,)
            Classes as integers; for ``num_labels == 1`` floating point
            targets.

        Returns
        -------
        Tensor, one number

        Raises
        ------
        TypeError
            If a regression target is not floating point, or a class is not
            an integer.
        ValueError
            If the shape differs or a class is out of range.
        """
        if logits.shape[1] > 1:
            return cross_entropy(logits, labels)
        if labels.dtype.kind != "f":
            raise TypeError(
                f"labels: num_labels is 1, a regression, which wants "
                f"floating point targets; got {labels.dtype}"
            )
        if labels.shape != logits.shape[:1]:
            raise ValueError(
                f"labels: expected shape {logits.shape[:1]}, got "
                f"{labels.shape}"
            )
        return mse_loss(logits[:, 0], labels.to(dtype=logits.dtype))
