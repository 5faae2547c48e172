"""Compares a recorded training with its ledger: number of mechanisms, samples, size of the noise, and effect of one secret."""

import dataclasses
import math
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import numpy as np
from dp_accounting import NonPrivateDpEvent, NoOpDpEvent
from numpy.typing import NDArray
from scipy.special import gammainc, gammaincinv

from ...accounting.checks.conditions import Condition, most_telling, proved
from ...accounting.claim import Unit
from ...accounting.events.counts import Charged, charged, coin_p_values, recounted, unsampled
from ...accounting.lower.bounds import Bound, resting
from ...accounting.upper.accountants import tightest, upper
from ...models.base import Model
from ...models.capabilities import BoundedDegree, RunsElsewhere, effort, has
from ...models.errors import raised
from ...models.graph.graph import Graph
from ...models.recorder.draws.lines import Line, in_words, lines_run
from ...reports.rounding import several
from ..case import EDGES, Case, Outcome, Setting, covering, keeping, offered
from ..instruments.reach import worth
from ..instruments.repetition import repeated, reports_of_others, world
from ..instruments.reported_run import Record
from ..instruments.reported_run import recorded as reported
from ..mechanisms.inside import Inside
from ..mechanisms.overview.gate import a_strangers
from ..mechanisms.overview.recorded_runs import recorded
from ..mechanisms.reading import FAR, also_noised
from ..mechanisms.searches.other_rows import leaks_with_other_rows
from ..mechanisms.unfollowed import not_followed
from ..own_bounds import noise_in_one_world, program_seeds, released_noise, sampled_steps, within_run
from ..own_bounds.attempt import FRESH, NO_PATH, PERHAPS
from ..own_bounds.other_runs import STEADY, sized_by_noise
from ..recorded.exposed import Answering, queries
from ..recorded.playing import play
from ..recorded.secrets.worlds import UNUSUAL, UNUSUAL_NODES, public_bound
from ..recorded.study import first_run, from_before

NAME = "differential"
TRIED = 16  # runs with other noise; a path that a fifth of all runs take is missed in one of 36 audits
MOST = 2  # most further runs that are audited
COUNTS = "a ledger bounds epsilon only if it lists every mechanism, and all else is computed from their values"
TESTS = "exact tests of samples (binomial) and of noise (chi-squared, gamma), Bonferroni over all of them"
REPORTED = proved(
    "draws, samples and noisy values are recorded", "the training, which is this package's own, reports each of them"
)
REPEATED = proved("the repetition has the same noise", "every noisy value was made the same")
SEEDS = proved("the two runs are independent", "the two runs have different seeds, and each number is in one release")


def refuses(case: Case) -> str | None:
    """The audit needs a ledger that is not empty, a model of your own, or a program that is recorded or protects edges."""
    if isinstance(case.model, RunsElsewhere):
        known = case.claim.unit in EDGES or case.model.record
        why = "the program is not recorded, and its seeds are tested only for claims about edges; the unit of this claim is"
        return None if known else f"{why} {case.claim.unit}. Leave out --no-record: then the program is recorded."
    empty = NonPrivateDpEvent if a_strangers(case.model) else NoOpDpEvent | NonPrivateDpEvent
    if isinstance(case.model.ledger, empty):
        return "the ledger lists no mechanism that could be counted"
    return case.other_unit or None


def differential(setting: Setting) -> Outcome:
    """Records one run of a built-in model, and repeats it without some edges or nodes. The repetition gets the noisy values of
    the recorded run.

    In the repetition, nothing else that is released may change, and every sum may move at most by the sensitivity that the
    ledger's noise covers. The run may have no more mechanisms than the ledger composes, must draw exactly as many noise numbers
    as it releases noisy numbers, and must not draw the same noise twice. These checks are computations. Exact tests, at level
    alpha in total, compare the samples with independent coins, and the size of the noise with its stated scale. For a claim about
    features, the audit only checks that one user's features change no report of other users.

    Programs and users' models have audits of their own, `of_program` and `of_own_model`. The audit always runs on the CPU: an
    accelerator may add numbers in another order each time, and then no run can be repeated.
    """
    case = setting.case
    if isinstance(case.model, RunsElsewhere):
        return program_seeds.of_program(setting)
    if a_strangers(case.model):
        return of_own_model(setting)
    union, ledger = case.counted(setting.graph), charged(case.model.ledger)
    frozen, other = (world(union, setting.key.fold("frozen", i).seed) for i in range(2))
    if case.claim.unit is Unit.FEATURES:
        faults = reports_of_others(case.model, union, int(frozen.seeds[0]))
        text = "one user's features change no report of others"
        return outcome(case, [exactly(faults, text)], "" if faults else text)
    model = keeping(case.model, offered(case.model))
    release, first = reported(model, frozen)
    if not first.releases:
        text = "this model reports nothing about its noise"
        return outcome(case, [exactly([], text)], text)
    _, second = reported(keeping(case.model, case.model.releases), other)
    faults, text = counted(case, first, ledger)
    faults += repeated_draws(first, second)
    strongest, found = repeated(model, union, release, first, ledger, setting.key)
    p_values = [*noise_p_values(first, second), *sample_p_values(first, second, ledger)]
    notices = smallest_noticed([first, second], strongest, setting.alpha / len(p_values))
    bounds = [exactly(faults + found, "counts and a repetition"), tested(case, p_values, setting.alpha, notices)]
    return outcome(case, bounds, text)


def of_own_model(setting: Setting) -> Outcome:
    """Audits a user's model by its recorded draws. A run with other noise may take another path through the program, so runs that
    execute other lines of it are audited too. The least favourable of these runs counts: one whose bound refutes the claim by a
    computation, else one that concludes nothing about an array. The statistical tests of the first run spend all of alpha, so a
    test of a further run refutes nothing. If the model answers queries, a training of its answers is audited as a further run.
    """
    found = with_left_out(setting, of_release(setting))
    for kind in queries(setting.case.model):
        if any(b.refuted for b in found.bounds):
            return found
        found = with_answers(setting, found, kind)
    return found


def with_answers(setting: Setting, found: Outcome, kind: str) -> Outcome:
    """The outcome, with what the model's answers to a query show. kind: one of ANSWERS. The outcome covers these answers unless
    the audit concludes nothing about them; then a bound states the reason. A failing model concludes nothing.
    """
    model = Answering(setting.case.model, (kind,))
    case = dataclasses.replace(setting.case, model=model)
    asked = dataclasses.replace(setting, case=case, key=setting.key.fold(kind), shared={})
    try:
        answers, why = with_left_out(asked, of_one_run(asked)), ""
    except Exception as fault:  # a user's method may raise any error
        answers, why = Outcome(NAME, ()), f"the model fails when it is asked for answers to {kind}: {raised(fault)}"
    refuted = [b for b in answers.bounds if b.refuted]
    if any(b.alpha == 0 for b in refuted):
        return dataclasses.replace(answers, reach=f"{answers.reach}; in answers to {kind}")
    if why := why or next((f"a test at a level that is spent found in answers to {kind}: {b.method}" for b in refuted), ""):
        failed = Condition(f"the audit examines answers to {kind}", "failed", why)
        unknown = released_noise.exact(0.0, why, released_noise.MOVES, (failed,))
        answers = Outcome(NAME, (unknown,), {}, why, covers={})
    each = [outcome.covers or {} for outcome in (found, answers)]
    bounds = (*covering(found.bounds, each[0]), *covering(answers.bounds, each[1]))
    covers, reach = {**each[0], **each[1]}, f"{found.reach}; in answers to {kind}: {answers.reach}"
    return dataclasses.replace(found, bounds=bounds, reach=reach, covers=covers, read=(*found.read, kind))


def of_release(setting: Setting) -> Outcome:
    """The outcome of the worst run, whose release is audited."""
    found = of_one_run(setting)
    if any(b.refuted for b in found.bounds):
        return found
    for other, lines in on_other_lines(setting):
        again = of_one_run(other)
        again = dataclasses.replace(again, reach=f"{again.reach}; in a run that executes {lines}, unlike the first")
        if any(b.refuted and b.alpha == 0 for b in again.bounds):
            return again
        if not any(b.refuted for b in again.bounds) and set(found.covers or ()) - set(again.covers or ()):
            found = again
    return found


def with_left_out(setting: Setting, found: Outcome) -> Outcome:
    """The outcome, whose bounds say that unusual nodes were not examined, if the model failed on the small graph of such nodes.
    They also say so if the mechanisms within the run matter and the model's effort was too little to look for them there. They
    name a secret that leaks more with other rows of features.
    """
    runs, model = recorded(setting), setting.case.model
    within = runs.inside if isinstance(runs.inside, Inside) else None
    left_out = []
    if error := runs.examination.failed or (within and within.failed):
        left_out.append(Condition(UNUSUAL_NODES, "not examined", f"on a {UNUSUAL} the model fails ({error})"))
    elif within and not effort(model).thorough and set(offered(model)) - set(runs.examination.noisy):
        left_out.append(Condition(UNUSUAL_NODES, "not examined", "the model asks for little effort (thorough=False)"))
    asked = within if effort(model).thorough and not any(b.refuted for b in found.bounds) else None
    if asked:
        why, other_noise = leaks_with_other_rows(asked, setting.case.claim, setting.key.fold("rows"))
        if other_noise:
            bare = (within_run.without_reach(b, Condition(NO_PATH, "failed", why)) for b in found.bounds)
            found = dataclasses.replace(found, bounds=tuple(bare), covers={}, reach=why)
        elif why:
            left_out.append(Condition("for rows of features like those of your graph", "limited", why))
    left_out += from_before(runs.study)
    beyond = exceeded(model, runs.counted)
    bounds = (dataclasses.replace(b, conditions=(*b.conditions, *left_out, *(beyond if b.refuted else ()))) for b in found.bounds)
    return dataclasses.replace(found, bounds=tuple(bounds))


def exceeded(model: Any, graph: Graph) -> list[Condition]:
    """What a refutation says of a graph that breaks the bound on degrees that the model declares: the claim may not cover it, nor
    the graphs that the audits build, which are not kept within the bound then.
    """
    if not has(model, BoundedDegree) or public_bound(model, graph) is not None:
        return []
    beyond = f"more neighbours than max_degree={model.max_degree}, as a node of yours has ({graph.degree.max()})"
    why = "the claim may cover only graphs within the bound, or the model may enforce the bound itself"
    return [Condition(f"on graphs whose nodes may have {beyond}", "granted", why)]


def on_other_lines(setting: Setting) -> Iterator[tuple[Setting, str]]:
    """Yields settings whose runs execute lines of the program that no earlier run executed, with these lines, at most MOST of
    TRIED.
    """
    model = keeping(setting.case.model, offered(setting.case.model))
    if not effort(model).thorough:
        return
    known = lines_of(model, setting)
    others = (dataclasses.replace(setting, key=setting.key.fold("other lines", n), shared={}) for n in range(TRIED))
    yielded = 0
    while yielded < MOST and (other := next(others, None)) is not None:
        if new := lines_of(model, other) - known:
            known |= new
            yielded += 1
            yield other, in_words(new)


def lines_of(model: Model, setting: Setting) -> set[Line]:
    """The lines of the program that the run executes on which `of_one_run` rests."""
    with lines_run() as found:
        play(model, first_run(setting.case.counted(setting.graph), setting.key))
    return found


def of_one_run(setting: Setting) -> Outcome:
    """Audits a recorded run of a user's model: first the noise on its release, then the mechanisms within the run.

    The bound from the mechanisms counts only if it refutes the claim, if it covers an array about which the first part of the
    audit concludes nothing, or if it detects smaller violations, because it comes from another graph. There, arrays of which the
    first part knows the noise count as released with this noise. Nothing is stated if mechanisms share noise in a way that is not
    understood, or if another run would exceed the claim. If the mechanisms are not known, the reason for this is the
    reason why nothing is stated about such an array.
    """
    case, runs = setting.case, recorded(setting)
    within = runs.inside
    if not isinstance(within, Inside):
        made = runs.study
        why = within or not_followed(made.base.draws[at] for at in made.free)
        past = dict.fromkeys(offered(case.model), why) if why else None
        found = released_noise.from_release(setting, past)
        if any(b.refuted for b in found.bounds):
            return found
        sure, bare = noise_in_one_world.from_other_draws(case, made)
        if sure is not None:
            return dataclasses.replace(found, bounds=(*found.bounds, sure), reach=sure.method)
        return released_noise.from_release(setting, past, bare) if bare else found
    past = within_run.paths_to(within, offered(case.model))
    sized = sized_by_noise(within.run) if case.claim.delta > 0 else ""  # at delta = 0, one run can refute a claim
    unsized = {"": sized} if sized else {}
    found = released_noise.from_release(setting, past, within_run.unused(within, offered(case.model)) | unsized)
    if any(b.refuted for b in found.bounds):
        return found
    sure = program_seeds.without_moves(case, within)
    if sure is None and within.doubts:
        sure, _ = noise_in_one_world.from_other_draws(case, runs.study)
    if sure is not None:
        return dataclasses.replace(found, bounds=(*found.bounds, sure), reach=sure.method)
    covers = found.covers or {}
    silent = [array for array in offered(case.model) if array not in covers]
    if runs.examination.common is not None and not silent:
        return found  # its epsilon is that of the release; the bound from the mechanisms would grant the numbers in common
    bound = sampled_steps.from_mechanisms(case, with_other_noise(within, covers))
    if bound.refuted:
        return dataclasses.replace(found, bounds=(*found.bounds, bound), reach=bound.method)
    failed = (c.detail for c in bound.conditions if c.what in (STEADY, FRESH.what) and c.how == "failed")
    if (why := next(failed, "") or within_run.read_elsewhere(within, case.claim)) and not silent:
        return released_noise.from_release(setting, {**dict.fromkeys(offered(case.model), why), **past}, {"": why})
    unknown = "" in runs.examination.doubts and not runs.examination.inside
    if silent and not unknown and bound.failed:
        reason = most_telling(c.detail for c in bound.conditions if c.how == "failed")
        return released_noise.from_release(setting, {**dict.fromkeys(silent, reason), **past}, unsized)
    each = bound.covers or {}
    kept = covering((b for b in found.bounds if not b.failed), covers)
    known = min((b.notices for b in kept), default=math.inf)  # infinite: the release alone has no smallest detectable violation
    sharper = bound.notices < known and (not silent or known < math.inf) and not any(PERHAPS in kind for kind in each.values())
    if not (silent or sharper) or unknown or math.isinf(bound.reach):
        return found
    only_here = each if sharper else {array: each[array] for array in silent}
    covers = {**covers, **only_here}
    bounds = (*kept, dataclasses.replace(bound, covers=covers if math.isinf(known) else only_here))
    return dataclasses.replace(found, bounds=bounds, reach=bound.method, covers=covers)


def with_other_noise(within: Inside, known: Collection[str]) -> Inside:
    """The mechanisms within the run, without the paths past them to arrays that show other noise. known: the arrays whose noise
    is known. If the other noise changes a further array, this array may tell the noise, and all paths stay.
    """
    others = also_noised(within.run, FAR) if within.past else set()
    return without_paths_to(within, others) if others <= set(known) else within


def without_paths_to(within: Inside, arrays: Collection[str]) -> Inside:
    past = {array: text for array, text in within.past.items() if array not in arrays}
    return dataclasses.replace(within, past=past, small=within.small and without_paths_to(within.small, arrays))


def mechanisms(plain: int, steps: int) -> str:
    """Numbers of mechanisms in words, such as "1 mechanism on all records" or "3 mechanisms on samples"."""
    counts = [(plain, "on all records")] * (plain > 0) + [(steps, "on samples")] * (steps > 0)
    return " and ".join(f"{several(n, 'mechanism')} {where}" for n, where in counts) or "no mechanism"


def counted(case: Case, record: Record, ledger: Charged) -> tuple[list[str], str]:
    """The contradictions between the numbers of mechanisms in the run and in the ledger, and these numbers in words.

    If the run has more mechanisms, or no samples although the ledger charges for them, the last contradiction also states the
    epsilon of the mechanisms that were run.
    """
    plain, steps = executed(record, ledger)
    text = f"{mechanisms(plain, steps)} ran, and the ledger composes {mechanisms(ledger.plain, ledger.steps)}"
    faults: list[str] = []
    declared = run = case.model.ledger
    drawn, noisy = sum(size for size, _ in record.draws), sum(r.noisy.size for r in record.releases)
    if drawn != noisy:
        faults.append(f"{noisy} noisy numbers were released, and {drawn} numbers of noise were drawn")
    if ledger.steps and not steps:
        faults.append("the ledger charges for samples, and the training drew none")
        run = unsampled(run)
    elif steps > ledger.steps or plain > ledger.plain:
        faults.append(text)
        run = recounted(run, plain / ledger.plain if ledger.plain else 1.0, steps / ledger.steps if ledger.steps else 1.0)
    best = tightest(upper(run, case.claim)) if run is not declared else None
    if best is not None and best.epsilon is not None:
        faults[-1] += f", which costs epsilon={best.epsilon:.4g} by {best.accountant}"
    return faults, text


def executed(record: Record, ledger: Charged) -> tuple[int, int]:
    """The number of mechanisms on all records, and the number of mechanisms on samples.

    If the ledger claims no amplification, mechanisms on samples count as mechanisms on all records. Their number is then the
    largest number of batches that contain one record.
    """
    plain = steps = 0
    for purpose in dict.fromkeys(r.purpose for r in record.releases):
        events = sum(r.events for r in record.releases if r.purpose == purpose)
        if not record.samples.get(purpose):
            plain += events
        elif ledger.steps:
            steps += events
        else:
            plain += int(np.stack(record.samples[purpose]).sum(0).max(initial=0))
    return plain, steps


def repeated_draws(first: Record, second: Record) -> Iterator[str]:
    """Yields a contradiction if two draws, of one run or of two runs with different seeds, begin with the same eight numbers.
    Chance practically never repeats eight normal numbers.
    """
    one, other = ([start.tobytes() for _, start in r.draws if start.size == 8] for r in (first, second))
    if set(one) & set(other):
        yield "another seed draws the same noise"
    if len(set(one)) < len(one):
        yield f"of {len(one)} draws of noise {len(one) - len(set(one))} repeat earlier ones"


def noises(records: Sequence[Record]) -> Iterator[tuple[NDArray[np.float64], int]]:
    """Yields, for each name of a mechanism, the noise in all runs, (n,) in units of the stated scale, and the order of
    its norm: 1 for Laplace noise, 2 for Gaussian noise.
    """
    for purpose in dict.fromkeys(r.purpose for record in records for r in record.releases):
        releases = [r for record in records for r in record.releases if r.purpose == purpose]
        yield np.concatenate([r.residuals for r in releases]), releases[0].order


def noise_p_values(*records: Record) -> Iterator[float]:
    """Yields, for each name of a mechanism, the exact p-value of the hypothesis that its noise has at least the stated scale. The
    sum of the squares (Gaussian) or of the absolute values (Laplace) has a gamma distribution.
    """
    for noise, order in noises(records):
        yield float(gammainc(noise.size / order, (np.abs(noise) ** order).sum() / order))


def sample_p_values(first: Record, second: Record, ledger: Charged) -> Iterator[float]:
    """Yields exact p-values of the coins that chose the samples of two runs, where the ledger has a sampling rate below 1."""
    for record in (first, second):
        for purpose, batches in record.samples.items():
            rate = ledger.rate if any(r.purpose == purpose for r in record.releases) else ledger.whole
            if rate is not None and 0 < rate < 1:
                yield from coin_p_values(np.stack(batches), rate).values()


def smallest_noticed(records: Sequence[Record], strongest: float, alpha: float) -> float:
    """The smallest detectable violation, as the factor by which the noise is too small. Infinity if no secret moves a mechanism.

    The noise test detects a factor for each purpose with 90 % power. The result is the largest of these factors, divided by the
    smaller of 1 and `strongest`. strongest: the largest move by one secret, divided by the move that the ledger covers. alpha:
    the level of one p-value.
    """
    if not strongest > 0:
        return math.inf
    factors = [
        (gammaincinv(noise.size / order, 0.9) / gammaincinv(noise.size / order, alpha)) ** (1 / order)
        for noise, order in noises(records)
    ]
    return float(max(factors)) / min(strongest, 1.0)


def exactly(faults: list[str], method: str) -> Bound:
    """The bound from the checks that are computations.

    A contradiction refutes the ledger. But the lower bound is 0, because an accountant computes from the corrected counts only an
    upper bound on epsilon.
    """
    text = "; ".join(dict.fromkeys(faults)) or method
    bound = Bound(0.0, 0.0, "exact", text, (1, 1), bool(faults), None, math.inf, math.inf, against="ledger")
    return resting(bound, COUNTS, REPORTED, REPEATED)


def tested(case: Case, p_values: list[float], alpha: float, notices: float) -> Bound:
    """The bound from the statistical tests, with a Bonferroni correction. A p-value of NaN counts as 0."""
    p_value = min(1.0, len(p_values) * min(0.0 if math.isnan(p) else p for p in p_values))
    refuted, reach = p_value < alpha, worth(case.model.ledger, case.claim, notices)
    method = "samples or noise contradict the ledger" if refuted else "exact tests of samples and noise"
    bound = Bound(0.0, alpha, "ledger", method, (1, 1), refuted, p_value, notices, reach, against="ledger")
    return resting(bound, TESTS, REPORTED, SEEDS)


def outcome(case: Case, bounds: list[Bound], text: str) -> Outcome:
    reach = "; ".join(dict.fromkeys([*(b.method for b in bounds if b.refuted), text]))
    return Outcome(NAME, tuple(bounds), {}, reach, offered(case.model), attack="recorded draws")
