"""A line of a user's model that warns in each training is printed once, by the process and its workers together."""

import contextlib
import io
import sys
import warnings
from concurrent.futures import ProcessPoolExecutor

from gnnaudit.audit.own.contained import contained
from gnnaudit.audit.storage.executor import start_worker, workers_context


def noisy(training):
    warnings.warn(f"training {training} is noisy", stacklevel=1)
    with warnings.catch_warnings():  # Python forgets here which warnings it has printed
        warnings.simplefilter("ignore")
    warnings.warn("a warning of another kind", RuntimeWarning, stacklevel=1)


def noisy_elsewhere(training):
    warnings.warn(f"training {training} is noisy in a worker", stacklevel=1)


def said_of(call, training):
    """What a worker prints. Its standard error may be that of an earlier test, in which the fork server started."""
    with contextlib.redirect_stderr(io.StringIO()) as said:
        call(training)
    return said.getvalue()


def test_a_line_that_warns_in_each_training_is_printed_once(recwarn):
    warnings.simplefilter("always")
    for training in range(3):
        with contained():
            noisy(training)
    assert [str(w.message) for w in recwarn] == ["training 0 is noisy", "a warning of another kind"]
    noisy(3)  # outside of the context, Python's own rules hold
    assert len(recwarn) == 4


def test_workers_do_not_repeat_what_their_parent_has_printed():
    path = sys.modules[__name__].__file__
    line = noisy.__code__.co_firstlineno + 1
    context, given = workers_context(), (frozenset({(path, line, "UserWarning")}),)
    with ProcessPoolExecutor(1, mp_context=context, initializer=start_worker, initargs=given) as pool:
        said = "".join(pool.submit(said_of, call, n).result() for n in range(3) for call in (noisy, noisy_elsewhere))
    assert said.count("Warning: ") == 2
    assert "UserWarning: training 0 is noisy in a worker" in said
    assert "RuntimeWarning: a warning of another kind" in said
