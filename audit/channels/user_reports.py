"""The game on users' reports under local privacy. Coins set the features of planted users to an end of their range."""

import dataclasses
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from ...accounting.checks.conditions import proved
from ...accounting.checks.independence import separate_draws, separate_trials
from ...accounting.closed_forms import channel_epsilon
from ...accounting.lower.bounds import Bound, from_rounds, of_share, resting
from ...accounting.lower.detection.power import notices_along
from ...accounting.lower.elementary import SHARE, SIDES, Kind, detectable, guesses, p_value, sum_at_least
from ...accounting.lower.one_run import COINS
from ...models.base import Release
from ...models.capabilities import RandomisedReports
from ...models.graph.graph import Graph, Worlds
from ...reports.rounding import several
from ..case import Case, Outcome, Setting, offered, with_field
from ..games.canaries import beside
from ..instruments.reach import worth
from ..key import Key
from . import exact

Coins = NDArray[np.bool_]

USERS = 5000  # planted users in one run
# number of reports in each world that the audit draws from the declared channels to choose the threshold; they are no trials
PILOT = 100_000
READ = ("reports", "label_reports")
THEOREM = (
    "if a coin chooses between two inputs of a channel of epsilon x, the chance of a right guess is at most 1 / (1 + e^-x); "
    "the channels' epsilons add up"
)
OWN_COINS = proved(COINS.what, "drawn by the audit, one for each feature and label of each user")


def refuses(case: Case) -> str | None:
    """The audit needs reports that consist of finite channels."""
    if not set(READ) <= set(offered(case.model)):
        return f"{case.model.name} does not release 'reports' and 'label_reports'"
    return case.lacks(RandomisedReports) or exact.refuses(case)


def play_reports(setting: Setting) -> Outcome:
    """Coins choose the features (low or high) and the label (0 or 1) of planted users. The audit guesses the coin of each
    reported bit and label.

    An elementary channel randomises one bit or label, and each has a coin of its own. If all channels have separate draws, the
    lower bounds of a user's channels add up. The audit checks whether the draws are separate. If the check fails, or if delta is
    above 0, a test of whole reports replaces the first test. It plants other users, with one coin for all inputs of a user. It
    needs only independent users, and a check tests that too. Its score is the log-likelihood ratio of the declared channels, and
    the distribution of this score fixes the threshold beforehand. Each of the two tests has its own share of alpha.

    The smallest detectable violation assumes that one factor multiplies all log-ratios of the channels. The model draws reports
    before it trains, so the audit trains for one epoch.
    """
    if setting.case.claim.delta > 0:  # epsilons add up at delta = 0 only
        bound, why = of_whole_reports(setting, 1.0), "whole reports, because delta is above 0"
    else:
        bound, why = of_channels(setting), "each channel was tested separately"
        if bound.failed:
            why = f"whole reports, because {bound.failed[0]}"
            bound = of_whole_reports(setting, 1 - SHARE)
    reach = f"{several(setting.rounds, 'run')} of {USERS} planted users; {why}"
    return Outcome("reports", (bound,), {}, reach, READ, attack="channel-ratio")


def sent_by_planted(
    setting: Setting, key: Key, coins: Callable[[Key], tuple[Coins, Coins]]
) -> Iterator[tuple[Release, Coins, Coins]]:
    """Yields for each run the release, the coins of the features, (users, dim or 1), and the coins of the labels, (users,).

    coins: a function that draws both kinds of coins of one run.
    """
    model, graph = setting.case.model, setting.graph
    assert isinstance(model, RandomisedReports)
    quick = with_field(setting.case.model, "epochs", 1)
    for run in range(setting.rounds):
        ends, labels = coins(key.fold("bits", run))
        wider, users = planted(model, graph, ends, labels)
        seeds = np.array([key.fold("run", run).seed], dtype=np.uint64)
        yield quick.fit(Worlds(wider, seeds, users), setting.store.device), ends, labels


def of_channels(setting: Setting) -> Bound:
    """The bound from guesses of the coins, one for each reported bit and label.

    Every feature and every label of every user has its own fair coin. Given all outputs of separate channels, these coins are
    independent, and each equals its guess with probability at most 1 / (1 + e^-x). So the number of right guesses has a binomial
    limit, also for guesses on one output alone. One coin for all channels of a user would not do: given the outputs, the guesses
    of one user would then be right or wrong together.

    One test guesses from both outputs of a channel, two others from one output alone. SIDES gives each its share of alpha. The
    largest bound counts.
    """
    case, graph = setting.case, setting.graph
    assert isinstance(case.model, RandomisedReports)
    channels = case.model.channels(graph.dim, graph.classes)
    inputs, outputs = [], []
    for release, ends, labels in sent_by_planted(setting, setting.key, lambda key: separate_coins(key, graph.dim)):
        chosen, values = own_coins(release["reports"][0], ends)
        inputs.append((chosen, labels[:, None]))
        outputs.append((values, release["label_reports"][0][:, None]))
    coins, sent = ([np.stack(runs) for runs in zip(*kinds, strict=True)] for kinds in (inputs, outputs))
    random = setting.key.fold("fewer").generator()
    right = [np.where(v == c, 1.0, np.where((v == 0) | (v == 1), -1.0, 0.0)) for c, v in zip(coins, sent, strict=True)]
    declared = [channel_epsilon(matrix) for matrix, _ in channels]
    claim, epsilons, p_values = case.claim, [], []
    for sides, share in SIDES.items():
        counted = [guesses(c, v, random, sides) for c, v in zip(coins, sent, strict=True)]
        kinds = [Kind(*n, v.shape[2], e) for n, v, e in zip(counted, sent, declared, strict=True)]
        epsilons.append(sum_at_least(kinds, share * setting.alpha))
        p_values.append(p_value(kinds, claim.epsilon) / share)
        if len(sides) == 2:
            kappa, total = detectable(kinds, claim.epsilon, share * setting.level), sum(k.copies * k.declared for k in kinds)
    epsilon = max(epsilons)
    bound = Bound(
        epsilon=epsilon,
        alpha=setting.alpha,
        shape="any",
        method="elementary channels",
        trials=(int((~coins[1]).sum()), int(coins[1].sum())),  # one for each user, by the coin of the label
        refuted=epsilon > claim.epsilon,
        p_value=min(1.0, *p_values),
        notices=kappa,
        reach=kappa * total,
    )
    return resting(bound, THEOREM, OWN_COINS, separate_draws(np.concatenate(right, axis=2)))


def separate_coins(key: Key, dim: int) -> tuple[Coins, Coins]:
    """Fair coins of one run: one for each feature of each planted user, (USERS, dim), and one for each label, (USERS,)."""
    return key.fold("features").generator().random((USERS, dim)) < 0.5, key.fold("labels").generator().random(USERS) < 0.5


def one_coin(key: Key) -> tuple[Coins, Coins]:
    """Fair coins of one run: one for each planted user, which decides all features, (USERS, 1), and the label, (USERS,)."""
    coins = key.generator().random(USERS) < 0.5
    return coins[:, None], coins


def own_coins(reports: NDArray[np.int64], ends: Coins) -> tuple[Coins, NDArray[np.int64]]:
    """The coin of each reported feature and the reported value, 0 or 1, (users, bits) each.

    reports: (users, bits, 2) of feature index and sign. ends: (users, dim), the coins. The value is -1, which is no guess, where
    the index is no feature, or where the user has reported this feature before: two guesses of one coin are not independent.
    """
    index = reports[:, :, 0].astype(np.int64)
    known = (index >= 0) & (index < ends.shape[1])
    for k in range(1, index.shape[1]):
        known[:, k] &= (index[:, :k] != index[:, k : k + 1]).all(axis=1)
    chosen = np.take_along_axis(ends, np.where(known, index, 0), axis=1)
    return chosen, np.where(known, reports[:, :, 1] > 0, -1).astype(np.int64)


def of_whole_reports(setting: Setting, share: float) -> Bound:
    """The bound from the log-likelihood ratio of each user's whole report. One coin sets all features of a user low and the label
    to 0, or all features high and the label to 1. share: the share of alpha that the bound spends.
    """
    claim, graph, key, model = setting.case.claim, setting.graph, setting.key, setting.case.model
    assert isinstance(model, RandomisedReports)
    alpha = share * setting.alpha
    runs = [(log_ratio(model, sent, graph), coins) for sent, _, coins in sent_by_planted(setting, key.fold("whole"), one_coin)]
    scores, bits = (np.stack(part) for part in zip(*runs, strict=True))
    pilot = declared(model, graph, key.fold("pilot"))
    own = separate_trials(scores > 0, bits, "every user's report in every run is drawn with its own numbers")
    bound = from_rounds(scores, bits, claim, alpha=alpha, pilot=pilot, rounds=own, seed=key.fold("coin").seed)
    kappa = notices_along(claim, lambda kappa: rates(model, graph, kappa), *bound.trials, share * setting.level)
    bound = of_share(bound, share, setting.alpha)
    return dataclasses.replace(bound, notices=kappa, reach=worth(model.ledger, claim, kappa))


def planted(model: RandomisedReports, graph: Graph, ends: Coins, labels: Coins) -> tuple[Graph, NDArray[np.int64]]:
    """The graph with one isolated training user for each coin of `labels`, and the ids of these users.

    ends: (users, dim), or (users, 1) for all features of a user; a feature is at the high end of its range where the coin is 1,
    else at the low end. labels: (users,), the labels 0 or 1. In mode "sound" the ends are public parameters of the model. In mode
    "paper" they are the extremes over all users.
    """
    low, high = model.ends(graph)
    x = np.where(ends, high, low).astype(np.float32)
    return beside(graph, x, labels.astype(np.int64), np.zeros((2, 0), dtype=np.int64), "train")


def declared(model: RandomisedReports, graph: Graph, key: Key) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """The scores and bits, (2 * PILOT,) each, of reports that the audit draws from the declared channels, PILOT in each world."""
    (bits, copies), (labels, _) = model.channels(graph.dim, graph.classes)
    random = key.generator()
    ups = np.concatenate([random.binomial(copies, bits[world, 1], PILOT) for world in (0, 1)])
    sent = np.concatenate([random.choice(graph.classes, PILOT, p=labels[world]) for world in (0, 1)])
    return ratio(model, graph, ups, copies - ups, sent), np.arange(2 * PILOT) >= PILOT


def rates(model: RandomisedReports, graph: Graph, kappa: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The false-positive and false-negative rates of all thresholds if the channels' log-ratios are `kappa` times larger."""
    (bits, copies), (labels, _) = model.channels(graph.dim, graph.classes)
    bits, labels = (_louder(matrix, kappa) for matrix in (bits, labels))
    ups, sent = (a.ravel() for a in np.indices((copies + 1, graph.classes)))
    scores, group = np.unique(np.round(ratio(model, graph, ups, copies - ups, sent), 9), return_inverse=True)
    low, high = (
        np.bincount(group, binom.pmf(ups, copies, bits[world, 1]) * labels[world, sent], scores.size) for world in (0, 1)
    )
    # threshold k guesses "high" for the k + 1 largest of the possible scores
    return low[::-1].cumsum()[:-1], high.cumsum()[-2::-1]


def _louder(channel: NDArray[np.float64], kappa: float) -> NDArray[np.float64]:
    """The channel with all its log-ratios multiplied by kappa, and each row normalised. channel: (inputs, outputs)."""
    powers: NDArray[np.float64] = (channel / channel.max(axis=1, keepdims=True)) ** kappa
    return powers / powers.sum(axis=1, keepdims=True)


def log_ratio(model: RandomisedReports, release: Release, graph: Graph) -> NDArray[np.float64]:
    """(users,) float64: each user's log-likelihood ratio of "all features high, label 1" to "all features low, label 0"."""
    up = release["reports"][0, :, :, 1] > 0
    return ratio(model, graph, up.sum(1), (~up).sum(1), release["label_reports"][0])


def ratio(
    model: RandomisedReports, graph: Graph, ups: NDArray[np.int64], downs: NDArray[np.int64], sent: NDArray[np.int64]
) -> NDArray[np.float64]:
    """(n,) float64: the log-likelihood ratios of n users' reports. ups, downs: (n,) how many bits of a user report high and low.
    sent: (n,) the reported labels.
    """
    (bits, _), (labels, _) = model.channels(graph.dim, graph.classes)
    of_sign, of_label = np.log(bits[1]) - np.log(bits[0]), np.log(labels[1]) - np.log(labels[0])
    return np.asarray(ups * of_sign[1] + downs * of_sign[0] + of_label[sent])
