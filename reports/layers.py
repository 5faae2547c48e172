"""What a run tested and what it did not, by the layers of NIST SP 800-226, "Evaluating Differential Privacy Guarantees"."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from ..accounting.checks.conditions import OWN_COIN
from ..accounting.claim import Unit
from .results import AccountRow, Results
from .summary import UNITS, Line, name

# Names of audits. OF_MECHANISMS read whole releases of a mechanism, SAMPLED tests secret batches, RECORDED records a training
# and repeats it. WHOLE reads all that a model releases, without knowing its mechanisms.
OF_MECHANISMS = ("replay", "residual", "game", "transcript", "votes", "reports", "entries", "rows", "gradients", "exact")
SAMPLED, RECORDED, WHOLE = "gradients", "differential", "distinguisher"


class Layer(NamedTuple):
    """One layer. status: tested, partly tested, argued (only statements of the model or its paper support it), assumed, or not
    looked at. words: what was tested, in sentences. link: a section of the report, "" for none.
    """

    name: str
    status: str
    words: str
    link: str = ""


def layers(found: Results, claims: Sequence[Line]) -> list[Layer]:
    """The layers of a run with their status, from the formal guarantee down to the collection of data."""
    decided = [line for line in claims if line.verdict.exit_code in (0, 1)]
    return [
        Layer(
            "ε, δ and the unit",
            _status(decided, claims, "argued"),
            f"{_count(decided, claims)} a verdict other than inconclusive. Each claim states ε, δ and the unit that it protects.",
            "verdicts",
        ),
        _neighbours(claims),
        _mechanisms(claims),
        _composition(found, claims),
        _sampling(claims),
        _randomness(found, claims),
        _trust(claims),
        Layer(
            "Side channels",
            "not looked at",
            "How long a training takes, and what it writes to memory, logs or errors.",
            "reproduce",
        ),
        Layer(
            "Data collection and access",
            "not looked at",
            "Who collects, stores and reads the graph, whose digest is under Reproduce.",
            "reproduce",
        ),
    ]


def _neighbours(claims: Sequence[Line]) -> Layer:
    whom = ", or ".join(UNITS[unit] for unit in dict.fromkeys(line.key.unit for line in claims)) or "nothing"
    local = [line.key.unit is Unit.FEATURES for line in claims]
    changes = ["Edges and nodes are added or removed."] * (not all(local))
    changes += ["A user's features and label are replaced."] * any(local)
    proved = [line for line in claims if any(b.value > 0 for b in line.bounds)]
    words = f"Two neighbouring graphs differ in {whom}. {' '.join(changes)} {_count(proved, claims)} a lower bound above 0."
    return Layer("Neighbouring relation", _status(proved, claims, "assumed"), words, "verdicts")


def _mechanisms(claims: Sequence[Line]) -> Layer:
    tested = _by(claims, (*OF_MECHANISMS, RECORDED))
    bounds = (b for line in tested for b in line.bounds if b.audit in (*OF_MECHANISMS, RECORDED) and b.withdrawn is None)
    audits = ", ".join(dict.fromkeys(b.audit for b in bounds)) or "an audit of mechanisms"
    words = f"{_count(tested, claims)} a bound from {audits}."
    return Layer("Mechanisms and sensitivity", _status(tested, claims, "argued"), words, "evidence")


def _composition(found: Results, claims: Sequence[Line]) -> Layer:
    rows = [r for r in found.of(AccountRow) if r.value is not None and r.is_upper_bound and math.isfinite(r.value)]
    accountants = ", ".join(dict.fromkeys(r.accountant for r in rows if r.accountant != "published"))
    whole = _by(claims, (*OF_MECHANISMS, WHOLE))
    status = _status(whole, claims, "argued" if accountants else "assumed")
    if status == "tested" and not accountants:  # the bounds are of the whole release, but no sum of its parts is known
        status = "partly tested"
    composed = f"Ledgers are composed by {accountants}" if accountants else "No accountant gives an upper bound"
    words = f"{composed}. {_count(whole, claims)} a bound from whole releases, which contain all mechanisms."
    return Layer("Composition", status, words, "accountants")


def _sampling(claims: Sequence[Line]) -> Layer:
    sampled = dict.fromkeys(name(line.key.model, line.key.mode) for line in _by(claims, (SAMPLED,)) + _of_coins(claims))
    words = "No audit tested a secret sample. If a ledger relies on secret samples, no test supports it."
    if sampled:
        words = f"An audit tested the secret samples of {', '.join(sampled)}. No test supports the sampling of other models."
    return Layer("Sampling", "partly tested" if sampled else "argued", words, "evidence")


def _randomness(found: Results, claims: Sequence[Line]) -> Layer:
    recorded = _by(claims, (RECORDED,))
    noise = f"Noise was {found.run.seed}" if found.run.seed else "No record says how the noise was seeded."
    recordings = f"For {len(recorded)} of {len(claims)} claims, an audit recorded" if recorded else "No audit recorded"
    words = f"{noise} {recordings} the source, size and freshness of the noise. "
    words += "Attacks on the last bits of floating-point noise (Mironov 2012) are not tried."
    return Layer("Randomness and floating point", "partly tested" if recorded else "assumed", words, "reproduce")


def _trust(claims: Sequence[Line]) -> Layer:
    bounds = [b for line in claims for b in line.bounds]
    seen = ", ".join(dict.fromkeys(array for b in bounds for array in b.exposes))
    granted = dict.fromkeys(b.granted for b in bounds if b.granted and b.withdrawn is None)
    words = f"The adversary sees {seen}. " if seen else "No audit read a released array. "
    words += "".join(f"Some bounds hold {more}. " for more in granted)
    words += "The author of the code may make mistakes, but does not deceive the audit."
    return Layer("Trust model", "assumed", words, "evidence")


def _by(claims: Sequence[Line], audits: Sequence[str]) -> list[Line]:
    """The claims with a bound from one of these audits that was not withdrawn."""
    return [line for line in claims if any(b.audit in audits and b.withdrawn is None for b in line.bounds)]


def _of_coins(claims: Sequence[Line]) -> list[Line]:
    """The claims with a bound from a run in which coins for samples were found, and tested."""
    tested = {"what": OWN_COIN, "how": "checked"}.items()
    return [line for line in claims if any(tested <= c.items() for b in line.bounds for c in b.conditions)]


def _status(some: Sequence[Line], claims: Sequence[Line], otherwise: str) -> str:
    return otherwise if not some else "tested" if len(some) == len(claims) else "partly tested"


def _count(some: Sequence[Line], claims: Sequence[Line]) -> str:
    """For example "2 of 12 claims have"."""
    return f"{len(some)} of {len(claims)} claims {'has' if len(some) == 1 else 'have'}"
