"""Drop, LPGNN's way to learn from randomised labels: label propagation, and a loss that accounts for the noise of the labels."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from ..sparse.normalised_sums import Weighted


def corrected(posterior: Tensor, keep: float) -> Tensor:
    """The distribution of the sent label, given the distribution `posterior` of the true label: forward correction (Patrini et
    al. 2017). A label is sent unchanged with probability `keep`, and as each other label with equal probability.

    (K, classes, nodes) -> the same shape.
    """
    other = (1 - keep) / max(posterior.shape[1] - 1, 1)
    return other + (keep - other) * posterior


def propagated(posterior: Tensor, hop: Weighted, steps: int) -> Tensor:
    """softmax(Â^steps posterior), or the posterior itself for 0 steps. (K, classes, nodes) -> the same shape."""
    if not steps:
        return posterior
    return nodes_last(hop.power(posterior.transpose(1, 2), steps)).softmax(1)


def targets(y: Tensor, sent: Tensor, hop: Weighted, steps: int, classes: int) -> tuple[Tensor, Tensor]:
    """For each node, the class with the largest weight after `steps` propagations of the noisy labels, and whether any label
    reaches the node: (K, nodes) int64 and bool. The class is 0 if no label reaches the node.

    y: (K, nodes) int64, noisy labels. sent: (K, nodes) bool, the nodes whose label is known.
    """
    around = hop.power(one_hot(y, classes).float() * sent[..., None], steps)
    return around.argmax(dim=2), around.sum(dim=2) > 0


def nodes_last(rows: Tensor) -> Tensor:
    """(K, nodes, classes) -> (K, classes, nodes), because softmax over a short last axis is 20 times slower."""
    return rows.transpose(1, 2).contiguous()


def cross_entropy(posterior: Tensor, y: Tensor, rows: Tensor) -> Tensor:
    """(K,): the mean over each run's rows of -log(P(y) + 1e-20). posterior: (K, classes, nodes); y, rows: (K, nodes)."""
    logs = (posterior.gather(1, y[:, None])[:, 0] + 1e-20).log()
    return -(logs * rows).sum(dim=1) / rows.sum(dim=1).clamp(min=1)


def accuracy(scores: Tensor, y: Tensor, rows: Tensor) -> Tensor:
    """(K,): the percentage of each run's rows whose class y has the highest score. scores: (K, classes, nodes); y, rows: (K,
    nodes).
    """
    hits = (scores.gather(1, y[:, None])[:, 0] == scores.amax(dim=1)) & rows
    return 100 * hits.sum(dim=1) / rows.sum(dim=1).clamp(min=1)


def watched(scores: Tensor, watch: Tensor) -> Tensor:
    """Log-posteriors of the watched nodes: logits (K, classes, nodes) -> (K, watched, classes)."""
    return scores.index_select(2, watch).log_softmax(1).transpose(1, 2)


class Choice:
    """Decides which epoch each run keeps, by the paper's rule. Losses and accuracies are measured on noisy labels.

    An epoch replaces the kept one only if its validation loss is lower and its validation and training accuracies are higher. In
    addition, the validation accuracy may be at most `ceiling` percent, and the training accuracy at most 1.05 times `ceiling`.
    The ceiling is the probability that a label is sent unchanged: a network with a higher accuracy has memorised the noise. The
    first epoch is always kept. best: (K, …), the log-posteriors of the kept epoch, overwritten in place.
    """

    def __init__(self, ceiling: float, best: Tensor) -> None:
        self.best, self.ceiling, self.empty = best, ceiling, True
        self.loss, self.val, self.train = best.new_zeros(3, best.shape[0])

    def offer(self, loss: Tensor, val: Tensor, train: Tensor, posteriors: Callable[[], Tensor]) -> None:
        better = (loss < self.loss) & (self.val < val) & (val <= self.ceiling)
        better &= (self.train < train) & (train <= 1.05 * self.ceiling)
        better = torch.ones_like(better) if self.empty else better
        self.empty = False
        if not better.any():
            return
        for kept, new in ((self.loss, loss), (self.val, val), (self.train, train), (self.best, posteriors())):
            kept[better] = new[better]
