"""Builds the two parties of a VESPER recipe. The arguments of each builder are only what its party may know."""

import dataclasses
import hashlib
import math
from collections.abc import Iterator, Sequence

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...accounting.claim import Claim
from ..graph.graph import Features
from ..graph.neighbour_lists import Lists
from ..random import witness
from ..random.hashed_sampling import ticket
from ..random.streams import add_normal, stream
from .aggregators import Neighbours, normalise
from .channel import EMPTY, Channel
from .learner import Learner
from .networks import Encoder, start, uniform
from .party_a_published import Perturbed
from .party_a_sound import Perturb, Refresh
from .protocol import Odometer, PartyA, PartyB
from .recipe import VesperRecipe


def gaussian_noise(seeds: Sequence[int], std: float) -> Perturb:
    """A function that adds fresh noise to every layer of every pass. The noise is drawn in float64 from A's own seeds, and the
    noisy sum is rounded to float32.
    """

    def perturb(path: tuple[str, int, int], clean: Tensor) -> Tensor:
        if not std:
            return clean
        witness.clean(path[0], clean)
        noisy = clean.clone(memory_format=torch.contiguous_format)
        add_normal(noisy.detach(), seeds, std, "noise", *path)
        witness.released(path[0], noisy, scale=std)
        return noisy

    return perturb


def party_a(
    recipe: VesperRecipe,
    x: Features,
    edges: NDArray[np.int64],
    present: NDArray[np.bool_],
    seeds: Sequence[int],
    watch: NDArray[np.int64] = EMPTY,
    perturb: Perturb | None = None,
    budget: Claim | None = None,
    device: str = "cpu",
    lists: Lists | None = None,
) -> PartyA:
    """The party that holds the graph.

    edges: (2, m), each listed once. present: (K, m) bool, the edges of each run. seeds: A's own, never B's; outside of
    experiments they must come from the operating system's entropy. watch: nodes whose noisy sums are stored for an audit.
    perturb: a function that replaces fresh noise, for replays. budget: the claim that A must not exceed. lists: the neighbour
    lists of the edges; None means that they are built.

    Raises ValueError if the recipe's ledger exceeds the budget, for more than one run of a variant that trains in batches, and
    for gcn-min-degree on a graph with a smaller degree than `floor`.
    """
    if budget is not None:
        within(recipe, budget)
    nodes = x.shape[0]
    noise = perturb or gaussian_noise(seeds, recipe.noise_std)
    encoder = Encoder(x, device)
    hello = greeting(recipe, nodes)
    if recipe.batched:
        sender = _published(recipe, encoder, edges, present, seeds, noise)
        return PartyA(hello, sender, Odometer(recipe))

    constant = Neighbours.of(edges, present, nodes, device, lists) if recipe.edge_sampling == 1 else None

    def neighbours(refresh: int) -> Neighbours:
        if constant is not None:
            return constant
        kept = [ticket((s, "edges", refresh), *edges) < recipe.edge_sampling for s in seeds]
        return Neighbours.of(edges, present & np.stack(kept), nodes, device)

    learned = 0 if recipe.variant == "s1" else recipe.layers
    return PartyA(
        hello,
        Refresh(
            encode=encoder,
            learner=Learner.of(start_of_a(encoder, recipe, seeds, learned), recipe.learning_rate, device),
            layers=recipe.layers,
            neighbours=neighbours,
            aggregator=recipe.aggregator,
            floor=recipe.floor,
            perturb=noise,
            watch=watch,
            clip=1 / recipe.n_train if recipe.variant == "s3" else None,
        ),
        Odometer(recipe),
    )


def within(recipe: VesperRecipe, budget: Claim) -> None:
    """Raises ValueError unless an accountant proves that the recipe's ledger stays within the budget."""
    from ...accounting.upper.accountants import tightest, upper

    bound = tightest(upper(recipe.ledger, budget))
    if budget.unit is not recipe.unit or bound is None or bound.epsilon is None or bound.epsilon > budget.epsilon * (1 + 1e-9):
        spends = "no bound at all" if bound is None or bound.epsilon is None else f"epsilon={bound.epsilon:g} per {recipe.unit}"
        raise ValueError(f"budget {budget}: this recipe spends {spends}; calibrate it to the budget first.")


def _published(
    recipe: VesperRecipe,
    encode: Encoder,
    edges: NDArray[np.int64],
    present: NDArray[np.bool_],
    seeds: Sequence[int],
    noise: Perturb,
) -> Perturbed:
    if len(seeds) != 1:
        raise ValueError(
            f"{len(seeds)} runs: variant {recipe.variant} samples a subgraph for every batch and trains one run at a time."
        )
    nodes = encode.x.shape[0]
    ends = edges[:, present[0]]
    receive, send = np.concatenate([ends, ends[::-1]], axis=1)
    adjacency = sp.csr_array((np.ones(send.size, dtype=np.float32), (receive, send)), shape=(nodes, nodes))
    least = int(np.diff(adjacency.indptr).min())
    if recipe.aggregator == "gcn-min-degree" and least < recipe.floor:
        raise ValueError(f"degree {least}: gcn-min-degree needs at least {recipe.floor} at every node; use gcn-floor.")
    layers = 0 if recipe.variant == "gap-resampled" else recipe.layers
    weights = layers * (2 if recipe.aggregator == "gcn-truncated" else 1)
    vectors = [normalise(uniform(seeds, (recipe.hidden, 1), 1, "vector", i))[0, :, 0] for i in range(weights)]
    return Perturbed(
        rule=recipe.variant,
        encode=encode,
        adjacency=adjacency,
        learner=Learner.of(start_of_a(encode, recipe, seeds, weights), recipe.learning_rate),
        layers=recipe.layers,
        vectors=vectors,
        aggregator=recipe.aggregator,
        floor=recipe.floor,
        fan_out=recipe.fan_out,
        key=int(seeds[0]),
        perturb=noise,
    )


def party_b(
    recipe: VesperRecipe,
    y: NDArray[np.int64],
    classes: int,
    trained: NDArray[np.bool_],
    seeds: Sequence[int],
    device: str = "cpu",
) -> PartyB:
    """The party that holds the labels y, (nodes,) int64. trained: (K, nodes) bool, on which nodes each run trains. seeds: B's
    own.
    """
    return PartyB(
        hello=greeting(recipe, y.shape[0]),
        labels=y,
        weight=trained.astype(np.float32),
        decoder=recipe.decoder,
        start=lambda kind, slots, dim: Learner.of(
            start(kind, seeds, slots, dim, recipe.hidden, classes), recipe.learning_rate, device
        ),
        device=device,
    )


def train(
    recipe: VesperRecipe, b: PartyB, channel: Channel, seeds: Sequence[int], watch: NDArray[np.int64], decode: bool = True
) -> None:
    """Party B's side of the training, from HELLO to the last gradient. decode: whether B trains its decoder in variant s1. The
    audit may skip this training, because it comes after A's last release.
    """
    b.greet(channel)
    if recipe.variant != "pmp":
        b.train_encoder(channel, recipe.epochs)
    if recipe.batched:
        b.train_batches(channel, batches(recipe, b.nodes, seeds[0]), teach=recipe.variant != "gap-resampled")
    elif recipe.variant == "s1":
        b.train_once(channel, recipe.epochs if decode else 0)
    else:
        share, more = divmod(recipe.epochs, recipe.passes)
        b.train_refreshed(channel, [share + (i < more) for i in range(recipe.passes)], watch)


def batches(recipe: VesperRecipe, nodes: NDArray[np.int64], seed: int) -> Iterator[NDArray[np.int64]]:
    """The ids of each batch. B draws the batches, so B knows them. Each is drawn uniformly without replacement and independently
    of the others, as the published accounting assumes.

    gap-resampled: batches are drawn from n_train positions, of which a world with fewer training nodes leaves some empty. So no
    edge is in more batches than the ledger counts.
    """
    places = max(recipe.n_train, nodes.size) if recipe.variant == "gap-resampled" else nodes.size
    for step in range(recipe.passes):
        drawn = stream(seed, "batch", step).choice(places, min(recipe.batch_size, places), replace=False)
        yield np.sort(nodes[drawn[drawn < nodes.size]])


def greeting(recipe: VesperRecipe, nodes: int) -> bytes:
    """A digest of the recipe and of the number of nodes, which must be the same for both parties."""
    return hashlib.blake2b(repr((dataclasses.astuple(recipe), nodes)).encode(), digest_size=16).digest()


def start_of_a(encoder: Encoder, recipe: VesperRecipe, seeds: Sequence[int], weights: int) -> list[Tensor]:
    """A's initial parameters: the encoder's weight and bias, then `weights` Glorot-uniform arrays (K, hidden, hidden)."""
    width = recipe.hidden
    square = [math.sqrt(3) * uniform(seeds, (width, width), width, "layer", i) for i in range(weights)]
    return [*encoder.start(seeds, width), *square]
