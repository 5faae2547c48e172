"""Random numbers for the choices of a test, such as the order of equal scores. Used beside bits that a user has drawn."""

import hashlib

import numpy as np
from numpy.typing import ArrayLike


def generator(seed: int, scores: ArrayLike, purpose: str) -> np.random.Generator:
    """A generator whose stream is the same for the same arguments, and is not one from which a user has drawn the bits.

    Users draw bits from generators with small seeds, such as `default_rng(0)`. A test that draws from the same stream repeats the
    user's coins: it then guesses every bit without any leak. So the scores and the purpose are hashed into the seed. The bits are
    not, because a choice that depends on the bits is not fixed beforehand.
    """
    digest = hashlib.sha256(purpose.encode())
    digest.update(np.asarray(scores, dtype=np.float64).tobytes())
    return np.random.default_rng([seed, *np.frombuffer(digest.digest(), dtype=np.uint32).tolist()])
