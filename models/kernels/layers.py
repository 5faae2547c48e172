"""The forward and backward passes of layers on one block of nodes. A row holds one unit of every node of the block.

A block is one flat float32 array: the BLOCK nodes of its first unit, then those of the next unit. Innermost loops run over nodes,
so that they fill vectors of any width. Each loop uses few arrays: for many arrays the compiler would not check whether they
overlap, and would generate no vector code.
"""

import numpy as np
from numpy.typing import NDArray

from .arithmetic import power
from .compiler.compiled import helper
from .lanes import WIDTH, load, plus, repeated, store, times

Floats = NDArray[np.float32]

BLOCK = 128  # number of nodes in a block
ZERO, ONE = np.float32(0), np.float32(1)
SCALE, ALPHA = np.float32(1.0507009873554805), np.float32(1.6732632423543772)  # constants of SELU
EPSILON = np.float32(1e-5)  # the epsilon of group norm


@helper
def row(x: Floats, u: int) -> Floats:
    """(BLOCK,): unit u of a block."""
    return x[u * BLOCK : (u + 1) * BLOCK]


@helper
def fill(numbers: Floats, y: Floats) -> None:
    """Sets every number in row o of y to numbers[o]."""
    for o in range(y.size // BLOCK):
        to, number = row(y, o), numbers[o]
        for n in range(BLOCK):
            to[n] = number


@helper
def add_product(w: Floats, down: int, right: int, x: Floats, y: Floats, wide: int = BLOCK) -> None:
    """y += W x with W[o, i] = w[o * down + i * right]. x, y: (inputs, wide) and (outputs, wide), flat. Columns after the last
    multiple of WIDTH are left as they are.

    The sums of six outputs for a few nodes stay in registers. If fewer outputs are left, the last one is computed several times,
    with the same result.
    """
    last, inputs = y.size // wide - 1, x.size // wide
    for n in range(0, wide - WIDTH + 1, WIDTH):
        for o in range(0, last + 1, 6):
            p, q, r, s, t = min(o + 1, last), min(o + 2, last), min(o + 3, last), min(o + 4, last), min(o + 5, last)
            a, b, c = load(y, o * wide + n), load(y, p * wide + n), load(y, q * wide + n)
            d, e, f = load(y, r * wide + n), load(y, s * wide + n), load(y, t * wide + n)
            for i in range(inputs):
                read, at = load(x, i * wide + n), i * right
                a = plus(a, repeated(w, o * down + at), read)
                b = plus(b, repeated(w, p * down + at), read)
                c = plus(c, repeated(w, q * down + at), read)
                d = plus(d, repeated(w, r * down + at), read)
                e = plus(e, repeated(w, s * down + at), read)
                f = plus(f, repeated(w, t * down + at), read)
            store(a, y, o * wide + n)
            store(b, y, p * wide + n)
            store(c, y, q * wide + n)
            store(d, y, r * wide + n)
            store(e, y, s * wide + n)
            store(f, y, t * wide + n)


@helper
def add_outer(dy: Floats, x: Floats, slope: Floats) -> None:
    """slope[o * inputs + i] += the sum over the nodes of dy[o] x[i]. Works in tiles of two outputs and four inputs."""
    outputs, inputs = dy.size // BLOCK, x.size // BLOCK
    high, wide = outputs - outputs % 2, inputs - inputs % 4
    for i in range(0, wide, 4):
        b = x[i * BLOCK : (i + 4) * BLOCK]
        for o in range(0, high, 2):
            a = dy[o * BLOCK : (o + 2) * BLOCK]
            s0, s1, s2, s3, t0, t1, t2, t3 = ZERO, ZERO, ZERO, ZERO, ZERO, ZERO, ZERO, ZERO
            for n in range(BLOCK):
                s0 += a[n] * b[n]
                s1 += a[n] * b[n + BLOCK]
                s2 += a[n] * b[n + 2 * BLOCK]
                s3 += a[n] * b[n + 3 * BLOCK]
                t0 += a[n + BLOCK] * b[n]
                t1 += a[n + BLOCK] * b[n + BLOCK]
                t2 += a[n + BLOCK] * b[n + 2 * BLOCK]
                t3 += a[n + BLOCK] * b[n + 3 * BLOCK]
            upper, lower = slope[o * inputs + i :], slope[(o + 1) * inputs + i :]
            upper[0] += s0
            upper[1] += s1
            upper[2] += s2
            upper[3] += s3
            lower[0] += t0
            lower[1] += t1
            lower[2] += t2
            lower[3] += t3
    for o in range(outputs):
        for i in range(wide if o < high else 0, inputs):
            slope[o * inputs + i] += dot(row(dy, o), row(x, i))


@helper
def dot(a: Floats, b: Floats) -> np.float32:
    """The sum of a[n] b[n]."""
    found = ZERO
    for n in range(BLOCK):
        found += a[n] * b[n]
    return found


@helper
def total(a: Floats) -> np.float32:
    """The sum of a[n]."""
    found = ZERO
    for n in range(BLOCK):
        found += a[n]
    return found


@helper
def selu(x: Floats, y: Floats) -> None:
    for n in range(y.size):
        y[n] = SCALE * (max(x[n], ZERO) + ALPHA * (power(min(x[n], ZERO)) - ONE))


@helper
def selu_slope(y: Floats, dy: Floats, dx: Floats) -> None:
    for n in range(y.size):
        dx[n] = dy[n] * (SCALE if y[n] > ZERO else y[n] + SCALE * ALPHA)


@helper
def load_units(units: Floats, first: int, to: Floats) -> None:
    """to[u * BLOCK + n] = units[u, first + n], or zero if there is no such node."""
    here = min(BLOCK, units.shape[1] - first)
    for u in range(units.shape[0]):
        own, read = row(to, u), units[u, first : first + here]
        for n in range(here):
            own[n] = read[n]
        for n in range(here, BLOCK):
            own[n] = ZERO


@helper
def save_units(block: Floats, first: int, units: Floats) -> None:
    """units[u, first + n] = block[u * BLOCK + n], as far as there are such nodes."""
    here = min(BLOCK, units.shape[1] - first)
    for u in range(units.shape[0]):
        own, to = row(block, u), units[u, first : first + here]
        for n in range(here):
            to[n] = own[n]


@helper
def unit(x: Floats, y: Floats, inverse: Floats) -> None:
    """y = x with every node's vector divided by its length. Writes the inverse lengths into `inverse`, (BLOCK,)."""
    inverse[:] = ZERO
    add_products(x, x, inverse)
    for n in range(BLOCK):
        inverse[n] = ONE / max(np.sqrt(inverse[n]), np.float32(1e-12))
    for n in range(0, BLOCK, WIDTH):
        factor = load(inverse, n)
        for at in range(n, x.size, BLOCK):
            store(times(load(x, at), factor), y, at)


@helper
def add_products(x: Floats, y: Floats, to: Floats) -> None:
    """Adds to `to`, (BLOCK,), for each node the sum over the units of x * y. The sums of a few nodes stay in registers."""
    for n in range(0, BLOCK, 4 * WIDTH):
        p, q, r = n + WIDTH, n + 2 * WIDTH, n + 3 * WIDTH
        a, b, c, d = load(to, n), load(to, p), load(to, q), load(to, r)
        for u in range(0, x.size, BLOCK):
            a = plus(a, load(x, u + n), load(y, u + n))
            b = plus(b, load(x, u + p), load(y, u + p))
            c = plus(c, load(x, u + q), load(y, u + q))
            d = plus(d, load(x, u + r), load(y, u + r))
        store(a, to, n)
        store(b, to, p)
        store(c, to, q)
        store(d, to, r)


@helper
def add_squares(x: Floats, to: Floats, start: np.float32) -> None:
    """Writes into `to`, (BLOCK,), for each node the sum of `start` and the squares of its units."""
    to[:] = start
    for u in range(x.size // BLOCK):
        read = row(x, u)
        for n in range(BLOCK):
            to[n] += read[n] * read[n]


@helper
def unit_slope(y: Floats, inverse: Floats, dy: Floats, dx: Floats, along: Floats) -> None:
    """The backward pass of `unit`. y, inverse: what `unit` wrote. along: scratch memory for one row."""
    along[:] = ZERO
    add_products(y, dy, along)
    for n in range(BLOCK):
        along[n] *= -inverse[n]
    for n in range(0, BLOCK, WIDTH):
        factor, back = load(inverse, n), load(along, n)
        for at in range(n, y.size, BLOCK):
            store(plus(times(load(dy, at), factor), load(y, at), back), dx, at)


@helper
def own_moments(x: Floats, mean: Floats, inverse: Floats) -> None:
    """Writes for every node, over its own units, the mean, and one over the standard deviation. mean, inverse: (BLOCK,)."""
    units = np.float32(x.size // BLOCK)
    mean[:] = ZERO
    inverse[:] = ZERO
    for u in range(x.size // BLOCK):
        read = row(x, u)
        for n in range(BLOCK):
            mean[n] += read[n] / units
    for u in range(x.size // BLOCK):
        read = row(x, u)
        for n in range(BLOCK):
            inverse[n] += (read[n] - mean[n]) * (read[n] - mean[n])
    for n in range(BLOCK):
        inverse[n] = ONE / np.sqrt(inverse[n] / units + EPSILON)


@helper
def group(scale: Floats, shift: Floats, x: Floats, y: Floats, spare: Floats) -> None:
    """Standardises every node over its own units. spare: scratch memory for two rows."""
    mean, inverse = row(spare, 0), row(spare, 1)
    own_moments(x, mean, inverse)
    for u in range(x.size // BLOCK):
        read, to, factor, offset = row(x, u), row(y, u), scale[u], shift[u]
        for n in range(BLOCK):
            to[n] = (read[n] - mean[n]) * inverse[n] * factor + offset


@helper
def group_slope(scale: Floats, x: Floats, dy: Floats, dx: Floats, spare: Floats) -> None:
    """The backward pass of `group`: writes the gradient of x into dx. spare: scratch memory for four rows."""
    units = np.float32(x.size // BLOCK)
    mean, inverse, level, tilt = row(spare, 0), row(spare, 1), row(spare, 2), row(spare, 3)
    own_moments(x, mean, inverse)
    level[:] = ZERO
    tilt[:] = ZERO
    for u in range(x.size // BLOCK):
        read, slope, factor = row(x, u), row(dy, u), scale[u]
        for n in range(BLOCK):
            level[n] += slope[n] * factor
            tilt[n] += slope[n] * factor * (read[n] - mean[n])
    for n in range(BLOCK):
        level[n] /= units
        tilt[n] *= inverse[n] * inverse[n] / units
    for u in range(x.size // BLOCK):
        read, slope, to, factor = row(x, u), row(dy, u), row(dx, u), scale[u]
        for n in range(BLOCK):
            to[n] = (slope[n] * factor - level[n] - (read[n] - mean[n]) * tilt[n]) * inverse[n]


@helper
def group_numbers(x: Floats, dy: Floats, scale_slope: Floats, shift_slope: Floats, spare: Floats) -> None:
    """Adds the gradients of the scale and shift of `group`. spare: scratch memory for two rows."""
    mean, inverse = row(spare, 0), row(spare, 1)
    own_moments(x, mean, inverse)
    for u in range(x.size // BLOCK):
        read, slope, along = row(x, u), row(dy, u), ZERO
        for n in range(BLOCK):
            along += slope[n] * (read[n] - mean[n]) * inverse[n]
        scale_slope[u] += along
        shift_slope[u] += total(slope)


@helper
def exponentials(logits: Floats, to: Floats, top: Floats, sums: Floats) -> None:
    """to = exp(logits - the node's largest logit). Writes the largest logit of every node into `top` and the sum of its
    exponentials into `sums`, (BLOCK,) each.
    """
    top[:] = np.float32(-np.inf)
    sums[:] = ZERO
    for c in range(logits.size // BLOCK):
        read = row(logits, c)
        for n in range(BLOCK):
            top[n] = max(top[n], read[n])
    for c in range(logits.size // BLOCK):
        read, own = row(logits, c), row(to, c)
        for n in range(BLOCK):
            own[n] = power(read[n] - top[n])
            sums[n] += own[n]


@helper
def entropy_slope(logits: Floats, labels: NDArray[np.int64], share: np.float32, d: Floats, spare: Floats) -> None:
    """d = `share` times the gradient of the cross-entropy with respect to the logits; 0 for nodes without a label. labels: one
    for each of the block's first nodes. spare: scratch memory for two rows.
    """
    sums = row(spare, 1)
    exponentials(logits, d, row(spare, 0), sums)
    for n in range(BLOCK):
        sums[n] = share / sums[n] if n < labels.size else ZERO
    for c in range(logits.size // BLOCK):
        to = row(d, c)
        for n in range(BLOCK):
            to[n] *= sums[n]
    for n in range(labels.size):
        d[labels[n] * BLOCK + n] -= share
