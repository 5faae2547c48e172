"""`audit bound`: a lower bound on epsilon from a file of scores and bits. Needs no graph, no model and no torch."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Option

from ...accounting.arguments import check_alpha
from ...accounting.claim import Claim
from ...reports.files import plain
from ...reports.rounding import several
from ..own.score_file import check, read
from ..planning.limits import MOST_FACTOR, MOST_SEED
from .options import Json, nats, print_json

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ...accounting.checks.conditions import Condition
    from ...accounting.lower.bounds import Bound

COUNTED = 1_000_000  # in a file with more rows, distinct scores are not counted
COUNTED_COINS = "Steinke et al. 2023"  # the method for which `limits` computes the largest provable bound
ANYTIME = "betting e-process"  # the method of --anytime --threshold
UPWARDS = (COUNTED_COINS, "Mahloujifar et al. 2024", "Gaussian likelihood ratio")  # methods that take high scores for world 1
HOW = {"granted": "You state"}  # how a condition is supported -> the word that stands before it
STATED = re.compile(r"^stated by whoever [^,;:]*(, because |[;:] |$)(nothing else differed(; |$))?")  # what HOW says already
USUALS = (1.0, 2.0, 4.0, 8.0)  # nats: the true epsilons for which the limit is printed if no claim is given
# nats: `_one_run` makes as many guesses as are best at this epsilon, whatever the claim; other numbers give similar bounds
USUAL = 2.0
TURNED = 4.0  # equal distributions look turned in 3 of 100,000 files


def bound(
    scores: Annotated[
        Path,
        typer.Argument(help="CSV (also .gz) with the columns score and bit, and a column run if one run has several canaries."),
    ],
    epsilon: Annotated[
        float,
        Option(
            parser=nats,
            metavar="<float>",
            help="The claimed epsilon, in nats. Without it, the bound is printed and no claim is tested.",
        ),
    ] = math.inf,
    delta: Annotated[float, Option(help="The claimed delta. Epsilon is bounded at this delta.")] = 0.0,
    alpha: Annotated[float, Option(help="Largest probability of a false alarm.")] = 0.05,
    shape: Annotated[
        str, Option(help="any: the bound holds for every mechanism. gaussian: it tests the Gaussian curve of the claim.")
    ] = "any",
    likelihood_ratio: Annotated[
        bool,
        Option(
            "--likelihood-ratio",
            help="With --shape gaussian: the scores are log-likelihood ratios, normal with one sd in both worlds.",
        ),
    ] = False,
    threshold: Annotated[
        float | None,
        Option(
            help="Guess 1 above this score. It must be fixed before the scores are seen. "
            "The verdict on a claim is then refuted or inconclusive."
        ),
    ] = None,
    pilot: Annotated[Path | None, Option(help="Another file of the same format, used to choose the threshold only.")] = None,
    anytime: Annotated[
        bool, Option("--anytime", help="The rows are in the order of the rounds. The bound holds at every stopping time.")
    ] = False,
    sd: Annotated[
        float | None, Option(help="With --anytime and --shape gaussian: the sd of the scores in each world, known beforehand.")
    ] = None,
    seed: Annotated[
        int, Option(min=0, max=MOST_SEED, help="Seeds the random split that chooses the threshold, and the breaking of ties.")
    ] = 0,
    notices: Annotated[
        float | None,
        Option(help="Exit with 3 unless the test could detect noise that is this many times too small, such as 1.5."),
    ] = None,
    json: Json = False,
) -> None:
    """Compute a lower bound on epsilon from your own scores and bits.

    Rows must be independent rounds, and each round must draw its own noise. The command tests whether rows depend on one another,
    in the order of the file. You state that the rounds do not all share their noise, because no score shows this. The verdict
    repeats what you state.

    The rounds of the two worlds must differ in the secret alone. If the order of the worlds in the file looks random, this counts
    as checked. Otherwise you state it: if one world was played later, or by another machine, the difference looks like a leak.

    With a column `run`, rows with the same value are canaries of one run, which may depend on one another in any way. You state
    that the bits are fair coins, and that each of several runs drew its own noise.

    With --delta above 0, the command also treats independent rounds as guesses of fair coins. If their bits do not look like fair
    coins, it draws coins itself, and selects for each coin a random round with this bit. If the bound comes from these guesses,
    the command also prints a limit. With so many coins, no rule that is valid for every mechanism proves more than this limit in
    over half of all audits of a Gaussian mechanism.

    --shape gaussian refutes the curve of a Gaussian mechanism. It refutes the claim itself only if the error rates contradict the
    claim for every mechanism. The command refuses scores with few values or a hard limit, which no Gaussian mechanism gives.

    Exit codes: 0 the claim is not refuted, or none was given; 1 the claim or its Gaussian curve is refuted; 2 wrong use; 3 the
    test depends on an unchecked assumption, could detect no violation at all, or is weaker than --notices asks for.

    Example: audit bound scores.csv --epsilon 1 --delta 1e-5
    """
    started, claim = time.perf_counter(), Claim(epsilon, delta)
    refuse_values(claim, shape, alpha, notices, threshold, sd)
    columns = read(scores)
    check(scores, columns)
    one_run = "run" in columns and len(set(columns["run"].tolist())) < len(columns["run"])
    given = {"likelihood-ratio": likelihood_ratio, "sd": sd is not None, "pilot": pilot is not None}
    refuse_unused(shape, anytime, one_run, given | {"threshold": threshold is not None})
    if anytime and one_run:
        raise ValueError(
            "--anytime needs independent rounds, but several rows share a run. If they are independent, leave the column run out."
        )
    if shape == "gaussian":
        refuse_discrete(columns)
    if anytime:
        found = _anytime(columns, claim, shape, alpha, threshold, sd)
    elif one_run:
        found = _one_run(columns, claim, shape, alpha, seed)
    else:
        found = _rounds(columns, claim, shape, alpha, likelihood_ratio, threshold, pilot, seed)
    verdict = _verdict(found, claim, notices)
    if json:
        row = {**_row(scores, found, claim), "verdict": verdict, "seconds": round(time.perf_counter() - started, 3)}
        print_json({"schema": 1, "rows": [plain(row)]})
    else:
        print("\n".join(_sentences(scores, columns, one_run, claim, found, verdict, notices)))
    raise typer.Exit({"refuted": 1, "exceeds": 1, "not-refuted": 0, "inconclusive": 3}[verdict])


def refuse_values(
    claim: Claim, shape: str, alpha: float, notices: float | None, threshold: float | None, sd: float | None
) -> None:
    """Raises ValueError for a value of an option that is out of its range."""
    if shape not in ("any", "gaussian"):
        raise ValueError(f"shape={shape!r}: must be any or gaussian.")
    if notices is not None and not 1 < notices <= MOST_FACTOR:
        raise ValueError(
            f"notices={notices:g}: must be above 1, at most {MOST_FACTOR}. "
            "With 1.5 the test must detect noise that is 1.5 times too small."
        )
    if notices is not None and math.isinf(claim.epsilon):
        raise ValueError(f"--notices {notices:g}: has no effect without a claim to test. Give --epsilon, or leave it out.")
    check_alpha(alpha)
    for name, value in (("threshold", threshold), ("sd", sd)):
        if value is not None and not math.isfinite(value):
            raise ValueError(f"{name}={value}: must be a finite number.")
    if sd is not None and sd <= 0:
        raise ValueError(f"sd={sd:g}: must be above 0.")


def _verdict(found: Bound, claim: Claim, notices: float | None) -> str:
    """The verdict of a bound. It is inconclusive if the test could not detect the violation `notices`, or any."""
    if found.refuted and not found.assumed:
        return "refuted" if found.against == "claim" else "exceeds"
    blind = math.isfinite(claim.epsilon) and math.isinf(found.notices)  # too few rounds to detect any violation
    weak = blind or (notices is not None and not found.notices <= notices) or found.withdrawn is not None
    unchecked = bool(found.assumed) and math.isfinite(claim.epsilon)  # without a claim, the assumption stands beside the bound
    return "inconclusive" if weak or unchecked else "not-refuted"


def _row(scores: Path, found: Bound, claim: Claim) -> dict[str, Any]:
    """The bound as a row of the JSON output, without the verdict and the seconds."""
    return {
        **found.row(),
        "kind": "bound",
        "audit": "bound",
        "attack": scores.name,
        "epsilon": claim.epsilon,
        "delta": claim.delta,
        "trials": list(found.trials),
        "p_value": found.p_value,
        "limits": {f"{true:g}": most for true, most in limits(found, claim).items()},
    }


def refuse_unused(shape: str, anytime: bool, one_run: bool, given: dict[str, bool]) -> None:
    """Raises ValueError for an option in `given` that the method does not use. one_run: whether several rows share a run."""
    uses = {
        "likelihood-ratio": shape == "gaussian" and not anytime and not one_run,
        "sd": shape == "gaussian" and anytime,
        "pilot": not anytime and not one_run and not given["threshold"] and not given["likelihood-ratio"],
        "threshold": not given["likelihood-ratio"] and (shape == "any" if anytime else not one_run),
    }
    why = {
        "likelihood-ratio": "it goes with --shape gaussian and independent rounds, and without --anytime",
        "sd": "it goes with --anytime --shape gaussian",
        "pilot": "it chooses a threshold for independent rounds, and so excludes --threshold, --anytime and --likelihood-ratio",
        "threshold": "it goes with independent rounds, without --likelihood-ratio, and with --anytime only for --shape any",
    }
    for name, wanted in given.items():
        if wanted and not uses[name]:
            shared = " Rows of this file share a run." if one_run else ""
            raise ValueError(f"--{name}: has no effect here: {why[name]}.{shared} Leave it out, or change the other options.")


def refuse_discrete(columns: dict[str, NDArray[Any]]) -> None:
    """Raises ValueError if the scores have few values or a hard limit, which no Gaussian mechanism gives."""
    from ...accounting.checks.score_law import not_continuous

    score, bit = columns["score"], columns["bit"]
    if reason := not_continuous(score[~bit], score[bit]):
        raise ValueError(
            f"shape='gaussian': {reason}. Gaussian noise has a continuous distribution without limits, so such scores do not "
            "test its curve. Use --shape any, or give the scores as they were before they were rounded or cut."
        )


def _rounds(
    columns: dict[str, NDArray[Any]],
    claim: Claim,
    shape: str,
    alpha: float,
    likelihood_ratio: bool,
    threshold: float | None,
    pilot: Path | None,
    seed: int,
) -> Bound:
    from ...accounting.lower.detection.error_rates import Rule
    from ...accounting.lower.of_scores import lower

    options: dict[str, Any] = {}
    if shape == "gaussian":
        options |= {"shape": "ledger", "ledger_curve": _gaussian(claim), "likelihood_ratio": likelihood_ratio}
    if pilot is not None:
        other = read(pilot)
        check(pilot, other)
        if columns["score"].shape == other["score"].shape and bool((columns["score"] == other["score"]).all()):
            raise ValueError(
                f"pilot={pilot}: holds the tested scores. A threshold chosen on them is not fixed beforehand; use other scores."
            )
        options["pilot"] = other["score"], other["bit"]
    if threshold is not None:
        options["rule"] = Rule(threshold, 1)
    return lower(columns["score"], columns["bit"], claim, alpha=alpha, seed=seed, **options)


def _anytime(
    columns: dict[str, NDArray[Any]], claim: Claim, shape: str, alpha: float, threshold: float | None, sd: float | None
) -> Bound:
    from ...accounting.checks.order_of_worlds import in_turns
    from ...accounting.checks.score_law import in_order
    from ...accounting.lower import anytime as sequential
    from ...accounting.lower.bounds import resting
    from ...accounting.lower.detection.error_rates import Rule

    scores, bits = columns["score"], columns["bit"]
    rounds = in_order(scores, bits)
    if shape == "gaussian":
        if sd is None:
            raise ValueError("--anytime with --shape gaussian needs --sd, the sd of the scores, known beforehand.")
        found = sequential.anytime(scores, bits, claim, _gaussian(claim), alpha, sd=sd, rounds=rounds)
    elif threshold is None:
        raise ValueError("--anytime needs --threshold: a threshold chosen during the rounds is not fixed beforehand.")
    else:
        found = sequential.any_shape(scores, bits, claim, Rule(threshold, 1), alpha, rounds=rounds)
    return resting(found, found.theorem, in_turns(bits))


def _one_run(columns: dict[str, NDArray[Any]], claim: Claim, shape: str, alpha: float, seed: int) -> Bound:
    from ...accounting.checks.independence import separate_runs
    from ...accounting.checks.order_of_worlds import stated
    from ...accounting.lower.bounds import resting
    from ...accounting.lower.coins_of_rounds import fair
    from ...accounting.lower.one_run import best_guesses, mahloujifar, steinke

    bit = columns["bit"]
    coins = fair(bit)
    if coins.how == "failed":
        raise ValueError(
            f"{int(bit.sum())} of {len(bit)} bits are 1: with many canaries in a run each bit must be an independent fair coin "
            f"({coins.detail}). Leave the column run out if the rows are independent rounds."
        )
    if shape == "gaussian":
        guesses = best_guesses(Claim(USUAL, claim.delta), len(bit), alpha)
        named: dict[str, Any] = {"guesses": guesses, "coins": coins, "seed": seed}
        found = mahloujifar(columns["score"], bit, claim, _gaussian(claim), alpha, **named)
    else:
        found = steinke(columns["score"], bit, claim, alpha, coins=coins, seed=seed)
    runs = separate_runs(columns["score"], bit, columns["run"])
    return resting(found, found.theorem, *([runs] if runs is not None else []), stated("the order of canaries does not show it"))


def _gaussian(claim: Claim) -> Any:
    """The Gaussian trade-off curve of the claim (mu = 1 without a claim), as an object whose only attribute is mu. A full curve
    would load the accountants.

    Raises ValueError for delta = 0, at which no Gaussian mechanism has a finite epsilon (Dong, Roth & Su 2022, Cor. 2.13).
    """
    from types import SimpleNamespace

    from ...accounting.gaussian import mu_of_claim

    if claim.delta == 0:
        raise ValueError("delta=0: no Gaussian mechanism has a finite epsilon at delta 0. Give --delta, or use --shape any.")
    return SimpleNamespace(mu=1.0 if math.isinf(claim.epsilon) else mu_of_claim(claim))


def _sentences(
    path: Path,
    columns: dict[str, NDArray[Any]],
    one_run: bool,
    claim: Claim,
    found: Bound,
    verdict: str,
    notices: float | None,
) -> list[str]:
    import numpy as np

    from ...accounting.lower.detection.error_rates import BEFOREHAND

    ones = int(np.count_nonzero(columns["bit"]))
    lines = [f"{path.name}: {several(len(columns['bit']) - ones, 'score')} of world 0, {ones} of world 1."]
    if len(columns["score"]) <= COUNTED and (distinct := len(np.unique(columns["score"]))) < len(columns["score"]):
        lines.append(f"Only {distinct} scores are distinct; ties are broken at random.")
    if found.method in UPWARDS and (auc := _turned(columns["score"], columns["bit"])) is not None:
        lines.append(
            f"Scores of world 1 are lower than those of world 0 (AUC {auc:.2f}), but the method takes high scores for world 1. "
            "If a low score of this attack speaks for world 1, play new rounds and negate their scores."
        )
    lines += _bound_in_words(found, claim, len(columns["bit"]))
    lines += conditions_in_words(found.conditions) + limit_in_words(found, claim)
    if math.isinf(claim.epsilon):
        return [*lines, "No claim was given, so none was tested."]
    claimed = f"epsilon={claim.epsilon:g}, delta={claim.delta:g}"
    p = f"p = {found.p_value:.2g}, level {found.alpha:.2g}" if found.p_value is not None else "exact"
    if found.refuted and found.assumed:
        assumed = f"{' and '.join(found.assumed)}; the command cannot check this assumption"
        return [*lines, f"The claim of {claimed} would be refuted ({p}) if {assumed}."]
    stated = f", {', and '.join(found.granted)}" if found.granted else ""  # each begins with "if"
    if found.refuted and found.against == "claim":
        return [*lines, f"The claim of {claimed} is REFUTED ({p}){stated}."]
    if found.refuted:
        return [
            *lines,
            f"The Gaussian curve of {claimed} is REFUTED ({p}){stated}: these scores do not come from a Gaussian mechanism that "
            "keeps the claim.",
            "This test alone does not refute the claim itself, because a mechanism with another curve may keep it. Use "
            "--shape any, which tests the claim for every mechanism.",
        ]
    told = 2 * claim.delta * len(columns["bit"])  # canaries of one run whose bits delta may tell, on average
    seen = _detectable(found, claim, notices, one_run and told > 1)
    if any(condition.detail == BEFOREHAND for condition in found.conditions):
        seen = "the smallest detectable violation is unknown for a threshold that was given beforehand"
        if found.method != ANYTIME:
            seen += ": give --pilot instead, or leave --threshold out"
    if found.assumed:
        seen = f"no violation could be detected, because the command cannot check that {' and '.join(found.assumed)}"
    if found.withdrawn is not None:
        seen = "the bound was withdrawn, so no violation could be detected"
    what = "The claim" if found.shape == "any" else "The Gaussian curve"
    return [*lines, f"{what} of {claimed} is {verdict.replace('-', ' ')} ({p}); {seen}."]


def _detectable(found: Bound, claim: Claim, notices: float | None, crowded: bool) -> str:
    """Which violations the best attack would have detected; also the violation that `notices` asks for, if it is smaller.
    crowded: whether one run has so many canaries that delta may tell several of their bits.
    """
    if math.isinf(found.reach):
        more = "fewer canaries in one run may prove more at this delta" if crowded else "play more rounds"
        return f"no violation could be detected with 90 % power: {more}"
    on = (" on randomised response" if claim.delta == 0 else " on a Gaussian mechanism") if found.shape == "any" else ""
    text = f"the best attack{on} would have detected a true epsilon above {found.reach:.2f} with 90 % power"
    if notices is None or found.notices <= notices:
        return text
    return f"{text}; that is noise {found.notices:.3g} times too small, and --notices asks for {notices:g}"


def conditions_in_words(conditions: Sequence[Condition]) -> list[str]:
    """The conditions of a bound, each with its evidence below it, one sentence a line."""
    lines = [f"The bound rests on {several(len(conditions), 'condition')}:"]
    for condition in conditions:
        evidence = STATED.sub("", condition.detail).split("; ") if condition.detail else []
        lines.append(f"  {HOW.get(condition.how, condition.how.capitalize())}: {condition.what.removeprefix('if ')}.")
        lines += [f"    {sentence[0].upper()}{sentence[1:]}." for sentence in evidence if sentence]
    return lines if conditions else []


def limits(found: Bound, claim: Claim) -> dict[float, float]:
    """The epsilon (nats) of a Gaussian mechanism -> a bound that no rule exceeds in more than half of all audits with this number
    of coins, if the rule is valid for every mechanism.

    Empty for other methods than COUNTED_COINS, and for delta = 0.
    """
    from ...accounting.lower.guessing import most_provable

    if found.method != COUNTED_COINS or claim.delta == 0:
        return {}
    true = USUALS if math.isinf(claim.epsilon) else (claim.epsilon,)
    return {epsilon: most_provable(epsilon, claim.delta, sum(found.trials), found.alpha) for epsilon in true}


def _turned(scores: NDArray[Any], bits: NDArray[Any]) -> float | None:
    """The share of pairs in which the score of world 1 is the higher one, if this share is below 1/2 by more than TURNED standard
    errors that it has for equal distributions; else None.
    """
    import numpy as np

    zeros, ones = np.sort(scores[bits == 0]), scores[bits == 1]
    auc = float((np.searchsorted(zeros, ones) + np.searchsorted(zeros, ones, side="right")).mean() / (2 * len(zeros)))
    error = math.sqrt((len(zeros) + len(ones) + 1) / (12 * len(zeros) * len(ones)))
    return auc if auc < 0.5 - TURNED * error else None


def limit_in_words(found: Bound, claim: Claim) -> list[str]:
    """A line that states the result of `limits`; an empty list if that is empty, or if the claim is refuted."""
    each = [f"{most:.2f} if its true epsilon is {epsilon:g}" for epsilon, most in limits(found, claim).items()]
    if not each or found.refuted:
        return []
    return [
        f"With {sum(found.trials)} coins, no rule that is valid for every mechanism proves more than this in over half of all "
        f"audits of a Gaussian mechanism: {', '.join(each)}. More rounds prove more, and so does --shape gaussian for Gaussian "
        "releases."
    ]


def _bound_in_words(found: Bound, claim: Claim, rows: int) -> list[str]:
    """The bound and its method in words. rows: the number of rows in the file, of which some may not count as rounds."""
    counted = sum(found.trials)
    others = "were not drawn by a coin" if found.method == COUNTED_COINS else "chose the threshold"
    rest = f" of {rows}; the other {rows - counted} {others}" if counted < rows else ""
    how = f"Method: {found.method}; {several(counted, 'round')} count{'s' * (counted == 1)}{rest}."
    if found.withdrawn is not None:
        return [f"The bound is {found}.", how]
    sure = f"{100 * (1 - found.alpha):.6g} %"
    unless = f", if {' and '.join(found.assumed)}" if found.assumed else ""
    if found.shape == "any":
        return [f"epsilon is at least {found.epsilon:.2f} ({sure}, any mechanism{unless}), at delta={claim.delta:g}. {how}"]
    return [
        f"If the mechanism is Gaussian, epsilon is at least {found.epsilon:.2f} ({sure}{unless}), at delta={claim.delta:g}. {how}"
    ]
