"""What a run tested and what it did not, by the layers of NIST SP 800-226, "Evaluating Differential Privacy Guarantees"."""

import math
import re
from collections.abc import Sequence
from typing import NamedTuple

from ..accounting.checks.conditions import OWN_COIN
from ..accounting.claim import Unit
from ..accounting.upper.accountants import NO_LEDGER
from .evidence import WORDS
from .files import number
from .results import AccountRow, BoundRow, Results
from .summary import UNITS, Line, name

# Names of audits. OF_MECHANISMS read whole releases of a mechanism, SAMPLED tests secret batches, RECORDED records a training
# and repeats it. WHOLE reads all that a model releases, without knowing its mechanisms. SEEDS is the attack of RECORDED that
# compares releases of several seeds and records nothing.
OF_MECHANISMS = ("replay", "residual", "game", "transcript", "votes", "reports", "entries", "rows", "gradients", "exact")
SAMPLED, RECORDED, WHOLE = "gradients", "differential", "distinguisher"
SEEDS = "seeds"


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
            f"{_decided(decided, claims)} Each claim states ε, δ and the unit that it protects.",
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
        Layer("Data collection and access", "not looked at", "Who collects, stores and reads the graph.", "reproduce"),
    ]


def _decided(decided: Sequence[Line], claims: Sequence[Line]) -> str:
    """How many verdicts are not inconclusive, as a sentence."""
    if len(claims) == 1:
        return f"The verdict is “{WORDS[claims[0].verdict.kind]}”."
    if not decided:
        return "Every verdict is inconclusive."
    if len(decided) == len(claims):
        return "No verdict is inconclusive."
    return f"{len(claims) - len(decided)} of {len(claims)} verdicts are inconclusive."


def _neighbours(claims: Sequence[Line]) -> Layer:
    present = dict.fromkeys(line.key.unit for line in claims)
    removed = " or ".join(UNITS[unit] for unit in present if unit is not Unit.FEATURES)
    words = [f"Two neighbouring graphs differ in {removed}, which is added or removed."] * bool(removed)
    if Unit.FEATURES in present:
        start = "For a claim on features, they" if removed else "Two neighbouring graphs"
        words.append(f"{start} differ in {UNITS[Unit.FEATURES]}, which are replaced.")
    proved = [line for line in claims if any(b.value > 0 for b in line.bounds)]
    words.append(f"Audits that compared such graphs proved a lower bound above 0 for {_of(proved, claims)}.")
    return Layer("Neighbouring relation", _status(proved, claims, "assumed"), " ".join(words), "verdicts")


def _mechanisms(claims: Sequence[Line]) -> Layer:
    audits = (*OF_MECHANISMS, RECORDED)
    tested = _by(claims, audits)
    words = "No audit of mechanisms gave a bound."
    if tested:
        words = f"Audits of mechanisms gave a bound for {_of(tested, claims)}: {_named(tested, audits)}."
    return Layer("Mechanisms and sensitivity", _status(tested, claims, _otherwise(claims)), words, "evidence")


def _composition(found: Results, claims: Sequence[Line]) -> Layer:
    rows = [r for r in found.of(AccountRow) if r.value is not None and r.is_upper_bound and math.isfinite(r.value)]
    accountants = ", ".join(dict.fromkeys(r.accountant for r in rows if r.computed))
    audits = (*OF_MECHANISMS, WHOLE)
    whole, added = _by(claims, audits), _recorded(found, [line for line in claims if line.own])
    added = [line for line in added if any(math.isfinite(b.value) for b in _bounds(line, (RECORDED,)))]
    status = _status([line for line in claims if line in whole or line in added], claims, "argued" if accountants else "assumed")
    if status == "tested" and not accountants:  # the bounds are of the whole release, but no sum of its parts is known
        status = "partly tested"
    composed = f"Accountants that composed a ledger: {accountants}" if accountants else "No accountant gives an upper bound"
    tested = "No audit that tests the composition gave a bound."
    if whole:
        named = f"{_of(whole, claims)}: {_named(whole, audits)}"
        tested = f"Audits of whole releases, which contain all mechanisms, gave a bound for {named}."
    if added:
        tested = f"{tested} " * bool(whole) + f"The audit {RECORDED} composed the recorded mechanisms of {_of(added, claims)}."
    return Layer("Composition", status, f"{composed}. {tested}", "accountants")


def _sampling(claims: Sequence[Line]) -> Layer:
    sampled = dict.fromkeys(name(line.key.model, line.key.mode) for line in (*_by(claims, (SAMPLED,)), *_of_coins(claims)))
    words = "No audit tested a secret sample."
    if sampled:
        words = f"An audit tested the secret samples of {', '.join(sampled)}. No test supports the sampling of other models."
    elif _otherwise(claims) == "argued":
        words += " If a ledger relies on secret samples, no test supports these samples."
    return Layer("Sampling", "partly tested" if sampled else _otherwise(claims), words, "evidence")


def _randomness(found: Results, claims: Sequence[Line]) -> Layer:
    recorded, noisy = _recorded(found, claims), _noisy(found)
    heard = [line for line in claims if line.own and line.key in noisy and line not in recorded]
    words = f"{_seeded(found, claims)} "
    if recorded or not heard:
        recordings = f"For {_of(recorded, claims)}, an audit recorded" if recorded else "No audit recorded"
        words += f"{recordings} the source, size and freshness of the noise. "
    if heard:
        words += f"For {_of(heard, claims)}, the audit {RECORDED} recorded noise, but gave no bound that counts. "
    words += "Attacks on the last bits of floating-point noise (Mironov 2012) are not tried."
    return Layer("Randomness and floating point", "partly tested" if recorded else "assumed", words, "reproduce")


def _recorded(found: Results, claims: Sequence[Line]) -> list[Line]:
    """The claims that RECORDED tested. For a user's own model it must have recorded a mechanism."""
    noisy = _noisy(found)
    return [line for line in _by(claims, (RECORDED,)) if not line.own or line.key in noisy]


def _noisy(found: Results) -> set[tuple[str, str, str, float]]:
    """The keys of the claims with a user's own model of which RECORDED recorded a mechanism."""
    return {(o["unit"], o["model"], o["mode"], number(o["epsilon"])) for o in found.run.observed if o["mechanisms"]}


def _seeded(found: Results, claims: Sequence[Line]) -> str:
    """What the seeds of trainings were made from. The tool draws the noise of built-in systems only."""
    root = found.run.seed.partition(". ")[0]
    if not root:
        return "No record says how the noise was seeded."
    words = [f"Noise of this package's systems was {root}."] * any(not line.own for line in claims)
    if own := [line for line in claims if line.own]:
        source = re.split("[:,]", root.removeprefix("seeded by "))[0]
        words.append(f"Each training of a user's own model or program got a seed that was made from {source}.")
        judged = [line for line in own if any(_telling(b) for b in line.bounds if b.audit == RECORDED)]
        tests = f"{'tests' if judged else 'would test'} whether other seeds give other noise"
        words.append(f"The audit {RECORDED} {tests}; it gave a bound for {_of(judged, own)}.")
    return " ".join(words)


def _trust(claims: Sequence[Line]) -> Layer:
    bounds = [b for line in claims for b in line.bounds]
    seen = ", ".join(dict.fromkeys(array for b in bounds for array in b.exposes))
    granted = dict.fromkeys(b.granted for b in bounds if b.granted and b.withdrawn is None)
    words = f"The adversary sees {seen}. " if seen else "No audit read a released array. "
    words += "".join(f"Some bounds hold {more}. " for more in granted)
    words += "The author of the code may make mistakes, but does not deceive the audit."
    return Layer("Trust model", "assumed", words, "evidence")


def _by(claims: Sequence[Line], audits: Sequence[str]) -> list[Line]:
    """The claims that a bound from one of these audits could have contradicted."""
    return [line for line in claims if _bounds(line, audits)]


def _bounds(line: Line, audits: Sequence[str]) -> list[BoundRow]:
    """The bounds from these audits that could have contradicted the claim, without those that compare seeds alone."""
    return [b for b in line.bounds if b.audit in audits and b.attack != SEEDS and _telling(b)]


def _telling(bound: BoundRow) -> bool:
    """Whether a bound could have contradicted its claim: no condition failed, and it is above 0, refutes, or would have noticed a
    violation.
    """
    if bound.withdrawn is not None or any(c["how"] == "failed" for c in bound.conditions):
        return False
    noticing = bound.reach is not None and math.isfinite(bound.reach)
    return bound.value > 0 or bound.verdict == "refuted" or noticing


def _of_coins(claims: Sequence[Line]) -> list[Line]:
    """The claims with a bound from a run in which coins for samples were found, and tested."""
    tested = {"what": OWN_COIN, "how": "checked"}.items()
    return [line for line in claims if any(tested <= c.items() for b in line.bounds for c in b.conditions)]


def _status(some: Sequence[Line], claims: Sequence[Line], otherwise: str) -> str:
    return otherwise if not some else "tested" if len(some) == len(claims) else "partly tested"


def _otherwise(claims: Sequence[Line]) -> str:
    """The status of a layer of the ledger that no audit tested: nothing supports it if no claim has a ledger."""
    computed = [a for line in claims for a in line.accounts if a.computed]
    return "argued" if any(a.unsupported != NO_LEDGER for a in computed) else "assumed"


def _named(claims: Sequence[Line], audits: Sequence[str]) -> str:
    """Those of the audits with a bound that could have contradicted one of these claims."""
    return ", ".join(dict.fromkeys(b.audit for line in claims for b in _bounds(line, audits)))


def _of(some: Sequence[Line], claims: Sequence[Line]) -> str:
    """For example "2 of 12 claims", "all 12 claims", "both claims", "no claim" or, if there is only one, "the claim"."""
    if not some:
        return "no claim"
    if len(some) < len(claims):
        return f"{len(some)} of {len(claims)} claims"
    return {1: "the claim", 2: "both claims"}.get(len(claims), f"all {len(claims)} claims")
