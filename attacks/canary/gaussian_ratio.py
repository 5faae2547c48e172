"""The most powerful test of one edge: the exact likelihood ratio, from released sums with Gaussian noise."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ...models.base import Release
from ..base import Challenge, Untrained
from ..signals import rows

WIDE = 1 << 22  # most numbers in a dense operand of a sparse product: 16 MiB of float32


@dataclass(frozen=True)
class LikelihoodRatio(Untrained):
    """The Neyman-Pearson test of an edge, as a standardised score.

    At hop k the release is y_k = A h_k + noise, where the rows h_k are known. An arc u -> v adds d_k = h_k[u] to row v and
    changes no other row. So the log-likelihood ratio is an increasing function of

        score = sum_k <y_k - A_known h_k, d_k> / (noise_std * sqrt(sum_k |d_k|^2)).

    The score is N(0, 1) without the edge and N(shift, 1) with it, where shift = sqrt(sum_k |d_k|^2) / noise_std. For an
    undirected edge, the sums include both arcs. Later h_k may depend on earlier y_k. The test is exact, because the noise of y_k
    is independent of the earlier y_k.
    """

    name: str = "likelihood-ratio"
    needs: tuple[str, ...] = ("aggregates", "inputs")
    kinds: tuple[str, ...] = ("edge",)

    def score(self, release: Release, challenge: Challenge) -> NDArray[np.float64]:
        """(runs, c) float64. Raises ValueError if the distribution above does not hold: see `ends` and `noise_std`."""
        reached, inputs = ends(challenge), release["inputs"]
        arcs = [(np.searchsorted(reached, receive), rows(release, send)) for receive, send in arcs_of(challenge)]
        total = np.zeros((len(release), len(challenge)))
        for part, gap in gaps(release, challenge, reached):
            for at, sender in arcs:
                total[part] += np.einsum("khcd,khcd->kc", gap[:, :, at], inputs[part][:, :, sender], dtype=np.float64)
        size = self.shift(release, challenge)
        return np.divide(total / noise_std(release) ** 2, size, out=np.zeros_like(size), where=size > 0)

    def across(self, release: Release, challenge: Challenge) -> tuple[float, int]:
        """The squared length, in units of noise_std, of the noise orthogonal to all challenge edges, and its dimension.

        The squared length is chi-squared, with the dimension as degrees of freedom. It depends on neither the bits nor the
        scores.
        """
        reached, scores = ends(challenge), self.score(release, challenge)
        total = sum(float(np.square(gap, dtype=np.float64).sum()) for _, gap in gaps(release, challenge, reached))
        # |gap|^2 = |across|^2 + <gap, d / |d|>^2, where d is as in the class docstring; the last term is (score * noise_std)^2.
        _, hops, _, dim = release["aggregates"].shape
        squares = total / noise_std(release) ** 2 - float(np.square(scores).sum())
        return squares, len(release) * hops * len(reached) * dim - scores.size

    def shift(self, release: Release, challenge: Challenge) -> NDArray[np.float64]:
        """(runs, c) float64: how far each edge shifts its score, in standard deviations. The attacker can compute this shift."""
        senders = [rows(release, send) for _, send in arcs_of(challenge)]
        norms = sum(np.square(release["inputs"][:, :, s], dtype=np.float64).sum((1, 3)) for s in senders)
        return np.asarray(np.sqrt(norms) / noise_std(release))

    def residuals(self, release: Release, challenge: Challenge) -> NDArray[np.float64]:
        """(runs, hops, rows, dim) float64: the watched rows that no challenge edge reaches, minus their mean, in units of
        noise_std. They are independent standard normal numbers if the noise is as stated.
        """
        free = np.setdiff1d(release.watch, ends(challenge))
        parts = [gap.astype(np.float64) for _, gap in gaps(release, challenge, free)]
        return np.concatenate(parts) / noise_std(release)


def noise_std(release: Release) -> float:
    """The standard deviation of the noise, from release.public. Raises ValueError unless it is above 0."""
    std = release.public.get("noise_std", 0.0)
    if not std > 0:
        raise ValueError(f"noise_std={std}: must be above 0. Sums without noise show every edge, and have no likelihood ratio.")
    return float(std)


def arcs_of(challenge: Challenge) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """The arcs of the challenge edges, as (receivers, senders): one for each directed edge, two for each undirected one."""
    start, end = challenge.items.T
    return [(end, start)] if challenge.known.directed else [(end, start), (start, end)]


def ends(challenge: Challenge) -> NDArray[np.int64]:
    """The nodes that receive a challenge arc, ascending.

    Raises ValueError if two challenge edges reach the same node, or if the known graph contains a challenge edge, because the
    known mean of that row would be wrong.
    """
    reached, sender = (np.concatenate(part) for part in zip(*arcs_of(challenge), strict=True))
    unique, times = np.unique(reached, return_counts=True)
    if len(unique) != len(reached):
        node = unique[times > 1][0]
        raise ValueError(f"{times.max()} challenge edges reach node {node}: at most 1 may; draw a matching.")
    partner = np.full(challenge.known.nodes, -1)
    partner[reached] = sender
    for start, end in challenge.known.edge_blocks():
        both = np.flatnonzero((partner[end] == start) | ((partner[start] == end) & (not challenge.known.directed)))
        if both.size:
            raise ValueError(f"the known graph holds challenge edge ({start[both[0]]}, {end[both[0]]}): leave it out.")
    return unique


def gaps(release: Release, challenge: Challenge, nodes: NDArray[np.int64]) -> Iterator[tuple[slice, NDArray[np.float32]]]:
    """For each chunk of runs, its slice, and the released sums of `nodes` minus the sums over known arcs: (runs, hops, nodes,
    dim) float32.
    """
    seen = rows(release, nodes)
    for part, known in known_sums(release, release["inputs"], challenge, nodes):
        yield part, release["aggregates"][part][:, :, seen] - known


def known_sums(
    release: Release, inputs: NDArray[np.float32], challenge: Challenge, nodes: NDArray[np.int64]
) -> Iterator[tuple[slice, NDArray[np.float32]]]:
    """Yields, for each chunk of runs, its slice and the sums over the known arcs that end in `nodes`: (runs, hops, nodes, dim)
    float32.

    inputs: (runs, hops, w, dim), the rows of the watched nodes before they are summed.
    """
    runs, hops, watched, dim = inputs.shape
    step = max(1, WIDE // max(1, hops * watched * dim))
    for first in range(0, runs, step):
        part = slice(first, min(first + step, runs))
        known = np.empty((part.stop - first, hops, len(nodes), dim), dtype=inputs.dtype)
        wides = [inputs[part, hop].transpose(1, 0, 2).reshape(watched, -1) for hop in range(hops)]
        for some, adjacency in known_arcs(release, challenge, nodes):
            for hop, wide in enumerate(wides):
                known[:, hop, some] = (adjacency @ wide).reshape(adjacency.shape[0], -1, dim).transpose(1, 0, 2)
        yield part, known


def known_arcs(release: Release, challenge: Challenge, nodes: NDArray[np.int64]) -> Iterator[tuple[slice, sp.csr_array]]:
    """For each block of `nodes`, its slice, and a 0/1 matrix (block, w): which watched rows each node of the block receives."""
    for some, starts, senders in challenge.known.into(nodes):
        ones, columns = np.ones(len(senders), np.float32), rows(release, senders.astype(np.int64))
        yield some, sp.csr_array((ones, columns, starts), (len(starts) - 1, len(release.watch)))
