"""Warnings about a ledger and a claim, for problems that no accountant reports."""

import dp_accounting as dp
from dp_accounting import DpEvent

from ..claim import Claim, Relation
from ..events.tree import leaves, parts

SHOWS_BATCHES = ("batches", "transcript")


def proved_for_others(ledger: DpEvent, relation: Relation) -> str:
    """The reason why no epsilon of this ledger is an upper bound under `relation`, or an empty string."""
    if relation is Relation.ADD_REMOVE and any(isinstance(e, dp.SampledWithoutReplacementDpEvent) for e, _ in parts(ledger)):
        return (
            "not a bound here: amplification without replacement is proved for the relation replace, and this claim is add-remove"
        )
    return ""


def doubts(ledger: DpEvent, claim: Claim, units: int | None = None) -> tuple[str, ...]:
    """Warnings about a ledger and a claim, one sentence each.

    units: the number of nodes or edges that the claim protects, if this number is public.
    """
    found = [_odd_number(ledger), _large_delta(claim, units), _seen_sample(ledger, claim), _shared_sample(ledger)]
    found.append(_sampled_values(ledger, claim))
    other = proved_for_others(ledger, claim.relation)
    found.append(f"{other[0].upper()}{other[1:]}." if other else "")
    if claim.relation is Relation.ADD_REMOVE and any(isinstance(e, dp.RandomizedResponseDpEvent) for e, _ in parts(ledger)):
        found.append(
            "Randomised response protects the value that a person has, not whether the person is there: claim "
            "relation=replace, not add-remove."
        )
    return tuple(sentence for sentence in found if sentence)


def _sampled_values(ledger: DpEvent, claim: Claim) -> str:
    """A warning if a ledger has mechanisms on Poisson samples, and the claim is about replacement. No accountant amplifies pure
    mechanisms then. The epsilon of Gaussians is that of two opposite values, which are half of the sensitivity away from 0.
    """
    sampled = [e.event for e, _ in parts(ledger) if isinstance(e, dp.PoissonSampledDpEvent)]
    if claim.relation is Relation.ADD_REMOVE or not sampled:
        return ""
    if all(isinstance(e, dp.GaussianDpEvent) for e in sampled):
        return (
            "Under relation=replace, the epsilon of a Gaussian mechanism on a Poisson sample is an upper bound only if no value "
            "has a norm above half of the sensitivity, as with clipped gradients and sigma = noise std / (2 * clipping norm)."
        )
    return (
        "A Poisson sample amplifies a pure mechanism only if its epsilon also covers a present unit against an absent one. "
        "Under relation=replace no accountant amplifies it."
    )


def _large_delta(claim: Claim, units: int | None) -> str:
    if units and claim.delta > 1 / units:
        return f"delta={claim.delta:g} is above 1/{units}: publishing one random unit in full would satisfy the claim."
    return ""


def _seen_sample(ledger: DpEvent, claim: Claim) -> str:
    shown = [n for n in claim.exposes if n in SHOWS_BATCHES]
    if shown and any(isinstance(e, dp.PoissonSampledDpEvent | dp.SampledWithoutReplacementDpEvent) for e, _ in parts(ledger)):
        return f"The adversary sees {shown[0]!r}: only a secret sample amplifies privacy. Use a ledger for known batches."
    return ""


def _shared_sample(ledger: DpEvent) -> str:
    rates = [e.sampling_probability for e, _ in parts(ledger) if isinstance(e, dp.PoissonSampledDpEvent)]
    twice = sorted({r for r in rates if rates.count(r) > 1})
    if twice:
        return (
            f"Different parts are amplified separately at the same rate {twice[0]:g}. This needs a sample for each. "
            "For one shared sample, compose first and amplify once."
        )
    return ""


def _odd_number(ledger: DpEvent) -> str:
    noisy = (leaf.noise_multiplier for leaf in leaves(ledger) if isinstance(leaf, dp.GaussianDpEvent | dp.LaplaceDpEvent))
    odd = next((n for n in noisy if type(n) is not float), None)
    if odd is None:
        return ""
    why = "is no Python float; dp_accounting may misread it in a mechanism that runs on a sample"
    return f"Noise multiplier {odd!r} {why}. It is read as {float(odd)}."
