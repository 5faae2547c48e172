"""The audit `differential` for a user's program: computes a bound from the draws that were recorded in the program, and tests
whether another seed gives other noise.
"""

import dataclasses
import math

import numpy as np

from ...accounting.checks.conditions import Condition, proved
from ...accounting.lower.bounds import Bound
from ...accounting.lower.detection.error_rates import epsilon_of_rates, rate_at_most
from ...models.base import Release
from ...models.capabilities import RunsElsewhere
from ...models.errors import TrainingFailed
from ...models.graph.graph import Worlds
from ..case import EDGES, Case, Outcome, Setting, offered
from ..instruments.repetition import NO_NODE
from ..mechanisms.absence import history
from ..mechanisms.inside import Inside
from ..mechanisms.overview.recorded_runs import recorded
from ..own.premises import after_failures
from ..recorded.reuse import same_bits
from ..recorded.secrets.worlds import UNUSUAL_NODES, without_one
from ..recorded.study import from_before
from . import certain_paths, divided_noise, noise_in_one_world, sampled_steps, size_of_noise, two_steps, within_run
from .certain_paths import fixed_draws, hides_nothing, lines_of
from .released_noise import MOVES, NAME, exact, uncovered

SEEDS = 32  # trainings in each world that count how often a release occurs
THEOREM = "Clopper-Pearson bounds on how often each of the two graphs gives one answer (Kairouz, Oh and Viswanath 2015)"
FIXED = proved("the counted answer was fixed beforehand", "four earlier trainings gave this answer")
UNCOUNTED = proved("no epsilon is below 0", "no answer was counted, so nothing more is stated")
ON_ITS_GRAPH = Condition(UNUSUAL_NODES, "not examined", "a program is recorded on your graph alone")
NO_NOISE = "no recorded noise was found that is added to data"
SHARE = "every seed gives the same release"
INDEPENDENT = "the draws of a run are independent"


def without_moves(case: Case, within: Inside) -> Bound | None:
    """The first bound that refutes the claim by other means than how far a secret moves the clean values: by a path past the
    noise, or by the size of the noise. None if there is none.
    """
    rules = (
        certain_paths.from_path,
        noise_in_one_world.from_copies,
        size_of_noise.from_sizes,
        noise_in_one_world.from_silence,
        noise_in_one_world.from_unmatched,
        noise_in_one_world.from_still_entries,
        divided_noise.from_factors,
        two_steps.from_picks,
    )
    return next(filter(None, (rule(case, within) for rule in rules)), None)


def of_program(setting: Setting) -> Outcome:
    """Computes a bound from the draws that were recorded in the program's own Python.

    If this bound does not refute a claim about edges, the audit tests the seeds too. If the program is not recorded, the audit
    only tests the seeds.
    """
    case = setting.case
    assert isinstance(case.model, RunsElsewhere)
    if not case.model.record:
        return repeat_seeds(setting)
    within = recorded(setting).inside
    if isinstance(within, str):
        bound = without_noise(setting, within)
    else:
        bound = without_moves(case, within) or sampled_steps.from_mechanisms(case, within)
        if not bound.refuted and (text := same_bits(within.run.play.draws)):
            bound = within_run.without_reach(bound, Condition(INDEPENDENT, "failed", text))
        bound = dataclasses.replace(bound, conditions=(*bound.conditions, ON_ITS_GRAPH, *from_before(recorded(setting).study)))
    found = Outcome(NAME, (bound,), {}, bound.method, offered(case.model), covers=bound.covers)
    if bound.refuted or case.claim.unit not in EDGES:
        return found
    try:
        seeds = repeat_seeds(setting)
    except TrainingFailed as fault:
        return after_failures(found, [str(fault)])
    reach = f"{bound.method}; {seeds.reach}"
    return dataclasses.replace(seeds, bounds=(bound, *seeds.bounds), reach=reach, read=offered(case.model), covers=bound.covers)


def without_noise(setting: Setting, why: str) -> Bound:
    """The bound for a program of which no noise was recorded that is added to data: infinite if the release depends on no draw
    but those that are the same in each run, else 0. why: the reason why its mechanisms are not known; "" if it has none.
    """
    made, why = recorded(setting).study, why or NO_NOISE
    fixed = lines_of(made, fixed_draws(made)) if why == NO_NOISE else ()
    if fixed:
        secrets = without_one(made.whole, setting.case.claim.unit, setting.key.fold("fixed"), NO_NODE)
        if (found := certain_paths.from_fixed_draws(history(made, 0), secrets, setting.case.claim.delta)) is not None:
            return dataclasses.replace(found, conditions=(*found.conditions, ON_ITS_GRAPH))
        why = f"{why}; {hides_nothing(fixed)}: draw them from the seed of the run"
    return exact(0.0, why, MOVES, uncovered(made, (why,)))


def repeat_seeds(setting: Setting) -> Outcome:
    """Trains twice with one seed and once with each of two others. If all four releases are equal, looks for a secret whose
    removal changes the release, and counts how often fresh seeds give the first release with and without this secret.

    A program whose noise ignores its seed has one fixed release for each graph. The two counts then prove a bound that assumes no
    shape of the trade-off curve.
    """
    case, union = setting.case, setting.case.counted(setting.graph)
    own, other, third = (setting.key.fold("seed", i).seed for i in range(3))
    first = answers(case.model.fit(Worlds.of(union, np.array([own, own, other, third], dtype=np.uint64))))
    if first[0] != first[1]:
        return said(setting, "a second run with the same seed gives another release, so the seeds are not compared")
    if not first[0] == first[2] == first[3]:
        return said(
            setting,
            "the release repeats with the same seed and changes with another seed; this does not show what the noise covers",
        )
    for absent in without_one(Worlds.of(union, np.array([own], dtype=np.uint64)), case.claim.unit, setting.key, NO_NODE):
        if answers(case.model.fit(absent.worlds))[0] == first[0]:
            continue
        seeds = np.array([setting.key.fold("fresh", i).seed for i in range(2 * SEEDS)], dtype=np.uint64)
        there = answers(case.model.fit(Worlds.of(union, seeds[:SEEDS])))
        gone = answers(case.model.fit(dataclasses.replace(absent.worlds, seeds=seeds[SEEDS:])))
        missed, false = SEEDS - there.count(first[0]), gone.count(first[0])
        return said(setting, f"{SHARE}, and in a world that differs by {absent.secret} the release differs", (false, missed))
    return said(setting, f"{SHARE}, and removing a secret did not change it")


def answers(release: Release) -> list[bytes]:
    """The release of each run as bytes, so that releases can be compared and counted."""
    return [b"".join(release[name][run].tobytes() for name in sorted(release.arrays)) for run in range(release.runs)]


def said(setting: Setting, text: str, errors: tuple[int, int] | None = None) -> Outcome:
    """The outcome with one bound and the explanation `text`.

    errors: how many of SEEDS runs without the secret gave the first release, and how many of SEEDS runs with it did not. None:
    nothing was counted, so the bound is 0.
    """
    claim, epsilon = setting.case.claim, 0.0
    if errors is not None:
        false, missed = (float(rate_at_most(count, SEEDS, setting.alpha / 2)) for count in errors)
        epsilon = max(0.0, float(epsilon_of_rates(false, missed, claim.delta)))
    refuted = epsilon > claim.epsilon
    trials = (SEEDS, SEEDS) if errors is not None else (1, 1)
    bound = Bound(epsilon, setting.alpha, "any", text, trials, refuted, None, math.inf, math.inf, "seeds", NAME)
    conditions = (UNCOUNTED if errors is None else FIXED,)
    return Outcome(NAME, (dataclasses.replace(bound, theorem=THEOREM, conditions=conditions),), {}, text, ("posteriors",))
