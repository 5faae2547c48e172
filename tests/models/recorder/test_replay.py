"""A repeated draw either departs, because the call asks otherwise, or returns what the call returns with the same random bits."""

import random

import numpy as np
import pytest
import scipy.stats
import torch

from gnnaudit.models.recorder import recording
from gnnaudit.models.recorder.draws.draw import Diverged
from gnnaudit.models.recorder.libraries import of_numpy, of_python
from gnnaudit.models.recorder.script import Script

A, B = np.array([0.2, 0.5, 0.9]), np.array([0.3, 0.4, 0.8])  # chances, rates and positive data
N, M = np.array([4, 7, 9]), np.array([5, 7, 9])  # whole numbers
ROWS, TURNED = np.arange(12.0).reshape(4, 3), np.arange(12.0).reshape(4, 3)[::-1].copy()
P, Q = np.array([0.2, 0.3, 0.5]), np.array([0.3, 0.2, 0.5])
EYE, COV = np.eye(2), np.array([[4.0, 1.0], [1.0, 9.0]])

# method -> calls of it, each as (arguments, options). Each call differs from the first one in one argument.
NUMPY = {
    "standard_normal": [((3,), {})],
    "randn": [((3,), {})],
    "normal": [((A, B), {}), ((B, B), {}), ((A, A), {}), ((), {"loc": B, "scale": B}), ((N, B), {})],
    "laplace": [((A, B), {}), ((B, B), {}), ((A, A), {}), ((), {"loc": B, "scale": B})],
    "gumbel": [((A, B), {}), ((B, B), {}), ((A, A), {})],
    "logistic": [((A, B), {}), ((B, B), {}), ((A, A), {})],
    "standard_cauchy": [((3,), {})],
    "standard_t": [((A,), {}), ((B,), {}), ((), {"df": B})],
    "random": [((3,), {})],
    "random_sample": [((3,), {})],
    "rand": [((3,), {})],
    "uniform": [((A, 2.0), {}), ((B, 2.0), {}), ((A, 3.0), {}), ((), {"low": B, "high": 3.0}), ((A, A), {})],
    "exponential": [((A,), {}), ((B,), {}), ((), {"scale": B})],
    "standard_exponential": [((3,), {})],
    "integers": [
        ((N, N + 3), {}),
        ((M, N + 3), {}),
        ((N, M + 3), {}),
        ((N, N + 3), {"endpoint": True}),
        ((0, 2000), {"size": 3}),
    ],
    "randint": [((N, N + 3), {}), ((M, N + 3), {}), ((N, M + 3), {}), ((0, 200_001), {"size": 3}), ((0, 200_000), {"size": 3})],
    "binomial": [((N, 0.5), {}), ((M, 0.5), {}), ((N, 0.4), {}), ((), {"n": N, "p": A}), ((1, A), {}), ((1, B), {})],
    "choice": [
        ((5, 3), {}),
        ((6, 3), {}),
        ((N, 3), {}),
        ((M, 3), {}),
        ((N, 3), {"p": P}),
        ((N, 3), {"p": Q}),
        ((N, 3, False), {}),
        ((["a", "b", "c"], 3), {}),
        ((["a", "b", "d"], 3), {}),
    ],
    "multivariate_normal": [
        ((P[:2], EYE), {}),
        ((Q[:2], EYE), {}),
        ((P[:2], 4 * EYE), {}),
        ((P[:2], COV), {}),
        ((Q[:2], COV), {}),
    ],
    "beta": [((A, B), {}), ((B, B), {}), ((A, A), {})],
    "bytes": [((5,), {}), ((6,), {})],
    "chisquare": [((A,), {}), ((B,), {})],
    "dirichlet": [((A,), {}), ((B,), {})],
    "f": [((A, B), {}), ((B, B), {}), ((A, A), {})],
    "gamma": [((A, B), {}), ((B, B), {}), ((A, A), {})],
    "geometric": [((A,), {}), ((B,), {})],
    "hypergeometric": [((N, N, 5), {}), ((M, N, 5), {}), ((N, M, 5), {}), ((N, N, 4), {})],
    "logseries": [((A,), {}), ((B,), {})],
    "lognormal": [((A, B), {}), ((B, B), {}), ((A, A), {})],
    "multinomial": [((9, P), {}), ((8, P), {}), ((9, Q), {})],
    "multivariate_hypergeometric": [((N, 5), {}), ((M, 5), {}), ((N, 6), {})],
    "negative_binomial": [((N, 0.5), {}), ((M, 0.5), {}), ((N, 0.4), {})],
    "noncentral_chisquare": [((N, 2.0), {}), ((M, 2.0), {}), ((N, 3.0), {})],
    "noncentral_f": [((N, N, 2.0), {}), ((M, N, 2.0), {}), ((N, M, 2.0), {}), ((N, N, 3.0), {})],
    "pareto": [((A,), {}), ((B,), {})],
    "permutation": [((ROWS,), {}), ((TURNED,), {}), (([3.0, 1.0, 7.0, 2.0],), {}), ((5,), {}), ((6,), {})],
    "permuted": [((ROWS,), {"axis": 0}), ((TURNED,), {"axis": 0}), ((ROWS,), {"axis": 1}), ((ROWS,), {})],
    "poisson": [((A,), {}), ((B,), {}), ((), {"lam": B})],
    "power": [((A,), {}), ((B,), {})],
    "random_integers": [((2, 9), {}), ((3, 9), {}), ((2, 8), {})],
    "rayleigh": [((A,), {}), ((B,), {})],
    "shuffle": [((ROWS,), {}), ((TURNED,), {}), (([3.0, 1.0, 7.0, 2.0],), {}), ((["a", "b", "c", "d"],), {}), ((N,), {})],
    "standard_gamma": [((A,), {}), ((B,), {})],
    "tomaxint": [((3,), {})],
    "triangular": [((A, 1.0, 2.0), {}), ((B, 1.0, 2.0), {}), ((A, 1.1, 2.0), {}), ((A, 1.0, 3.0), {})],
    "vonmises": [((A, B), {}), ((B, B), {}), ((A, A), {})],
    "wald": [((A, B), {}), ((B, B), {}), ((A, A), {})],
    "weibull": [((A,), {}), ((B,), {})],
    "zipf": [((N,), {}), ((M,), {})],
}
WORDS, OTHER_WORDS = ["a", "b", "c", "d"], ["a", "b", "e", "d"]
PYTHON = {
    "random": [((), {})],
    "gauss": [((1.0, 2.0), {}), ((2.0, 2.0), {}), ((1.0, 3.0), {}), ((), {"mu": 2.0, "sigma": 2.0})],
    "normalvariate": [((1.0, 2.0), {}), ((2.0, 2.0), {}), ((), {"mu": 1.0, "sigma": 3.0})],
    "uniform": [((1.0, 2.0), {}), ((0.0, 2.0), {}), ((1.0, 3.0), {}), ((), {"a": 0.0, "b": 3.0})],
    "expovariate": [((1.0,), {}), ((2.0,), {}), ((), {"lambd": 2.0})],
    "triangular": [((0.0, 1.0, 0.2), {}), ((0.1, 1.0, 0.2), {}), ((0.0, 1.1, 0.2), {}), ((0.0, 1.0), {"mode": 0.3})],
    "betavariate": [((1.0, 2.0), {}), ((2.0, 2.0), {}), ((1.0, 3.0), {}), ((), {"alpha": 2.0, "beta": 2.0})],
    "gammavariate": [((1.0, 2.0), {}), ((2.0, 2.0), {}), ((1.0, 3.0), {}), ((), {"alpha": 2.0, "beta": 2.0})],
    "lognormvariate": [((1.0, 2.0), {}), ((2.0, 2.0), {}), ((1.0, 3.0), {}), ((), {"mu": 2.0, "sigma": 2.0})],
    "vonmisesvariate": [((1.0, 2.0), {}), ((2.0, 2.0), {}), ((), {"mu": 1.0, "kappa": 3.0})],
    "paretovariate": [((1.0,), {}), ((), {"alpha": 2.0})],
    "weibullvariate": [((1.0, 2.0), {}), ((2.0, 2.0), {}), ((), {"alpha": 1.0, "beta": 3.0})],
    "binomialvariate": [((5, 0.5), {}), ((6, 0.5), {}), ((), {"n": 5, "p": 0.4})],
    "getrandbits": [((8,), {}), ((9,), {})],
    "randbytes": [((4,), {}), ((5,), {})],
    "randint": [((1, 99), {}), ((2, 99), {}), ((1, 98), {}), ((), {"a": 2, "b": 98})],
    "randrange": [((1, 99), {}), ((2, 99), {}), ((1, 98), {}), ((99,), {})],
    "choice": [(([1, 2, 3],), {}), (([1, 2, 4],), {}), ((WORDS,), {}), ((OTHER_WORDS,), {}), ((), {"seq": OTHER_WORDS})],
    "choices": [
        (([1, 2, 3],), {"weights": P}),
        (([1, 2, 4],), {"weights": P}),
        (([1, 2, 3],), {"weights": Q}),
        ((range(3), P), {}),
        ((range(3), Q), {}),
        ((WORDS,), {"k": 3}),
        ((OTHER_WORDS,), {"k": 3}),
        ((), {"population": OTHER_WORDS, "k": 3}),
        ((), {"population": WORDS, "cum_weights": [1, 2, 3, 4], "k": 3}),
        ((), {"population": WORDS, "cum_weights": [1, 2, 2.5, 4], "k": 3}),
    ],
    "sample": [
        ((range(9), 3), {}),
        ((range(10), 3), {}),
        ((WORDS, 2), {}),
        ((OTHER_WORDS, 2), {}),
        (([(1, 2), (3, 4), (5, 6)], 2), {}),
        (([(1, 2), (3, 4), (5, 7)], 2), {}),
        ((WORDS,), {"k": 2, "counts": [1, 2, 1, 1]}),
        ((WORDS,), {"k": 2, "counts": [2, 1, 1, 1]}),
    ],
    "shuffle": [(([1, 2, 3, 4],), {}), (([1, 2, 3, 5],), {}), ((WORDS,), {}), ((OTHER_WORDS,), {}), (([(1, 2), (3, 4)],), {})],
}
FAMILIES = {
    "norm": ((), ()),
    "laplace": ((), ()),
    "uniform": ((), ()),
    "t": ((3.0,), (4.0,)),
    "gamma": ((3.0,), (4.0,)),
    "beta": ((3.0, 2.0), (3.0, 4.0)),
    "skewnorm": ((3.0,), (4.0,)),
    "expon": ((), ()),
    "dlaplace": ((0.8,), (0.9,)),
    "skellam": ((3.0, 2.0), (3.0, 4.0)),
    "binom": ((9, 0.5), (9, 0.6)),
    "poisson": ((3.0,), (4.0,)),
    "randint": ((1, 9), (1, 8)),
}
ONE, TWO = torch.tensor(A), torch.tensor(B)
TORCH = {
    "normal": [lambda: torch.normal(ONE, TWO), lambda: torch.normal(TWO, TWO), lambda: torch.normal(ONE, ONE)],
    "normal_": [
        lambda: torch.zeros(3).normal_(1, 2),
        lambda: torch.zeros(3).normal_(2, 2),
        lambda: torch.zeros(3).normal_(std=3),
    ],
    "uniform_": [
        lambda: torch.zeros(3).uniform_(1, 2),
        lambda: torch.zeros(3).uniform_(0, 2),
        lambda: torch.zeros(3).uniform_(1, 3),
    ],
    "cauchy_": [lambda: torch.zeros(3).cauchy_(1, 2), lambda: torch.zeros(3).cauchy_(2, 2), lambda: torch.zeros(3).cauchy_(1, 3)],
    "exponential_": [lambda: torch.zeros(3).exponential_(1.0), lambda: torch.zeros(3).exponential_(2.0)],
    "log_normal_": [lambda: torch.zeros(3).log_normal_(1, 2), lambda: torch.zeros(3).log_normal_(2, 2)],
    "geometric_": [lambda: torch.zeros(9).geometric_(0.3), lambda: torch.zeros(9).geometric_(0.4)],
    "random_": [lambda: torch.zeros(9).random_(1, 99), lambda: torch.zeros(9).random_(2, 99), lambda: torch.zeros(9).random_(98)],
    "bernoulli": [lambda: torch.bernoulli(ONE), lambda: torch.bernoulli(TWO), lambda: torch.bernoulli(ONE, 0.3)],
    "bernoulli_": [lambda: torch.zeros(9).bernoulli_(0.3), lambda: torch.zeros(9).bernoulli_(0.4)],
    "binomial": [
        lambda: torch.binomial(9 * ONE, ONE),
        lambda: torch.binomial(9 * ONE, TWO),
        lambda: torch.binomial(9 * TWO, ONE),
    ],
    "poisson": [lambda: torch.poisson(9 * ONE), lambda: torch.poisson(9 * TWO)],
    "multinomial": [
        lambda: torch.multinomial(ONE, 2),
        lambda: torch.multinomial(TWO, 2),
        lambda: torch.multinomial(ONE, 2, True),
    ],
    "randint": [lambda: torch.randint(1, 99, (4,)), lambda: torch.randint(2, 99, (4,)), lambda: torch.randint(1, 9999, (4,))],
    "randint_like": [
        lambda: torch.randint_like(ONE, 1, 99),
        lambda: torch.randint_like(TWO, 1, 99),
        lambda: torch.randint_like(ONE, 98),
    ],
    "randperm": [lambda: torch.randperm(5), lambda: torch.randperm(6)],
    "_standard_gamma": [lambda: torch._standard_gamma(ONE), lambda: torch._standard_gamma(TWO)],
    "_sample_dirichlet": [lambda: torch._sample_dirichlet(ONE), lambda: torch._sample_dirichlet(TWO)],
    "native_dropout": [lambda: torch.native_dropout(ONE, 0.5, True)[0], lambda: torch.native_dropout(TWO, 0.5, True)[0]],
    "native_dropout, rate": [lambda: torch.native_dropout(ONE, 0.5, True)[0], lambda: torch.native_dropout(ONE, 0.4, True)[0]],
    "dropout": [
        lambda: torch.dropout(ONE, 0.5, True),
        lambda: torch.dropout(TWO, 0.5, True),
        lambda: torch.dropout(ONE, 0.4, True),
    ],
    "rrelu": [lambda: torch.rrelu(-ONE, training=True), lambda: torch.rrelu(-TWO, training=True)],
    "Laplace": [lambda: torch.distributions.Laplace(ONE, TWO).sample(), lambda: torch.distributions.Laplace(TWO, ONE).sample()],
    "StudentT": [
        lambda: torch.distributions.StudentT(ONE, TWO).sample(),
        lambda: torch.distributions.StudentT(TWO, ONE).sample(),
    ],
    "Categorical": [lambda: torch.distributions.Categorical(ONE).sample(), lambda: torch.distributions.Categorical(TWO).sample()],
}


def copied(value):
    return value.copy() if isinstance(value, (list, np.ndarray)) else value


def result_of(generator, method, call):
    """What a method returns, or what it leaves in its first argument."""
    args, options = tuple(map(copied, call[0])), {name: copied(value) for name, value in call[1].items()}
    returned = getattr(generator, method)(*args, **options)
    return args[0] if returned is None else returned


def equal(one, other):
    try:
        np.testing.assert_allclose(np.asarray(one, dtype=float), np.asarray(other, dtype=float), rtol=1e-6)
    except (TypeError, ValueError):
        assert type(one) is type(other)
        assert np.array_equal(np.asarray(one, dtype=object), np.asarray(other, dtype=object))


def repeats_or_departs(first, second, truth):
    """first, second: calls with two seeds. truth: the result of `second` with the seed of `first`. Returns whether it departs."""
    with recording() as recorded:
        first()
    assert recorded.draws
    assert not recorded.notes
    try:
        with recording(Script(recorded.draws, {})):
            again = second()
    except Diverged:
        return True
    equal(again, truth)
    return False


def check(call, calls, made):
    """Repeats the first of the calls, and each one that differs from the first in one argument. call: (generator, request) ->
    result. made: seed -> generator. Returns which requests depart.
    """
    found = []
    for request in calls:
        pairs = [(lambda: call(made(1), calls[0]), lambda r=request: call(made(2), r), call(made(1), request))]
        pairs += [(lambda r=request: call(made(1), r), lambda r=request: call(made(2), r), call(made(1), request))]
        found.append(repeats_or_departs(*pairs[0]))
        assert not repeats_or_departs(*pairs[1]), request
    return found


def test_every_recorded_method_has_calls_here():
    assert set(NUMPY) == set(of_numpy.METHODS)
    assert set(PYTHON) == set(of_python.METHODS)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("base", [of_numpy.default_rng, of_numpy.RandomState], ids=["Generator", "RandomState"])
@pytest.mark.parametrize("method", NUMPY)
def test_a_method_of_numpy_departs_or_repeats_its_random_bits(method, base):
    if not hasattr(base(1), method):
        return
    check(lambda generator, call: result_of(generator, method, call), NUMPY[method], base)


@pytest.mark.parametrize("method", PYTHON)
def test_a_method_of_python_departs_or_repeats_its_random_bits(method):
    if not hasattr(random.Random, method):
        return
    check(lambda generator, call: result_of(generator, method, call), PYTHON[method], random.Random)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_distribution_of_scipy_departs_or_repeats_its_random_bits(family):
    one, other = FAMILIES[family]
    continuous = hasattr(getattr(scipy.stats, family), "pdf")
    calls = [(one, {"loc": N}), (other, {"loc": N}), (one, {"loc": M}), (one, {"loc": 100 * M})]
    calls += [(one, {"loc": N, "scale": B}), ((*one, N, B), {})] if continuous else [((*one, M), {})]

    def drawn(seed, call):
        return getattr(scipy.stats, family).rvs(*call[0], **call[1], size=3, random_state=seed)

    carried = family in ("norm", "laplace", "uniform", "t")
    assert check(drawn, calls, lambda seed: seed) == [False, bool(one), *[not carried] * (len(calls) - 2)]


def test_a_distribution_of_scipy_that_was_made_from_other_data_departs():
    def drawn(seed, weights):
        return scipy.stats.rv_discrete(values=(range(3), weights)).rvs(size=5, random_state=seed)

    def binned(seed, counts):
        return scipy.stats.rv_histogram((counts, np.arange(4))).rvs(size=5, random_state=seed)

    assert check(drawn, [P, Q], lambda seed: seed) == [False, True]
    assert check(binned, [N, M], lambda seed: seed) == [False, True]


@pytest.mark.parametrize("name", TORCH)
def test_an_operator_of_torch_departs_or_repeats_its_random_bits(name):
    def call(seed, request):
        torch.manual_seed(seed)
        return request().numpy()

    check(call, TORCH[name], lambda seed: seed)


@pytest.mark.parametrize(
    ("draw", "departs"),
    [
        (lambda rng, data: rng.shuffle(data), False),
        (lambda rng, data: rng.permutation(data), False),
        (lambda rng, data: rng.normal(data), False),
        (lambda rng, data: rng.integers(data - 1, data + 2), True),
        (lambda rng, data: rng.poisson(data), True),
        (lambda rng, data: rng.choice(data), True),
    ],
    ids=["shuffle", "permutation", "normal", "integers", "poisson", "choice"],
)
def test_data_in_a_draw_either_departs_or_takes_the_place_of_the_old_data(draw, departs):
    def call(rng, data):
        data = data.copy()
        told = draw(rng, data)
        return data if told is None else told

    old, new = np.array([3, 5, 8, 9]), np.array([3, 5, 7, 9])
    assert check(call, [old, new], of_numpy.default_rng) == [False, departs]
