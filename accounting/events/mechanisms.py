"""One function for each mechanism. Each returns a dp_accounting event tree (a ledger).

`sigma` is always noise std / sensitivity. The sensitivity is that of the ledger's unit and relation, so accountants must not
double it for the relation replace. On a Poisson sample the norm of each value counts too: for replace, it must be at most half of
the sensitivity. sigma = 0 means no privacy. Each function raises ValueError for a probability or noise out of range.
"""

import math

import dp_accounting as dp
from dp_accounting import DpEvent
from scipy.stats import binom, hypergeom

from ..closed_forms import argmax_pair, costliest_argmax_epsilon
from .types import BoundedRangeDpEvent, FiniteDpEvent, PureDpEvent, VisibleMixtureDpEvent


def gaussian(sigma: float) -> DpEvent:
    """One Gaussian release. sigma: noise std / sensitivity."""
    sigma = at_least_zero("sigma", sigma)
    return dp.GaussianDpEvent(sigma) if sigma else dp.NonPrivateDpEvent()


def gaussian_hops(sigma: float, hops: int) -> DpEvent:
    """`hops` noisy aggregations, each over the outputs of the previous one (GAP, ProGAP at edge level; VESPER's noisy rows).

    The sensitivity of one hop over rows of norm 1 is 1 for a directed edge and sqrt(2) for an undirected edge. It is sqrt(D) for
    the rows of the other nodes if a node with at most D out-edges is added or removed. Given the earlier released hops,
    neighbouring graphs differ in these rows of a hop only, so the hops compose adaptively. hops = 0 releases nothing.
    """
    return repeated(gaussian(sigma), hops)


def message_passing(sigma: float, layers: int) -> DpEvent:
    """All layers of one noisy pass over one sampled neighbourhood: a single Gaussian with multiplier sigma / sqrt(layers).

    The layers share a sample, so they are composed before amplification. sigma: noise std / edge sensitivity of a layer,
    which is sqrt(2) ||W|| for a sum over neighbours when an undirected edge is added or removed.
    """
    if layers < 1:
        raise ValueError(f"layers={layers}: must be at least 1.")
    return gaussian(at_least_zero("sigma", sigma) / math.sqrt(layers))


def inclusion(roots: int, batch: int, fan_out: int, layers: int) -> float:
    """An upper bound on the probability that an edge is in the neighbourhood of a batch: 1 - C(N - t, B) / C(N, B).

    N = `roots`, B = `batch`, D = `fan_out`, L = `layers`. A batch is B of the N nodes, drawn without replacement. In each layer a
    node draws at most D neighbours. At most t = 2 (1 + D + … + D^(L-1)) roots can reach the edge.
    """
    near = min(2 * sum(fan_out**i for i in range(layers)), roots)
    if roots - near < batch:
        return 1.0
    miss = sum(math.log1p(-near / (roots - i)) for i in range(batch))
    return float(-math.expm1(miss))


def message_passing_as_published(sigma: float, layers: int, rate: float, steps: int) -> DpEvent:
    """VESPER's published accounting: secret samples without replacement, each of which contains an edge with probability `rate`.

    Not sound: the other party knows the batches, and the bound is for replaced records. See `message_passing_seen`.
    """
    step = message_passing(sigma, layers)
    if isinstance(step, dp.NonPrivateDpEvent) or rate == 1:
        return repeated(step, steps)
    source = 10**12  # with this many records, the sample size expresses the rate to 12 digits
    return repeated(dp.SampledWithoutReplacementDpEvent(source, math.ceil(_probability("rate", rate) * source), step), steps)


def message_passing_seen(sigma: float, layers: int, rate: float, steps: int) -> DpEvent:
    """VESPER with independent random batches that the adversary knows. Each batch contains an edge with probability `rate`."""
    return dp_sgd_seen(at_least_zero("sigma", sigma) / math.sqrt(layers), rate, steps)


def message_passing_secret_edges(sigma: float, layers: int, keep: float, steps: int) -> DpEvent:
    """VESPER where each step keeps every undirected edge with probability `keep`, by one secret draw for all layers.

    For an edge, each step is a Poisson-sampled Gaussian, even if the adversary knows the batches. Sums are not multiplied by 1 /
    keep.
    """
    return dp_sgd(at_least_zero("sigma", sigma) / math.sqrt(layers), keep, steps)


def dp_sgd(sigma: float, rate: float, steps: int) -> DpEvent:
    """DP-SGD with secret Poisson batches. sigma: noise std / clipping norm, on the SUM of the clipped gradients.

    rate: probability that a record joins a batch. The relation is add/remove of one record that enters one gradient. Under
    replace, sigma is noise std / (2 * clipping norm). For fixed batches use `dp_sgd_fixed`. For batches that the adversary knows
    use `dp_sgd_seen`.
    """
    return _each_sampled(gaussian(sigma), rate, steps)


def dp_sgd_fixed(sigma: float, epochs: int, visits: int = 1) -> DpEvent:
    """DP-SGD over a fixed or shuffled partition, without amplification. A record is in `visits` batches of every epoch."""
    return repeated(gaussian(sigma), epochs * visits)


def dp_sgd_seen(sigma: float, rate: float, steps: int) -> DpEvent:
    """DP-SGD with independent random batches that the adversary knows. Its cost grows linearly with the rate; with secret batches
    it would grow quadratically.
    """
    rate, event = _probability("rate", rate), gaussian(sigma)
    if isinstance(event, dp.NonPrivateDpEvent) and rate:
        return event
    return repeated(VisibleMixtureDpEvent((1 - rate, rate), (dp.NoOpDpEvent(), event)), steps)


def dp_sgd_occurrences(sigma: float, records: int, terms: int, batch: int, steps: int) -> DpEvent:
    """DP-SGD on `records` loss terms. One node enters `terms` of them, and a batch draws `batch` terms without replacement.

    sigma: noise std / (2 * terms * clipping norm); the denominator is the sensitivity if all terms are in one batch. With one
    layer and a degree bound K, terms = K + 1. The number of terms in a batch is hypergeometric, and the adversary is assumed to
    know it (Daigavane et al. 2021, theorem 1).
    """
    sigma = at_least_zero("sigma", sigma)
    if not sigma:
        return dp.NonPrivateDpEvent()
    mechanism = range(max(0, terms + batch - records), min(terms, batch) + 1)
    chance = [float(hypergeom.pmf(k, records, terms, batch)) for k in mechanism]
    kept = [(k, c) for k, c in zip(mechanism, chance, strict=True) if c > 0]
    total = sum(c for _, c in kept)
    parts = tuple(dp.GaussianDpEvent(sigma * terms / k) if k else dp.NoOpDpEvent() for k, _ in kept)
    return repeated(VisibleMixtureDpEvent(tuple(c / total for _, c in kept), parts), steps)


def dp_sgd_capped(sigma: float, rate: float, cap: int, steps: int) -> DpEvent:
    """DP-SGD over rows that aggregate nodes. Each node is in at most `cap` rows besides its own (DPAR, repaired).

    Rows join a batch independently with probability `rate`. Removing a node removes its own gradient, of at most one clipping
    norm, and changes up to `cap` other gradients, each by at most two. sigma: noise std / ((1 + 2 * cap) * clipping norm). The
    adversary is assumed to know the batch.
    """
    sigma, rate = at_least_zero("sigma", sigma), _probability("rate", rate)
    if not sigma:
        return dp.NonPrivateDpEvent()
    weights: dict[int, float] = {}
    for own in (0, 1):
        for others in range(cap + 1):
            chance = (rate if own else 1 - rate) * float(binom.pmf(others, cap, rate))
            weights[own + 2 * others] = weights.get(own + 2 * others, 0.0) + chance
    kept = {shift: chance for shift, chance in sorted(weights.items()) if chance > 0}
    full = 1 + 2 * cap
    parts = tuple(dp.GaussianDpEvent(sigma * full / shift) if shift else dp.NoOpDpEvent() for shift in kept)
    return repeated(VisibleMixtureDpEvent(tuple(c / sum(kept.values()) for c in kept.values()), parts), steps)


def on_sampled_nodes(rate: float, *events: DpEvent) -> DpEvent:
    """Several mechanisms on ONE secret Poisson sample of the nodes: they are composed first and amplified once.

    Amplifying each part separately would assume a fresh sample for each part.
    """
    whole = composed(*events)
    rate = _probability("rate", rate)
    return whole if rate == 1 or isinstance(whole, dp.NonPrivateDpEvent) else dp.PoissonSampledDpEvent(rate, whole)


def page_rank_exponential(epsilon: float, picks: int, rows: int, values_epsilon: float = 0.0) -> DpEvent:
    """DP-APPR-EM: one-shot Gumbel selection of `picks` entries in each of `rows` vectors clipped at C, Gumbel scale 2C / epsilon.

    values_epsilon: if above 0, the picked values are released with Laplace noise of scale picks C / values_epsilon; if 0, they
    are not released.
    """
    selection = repeated(BoundedRangeDpEvent(at_least_zero("epsilon", epsilon)), picks * rows)
    values = repeated(dp.LaplaceDpEvent(1 / float(values_epsilon)), rows) if values_epsilon else dp.NoOpDpEvent()
    return composed(selection, values)


def noisy_argmax(classes: int, scale: float, rate: float, queries: int) -> DpEvent:
    """PrivGNN: each query draws a secret Poisson sample of the private nodes, then releases the argmax of a noisy posterior.

    scale: scale of the Laplace noise on each of the `classes` entries of the posterior. classes = 0: the number is unknown, and
    the ledger charges the number of classes that costs most. The relation is add/remove of one private node. Neighbouring
    posteriors may be arbitrary; the exact epsilon of one release is below 1.18 / scale.

    Two different vertices of the simplex are the worst pair at every delta, so the pair may be composed and sampled. Proof: at a
    vertex, let o be the probability of each label except the vertex's own. Take a set of s of the c classes. Given the largest
    noisy entry of the set, the probability that no entry outside exceeds it is log-concave in the posterior, so the probability
    of a label in the set is smallest at a vertex outside the set, where this probability is s o. By the same argument for the
    complement, the probability is at most 1 - (c - s) o. Hence delta(epsilon) is at most 1 - (c - s) o - e^epsilon s o, which is
    largest at s = 1.
    """
    scale = at_least_zero("scale", scale)
    if not scale:
        return dp.NonPrivateDpEvent()
    one = FiniteDpEvent(*argmax_pair(classes, scale)) if classes else PureDpEvent(costliest_argmax_epsilon(scale))
    return _each_sampled(one, rate, queries)


def pate(scale: float, queries: int) -> DpEvent:
    """PATE: the argmax of vote counts with Laplace noise of this scale; neighbours differ in the vote of one teacher."""
    scale = at_least_zero("scale", scale)
    return repeated(PureDpEvent(2 / scale), queries) if scale else dp.NonPrivateDpEvent()


def multi_bit(epsilon: float) -> DpEvent:
    """LPGNN's encoder: it sends some of a user's features, each as one bit with an equal share of epsilon. Relation: replace one
    user's features.

    In the worst pair of users, one has all features at the minimum and the other all at the maximum, so the shares add up.
    epsilon: nats; inf adds no noise.
    """
    if epsilon == math.inf:
        return dp.NonPrivateDpEvent()
    epsilon = at_least_zero("epsilon", epsilon)
    return PureDpEvent(epsilon) if epsilon else dp.NoOpDpEvent()


def randomised_response(epsilon: float, categories: int = 2) -> DpEvent:
    """Randomised response: one of `categories` values is kept with probability e^epsilon / (e^epsilon + categories - 1), else
    replaced by another one.

    epsilon: nats; inf adds no noise.
    """
    if epsilon == math.inf:
        return dp.NonPrivateDpEvent()
    if not at_least_zero("epsilon", epsilon) or categories < 2:
        return dp.NoOpDpEvent()
    return dp.RandomizedResponseDpEvent(categories / (math.exp(epsilon) + categories - 1), int(categories))


def edge_response(kept: float, invented: float) -> DpEvent:
    """Edge-wise randomised response: an existing edge is kept with probability `kept`, and an absent edge appears with
    probability `invented`. An undirected edge with one coin for each direction is charged twice.
    """
    kept, invented = _probability("kept", kept), _probability("invented", invented)
    if kept == invented:
        return dp.NoOpDpEvent()
    return FiniteDpEvent((kept, 1 - kept), (invented, 1 - invented))


def _each_sampled(event: DpEvent, rate: float, count: int) -> DpEvent:
    """`count` mechanisms, each on a separate secret sample."""
    return repeated(on_sampled_nodes(rate, event), count) if rate else dp.NoOpDpEvent()


def repeated(event: DpEvent, count: int) -> DpEvent:
    """The same mechanism `count` times, composed adaptively: each run may depend on the outputs of earlier ones. Raises
    ValueError if count is no whole number of at least 0.
    """
    if int(count) != count or count < 0:
        raise ValueError(f"count={count}: must be a whole number of at least 0.")
    if count == 0 or isinstance(event, dp.NoOpDpEvent):
        return dp.NoOpDpEvent()
    if count == 1 or isinstance(event, dp.NonPrivateDpEvent):
        return event
    return dp.SelfComposedDpEvent(event, int(count))


def composed(*events: DpEvent) -> DpEvent:
    """Different mechanisms, composed adaptively: each may depend on the outputs of earlier ones."""
    parts = [e for e in events if not isinstance(e, dp.NoOpDpEvent)]
    if any(isinstance(e, dp.NonPrivateDpEvent) for e in parts):
        return dp.NonPrivateDpEvent()
    if not parts:
        return dp.NoOpDpEvent()
    return parts[0] if len(parts) == 1 else dp.ComposedDpEvent(parts)


def at_least_zero(name: str, value: float) -> float:
    if not (math.isfinite(value) and value >= 0):
        raise ValueError(f"{name}={value}: must be a finite number of at least 0; 0 means no privacy.")
    return float(value)


def _probability(name: str, value: float) -> float:
    if not 0 <= value <= 1:
        raise ValueError(f"{name}={value}: must be a probability, in [0, 1].")
    return float(value)
