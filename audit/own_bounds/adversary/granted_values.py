"""Which noisy values of a run an adversary may be granted: those that the proof of the ledger releases, and that the run shows on
their own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import dp_accounting as dp
import numpy as np
from dp_accounting.dp_event import DiscreteLaplaceDpEvent

from ....accounting.events.tree import leaves, parts
from ....accounting.upper.exact import pure_epsilon
from ....models.recorder.mechanisms.mechanism import REPORT, TWO_SIDED, Mechanism
from ...case import Case
from ...mechanisms.inside import Inside, moving
from ...mechanisms.reading import EACH, alike, farthest, moved_by, repeated, with_other_values
from ...mechanisms.relations import added_only, exchanged, proportional
from ...mechanisms.shown.extremes import shown_at_an_end
from ...mechanisms.shown.parts import shown_part, shown_together
from ...mechanisms.shown.reported import shown
from ...mechanisms.shown.view import View
from ...mechanisms.undone import CHARGED, SAMPLED, pays
from ...recorded.laws import NOTHING
from ...recorded.playing import Cell
from ...recorded.study import History, Shifts, close

SAME = 1e-6  # relative tolerance between the costs of a report and of one for which the ledger charges
TRIED = 8  # largest number of other mechanisms with which `together` tests one
NUDGED = 1e-3  # in units of the scale: a change of noisy values that seldom changes the result of a comparison
FEW = 0.1  # a run only compares values if a tiny change of them affects at most this share of what a large change affects
COINLESS = (dp.GaussianDpEvent, dp.LaplaceDpEvent, DiscreteLaplaceDpEvent)  # events without samples and coins
ADDITIVE = (dp.GaussianDpEvent, dp.LaplaceDpEvent, *SAMPLED, dp.UnsupportedDpEvent)  # the last one is an undeclared ledger


def charged_report(case: Case) -> float:
    """The epsilon of one report for which the ledger charges, if it consists of randomised response, perhaps beside additive
    noise; else 0. Its proof then assumes that the adversary sees such reports. Beside other events, such as samples, drawn coins
    may belong to them.
    """
    events = [event for event, _ in parts(case.model.ledger) if not isinstance(event, COINLESS)]
    if not all(isinstance(event, dp.RandomizedResponseDpEvent) for event in events):
        return 0.0
    return max((pure_epsilon(event, case.claim.relation) for event in events), default=0.0)


def not_charged(case: Case, first: History, moves: Shifts) -> str:
    """Why the proof of the ledger may not release the noisy values that a secret moves; "" if it releases them.

    A ledger that composes Gaussian or Laplace mechanisms releases their values. Some mechanisms of pure differential privacy draw
    normal numbers and release no sum of data and noise, such as objective perturbation.
    """
    if any(isinstance(event, ADDITIVE) for event, _ in parts(case.model.ledger)):
        return ""
    moved = (first.mechanisms[i] for i in sorted(moving(first, moves)))
    line = next((m.line for m in moved if m.law == "normal"), None)
    text = "the ledger does not charge for normal noise, so its proof may not release the values with such noise at"
    return f"{text} {line}" if line else ""


def granted(case: Case, first: History, moves: Shifts) -> Shifts:
    """The moves that an adversary may learn. A move of a report counts only if the ledger charges for reports that cost as much,
    or if a released number depends on the report and on no other random number, or at delta = 0 if one release shows all moved
    reports of a line. Other moves of reports are set to 0. A report that costs more than those of the ledger may be randomised
    again before it is released, as in RAPPOR: then the ledger charges for the last report alone.
    """
    charged = charged_report(case) * (1 + SAME)
    paid = [m.law != REPORT or m.each(by).max(initial=0.0) <= charged for m, by in zip(first.mechanisms, moves, strict=True)]
    if all(paid):
        return moves
    kept = [by if whole else left for by, left, whole in zip(moves, shown(first, moves), paid, strict=True)]
    for i, (m, by, left) in enumerate(zip(first.mechanisms, moves, kept, strict=True)):
        if case.claim.delta == 0 and m.law == REPORT and np.any(by) and not np.any(left) and shown_at_an_end(first, i, by):
            kept[i] = by
    return tuple(kept)


def unseen(case: Case, first: History, moves: Shifts, seen: Shifts) -> str:
    """Why randomised reports may hide the secret from an adversary, or "" if they do not.

    moves: all moves. seen: the moves that an adversary may learn, from `granted`.
    """
    triples = list(zip(first.mechanisms, moves, seen, strict=True))
    lost = ((m, by) for m, by, left in triples if m.law == REPORT and m.size(by) > NOTHING and not np.any(left))
    if (found := next(lost, None)) is not None:
        report, move = found
        smaller = "if only a sum or a sample of them is released, epsilon may be smaller"
        way = "; a ledger of RandomizedResponseDpEvent says that the adversary sees them"
        if epsilon := charged_report(case):
            cost = report.each(move).max()
            charged = f"one of them costs ε = {cost:.3g}, and the ledger charges {epsilon:.3g} for a report"
            smaller, way = "if they are randomised again before they are released, epsilon may be smaller", ""
        elif any(
            isinstance(leaf, dp.RandomizedResponseDpEvent) for event, _ in parts(case.model.ledger) for leaf in leaves(event)
        ):
            charged, way = "and beside randomised response the ledger has events that may also flip coins, such as samples", ""
        else:
            charged = "and the ledger does not charge for them"
        return f"no released number shows the randomised reports at {report.line}, {charged}; {smaller}{way}"
    still = [i for i, (m, by, _) in enumerate(triples) if m.law == REPORT and not np.any(by)]
    noisy = [i for i, (m, by, _) in enumerate(triples) if m.law != REPORT and m.size(by) > NOTHING]
    if still and noisy and not independent(first, still, noisy):
        line = first.mechanisms[still[0]].line
        return f"the draws at {line} choose between values, as samples do; they may hide a secret"
    return ""


def independent(first: History, still: Sequence[int], noisy: Sequence[int]) -> bool:
    """Whether other values of the reports `still` leave all clean values of the mechanisms `noisy` unchanged. If so, these
    reports cannot hide a move. still, noisy: positions of mechanisms in the run.
    """
    return all(
        other is not None and all(np.array_equal(first.mechanisms[i].clean, other.mechanisms[i].clean) for i in noisy)
        for other in with_other_values(first, still)
    )


def compared_only(first: History, shifts: Shifts) -> str:
    """Why an adversary may see less than the noisy values that the secret moves, or "" if the adversary sees them.

    A run may use noisy values for comparisons only, as report-noisy-max and the sparse vector technique do. The proofs of these
    mechanisms do not release the noisy values, so the epsilon of the noisy values does not refute them. The function looks for
    noisy values whose tiny changes have little effect, or whose usual changes have none. It skips the values of a mechanism if
    the ledger charges for noise of this law: the ledger's proof then grants the noisy values to the adversary.
    """
    if whole := next((first.mechanisms[i] for i in sorted(moving(first, shifts)) if first.mechanisms[i].law == TWO_SIDED), None):
        return f"the tool does not compute how much the release shows of the whole numbers with geometric noise at {whole.line}"
    places = [i for i in sorted(moving(first, shifts)) if first.mechanisms[i].law in CHARGED and not pays(first, i)]
    for some in [[i] for i in places] if len(places) <= EACH else [places]:
        sizes = (NUDGED, 1.0)
        little, far = (changes(first, {i: moved_by(first.mechanisms[i], size, i) for i in some}) for size in sizes)
        if little is not None and far is not None and little <= FEW * far:
            line = first.mechanisms[some[0]].line
            text = f"tiny changes of the noisy values at {line} change almost nothing that is released"
            if_so = "if they are only compared (as in report-noisy-max) or rounded, they may cost less"
            way = "if your proof releases them, declare a ledger of Gaussian or Laplace events"
            return f"{text}, and the ledger does not charge for their noise; {if_so}; {way}"
    return ""


def noised_again(first: History, shifts: Shifts) -> str:
    """Why noise of later mechanisms may add to the noise that hides a move, or "" if it does not.

    A run may use a noisy value only inside values to which it adds more noise, and release these alone. The release then shows a
    sum of both noises, and epsilon may be smaller than that of the first noise. The function gives other noisy values to the
    mechanisms that move farthest, one at a time and at most EACH, and keeps all later noisy values. If the release stays the
    same, it shows the value only through later noise.
    """
    for i in farthest(first, shifts)[:EACH]:
        if all(other is not None and alike(first, other.play) for other in with_other_values(first, [i])):
            return f"the run uses the noisy value at {first.mechanisms[i].line} only in values to which it adds more noise"
    return ""


def together(within: Inside, shifts: Shifts) -> str:
    """Why the release may show a noisy value that the secret moves only in a function of it and another noisy value: their sum, a
    weighted sum as in a moving average, or a function that does not depend on their order. (Values that move alike show as much
    without their order.) "" if it does not. Terms of one of `within.sums` are one value, and so are `History.twins`. Tests the
    EACH mechanisms that move farthest, each with TRIED others.
    """
    first, sums = within.run, [i for i, m in enumerate(within.mechanisms) if m.law != REPORT]
    same = {(i, j) for group in (*within.sums, *first.twins.values()) for i in group for j in group}
    for i, j in [
        (i, j) for i in farthest(first, shifts)[:EACH] for j in [j for j in sums if j != i][:TRIED] if (i, j) not in same
    ]:
        one, other = first.mechanisms[i].line, first.mechanisms[j].line
        lines = f"the run uses {f'two noisy values at {one}' if one == other else f'the noisy values at {one} and {other}'}"
        if added_only(first, i, j):
            return f"{lines} only in their sum, whose epsilon is not computed"
        if first.mechanisms[i].noisy.shape == first.mechanisms[j].noisy.shape and proportional(first, i, j, alone=True):
            return f"{lines} only in a weighted sum, whose epsilon is not computed"
        alike = shifts[i].shape == shifts[j].shape and np.allclose(shifts[i], shifts[j], rtol=0, atol=10 * NOTHING)
        if not alike and exchanged(first, i, j):
            return f"{lines} only in a function that does not depend on their order, whose epsilon is not computed"
    return ""


def in_any_order(first: History, shifts: Shifts) -> str:
    """Why the release may show only a symmetric function of a noisy value that the secret moves, such as a sum of its rows or the
    sorted rows; "" if it shows more. Tests the EACH mechanisms that move farthest, along each axis.
    """
    for i in farthest(first, shifts)[:EACH]:
        mechanism = first.mechanisms[i]
        for axis in (axis for axis, size in enumerate(mechanism.noisy.shape) if size > 1 and axis not in mechanism.shared):
            random = np.random.default_rng(axis)
            # rows in another order, or each row in its own: a network learns the same from columns in one other order
            noisy = random.permuted(mechanism.noisy, axis=axis) if axis else random.permutation(mechanism.noisy)
            if np.array_equal(noisy, mechanism.noisy):  # as half of all orders of two rows are
                noisy = np.roll(mechanism.noisy, 1, axis=axis)
            other = repeated(first, {i: replace(mechanism, noisy=noisy)})
            if other is not None and close(first.play, other.play):
                return f"the run does not depend on the order of the noisy values at {mechanism.line}, as a sum or a shuffle"
    return ""


def shown_by(within: Inside, shifts: Shifts, cells: Sequence[Cell]) -> tuple[Shifts, str]:
    """The moves, as far as the released arrays `cells` show them, and why one of them is not known, or "". An unknown move is set
    to 0. Tests the EACH mechanisms that move farthest, one by one, and then all sums of data and noise together.
    """
    kept, why, first = list(shifts), "", within.run
    hidden = None if within.worst is None else within.worst.hidden
    for i in farthest(first, shifts)[:EACH]:
        kept[i], why_less = shown_part(View(first, (i,), tuple(cells), hidden, not pays(first, i)), shifts[i])
        why = why or why_less
    terms = {k for group in within.sums for k in group[:-1]}
    some = tuple(i for i, m in enumerate(first.mechanisms) if m.law != REPORT and i not in terms)
    if len(some) > 1 and not within.again:
        nearby = not all(pays(first, i) for i in some)
        view = View(with_sums(first, within), some, tuple(cells), hidden, nearby)
        each, why_less = shown_together(view, tuple(shifts[i] for i in some), bool(why))
        if each is not None:
            moved = dict(zip(some, each, strict=True))
            return tuple(moved.get(i, np.zeros_like(by)) for i, by in enumerate(shifts)), why or why_less
    return tuple(kept), why


def with_sums(first: History, within: Inside) -> History:
    """The run, in which the last term of each group of `sums` has the noise of the sum."""
    mechanisms = list(first.mechanisms)
    for group in within.sums:
        last = mechanisms[group[-1]]
        squares = [np.broadcast_to(np.square(mechanisms[k].scale), last.clean.shape) for k in group]
        mechanisms[group[-1]] = replace(last, scale=np.sqrt(np.sum(squares, axis=0)))
    return replace(first, mechanisms=tuple(mechanisms))


def behind(within: Inside, shifts: Shifts) -> str:
    """Why the noise at a later place may hide what the secret moves, or data that is added later may cancel it; "" if some array
    without a path past the noise shows the noisy values.
    """
    if not within.past:
        return ""
    first = within.run
    for i, (m, by) in enumerate(zip(first.mechanisms, shifts, strict=True)):
        if m.size(by) <= NOTHING:
            continue
        runs = [run for run in with_other_values(first, [i]) if run is not None]
        for cell, before in first.play.cells.items():
            if cell.array not in within.past and any(not np.array_equal(run.play.cells[cell], before) for run in runs):
                return ""
    return f"{next(iter(within.past.values()))}, and may cancel the move of the noisy value"


def changes(first: History, instead: Mapping[int, Mechanism]) -> int | None:
    """How many released numbers and clean values change if some mechanisms give other noisy values; None if the run cannot go on
    with these values. instead: position of a mechanism -> the mechanism with its other noisy value.
    """
    other = repeated(first, instead)
    if other is None:
        return None
    pairs = [*zip(first.play.cells.values(), other.play.cells.values(), strict=True)]
    pairs += [(m.clean, o.clean) for m, o in zip(first.mechanisms, other.mechanisms, strict=True)]
    return sum(int(np.sum(one != other)) for one, other in pairs)
