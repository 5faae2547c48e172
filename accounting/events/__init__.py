"""Ledgers: trees of the mechanisms that a model runs, and functions that build, read and rescale them.

Used elsewhere: tree.parts, tree.Unsupported, tree.gaussian_mu, types.FiniteDpEvent, counts.charged, well_formed.check_ledger.
"""

from .mechanisms import (
    composed,
    dp_sgd,
    dp_sgd_capped,
    dp_sgd_fixed,
    dp_sgd_occurrences,
    dp_sgd_seen,
    edge_response,
    gaussian,
    gaussian_hops,
    inclusion,
    message_passing,
    message_passing_as_published,
    message_passing_secret_edges,
    message_passing_seen,
    multi_bit,
    noisy_argmax,
    on_sampled_nodes,
    page_rank_exponential,
    pate,
    randomised_response,
    repeated,
)
from .tree import Unsupported, gaussian_mu, parts, scaled
from .types import BoundedRangeDpEvent, FiniteDpEvent, PureDpEvent, VisibleMixtureDpEvent
