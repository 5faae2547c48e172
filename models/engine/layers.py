"""Layers of many small networks at once, each with its backward pass written out.

Activations have the runs first and the nodes last: (runs, units, nodes). Every product is then one batched GEMM on contiguous
memory, and a softmax over few classes uses vector instructions. A layer holds no parameters. The caller passes the parameters as
one tuple of tensors with the runs first: trained parameters, then running moments.
"""

import math
from dataclasses import dataclass
from typing import Any, Protocol, cast

import numpy as np
import torch
from torch import Tensor

from .features import Drawn, Shared

Numbers = tuple[Tensor, ...]
Arrays = list[np.ndarray[Any, Any]]

SELU_SCALE = 1.0507009873554805
SELU_ALPHA = 1.6732632423543772
EPSILON = 1e-5  # the epsilon of batch and group norm, PyTorch's default
MOMENTUM = 0.1  # of the running moments of batch norm, PyTorch's default
IN_CACHE = 2**16  # how many float32 numbers stay in the cache


class Layer(Protocol):
    """The protocol of a layer.

    start: the initial parameters and running moments of one run, drawn from that run's stream.
    forward: the output, and the values that `backward` needs. forward never changes its input, which other layers may have saved.
    backward: computes the gradient of the input, dx, from the gradient of the output, dy, and the saved values. It also writes
    the gradients of the parameters into `gradients`, unless `gradients` is None. inner: whether dx is needed; a layer may return
    None if not.
    """

    def start(self, random: np.random.Generator) -> tuple[Arrays, Arrays]: ...

    def forward(self, numbers: Numbers, x: Any, training: bool) -> tuple[Tensor, Any]: ...

    def backward(self, numbers: Numbers, dy: Tensor, saved: Any, gradients: Numbers | None, inner: bool = True) -> Any: ...


class Separable(Layer, Protocol):
    """A layer with trained numbers that does not mix nodes, so that every node has a gradient of its own (DP-SGD).

    gradient: writes the gradients of the trained numbers, without dx. square_norms: (runs, nodes), the squared L2 norm of each
    node's gradient, computed without building that gradient.
    """

    def gradient(self, dy: Tensor, saved: Any, gradients: Numbers) -> None: ...

    def square_norms(self, dy: Tensor, saved: Any) -> Tensor: ...


@dataclass(frozen=True)
class Linear:
    """y = W x + b. Its initial parameters are those of torch.nn.Linear: uniform in ±1/√inputs. x: (runs, inputs, nodes), Shared
    or Drawn.

    centred: whether a batch norm follows, which subtracts b again. The gradient of b is then zero up to rounding errors, which
    Adam would amplify to full steps. So b is not trained.
    """

    inputs: int
    outputs: int
    centred: bool = False

    def start(self, random: np.random.Generator) -> tuple[Arrays, Arrays]:
        bound = 1 / math.sqrt(self.inputs)
        return [random.uniform(-bound, bound, (self.outputs, n)) for n in (self.inputs, 1)], []

    def forward(self, numbers: Numbers, x: Tensor | Shared | Drawn, training: bool) -> tuple[Tensor, Any]:
        weight, bias = numbers
        return torch.baddbmm(bias, weight, x) if isinstance(x, torch.Tensor) else x.product(weight, bias), x

    def backward(self, numbers: Numbers, dy: Tensor, saved: Any, gradients: Numbers | None, inner: bool = True) -> Tensor | None:
        if gradients is not None:
            self.gradient(dy, saved, gradients)
        return torch.bmm(numbers[0].transpose(1, 2), dy) if inner else None

    def gradient(self, dy: Tensor, saved: Any, gradients: Numbers) -> None:
        weight, bias = gradients
        if isinstance(saved, torch.Tensor):
            torch.bmm(dy, saved.transpose(1, 2), out=weight)
        else:
            saved.gradient(dy, weight)
        if self.centred:
            bias.zero_()
        else:
            torch.sum(dy, 2, keepdim=True, out=bias)

    def square_norms(self, dy: Tensor, saved: Any) -> Tensor:
        """A node's gradient is the outer product of dy and (x, 1), whose norm is the product of their norms."""
        lengths = saved.square_lengths() if isinstance(saved, Drawn) else saved.square().sum(1)
        return dy.square().sum(1) * (lengths + 1)


@dataclass(frozen=True)
class Selu:
    """Self-normalising activation (Klambauer et al. 2017)."""

    def start(self, random: np.random.Generator) -> tuple[Arrays, Arrays]:
        return [], []

    def forward(self, numbers: Numbers, x: Tensor, training: bool) -> tuple[Tensor, Any]:
        # torch.selu takes twice as long, because its expm1 is slow. Here a few runs at a time stay in the cache.
        y, few = torch.empty_like(x), max(1, IN_CACHE // max(1, x[0].numel()))
        for part, out in zip(x.split(few), y.split(few), strict=True):
            torch.clamp(part, min=0, out=out)
            out.add_(torch.clamp(part, max=0).exp_().sub_(1), alpha=SELU_ALPHA).mul_(SELU_SCALE)
        return y, y

    def backward(self, numbers: Numbers, dy: Tensor, saved: Any, gradients: Numbers | None, inner: bool = True) -> Tensor | None:
        return torch.ops.aten.elu_backward(dy, SELU_ALPHA, SELU_SCALE, 1.0, True, saved)


@dataclass(frozen=True)
class BatchNorm:
    """torch.nn.BatchNorm1d for each run. Training uses the moments of the given nodes, prediction the running moments."""

    units: int

    def start(self, random: np.random.Generator) -> tuple[Arrays, Arrays]:
        one, zero = np.ones((self.units, 1)), np.zeros((self.units, 1))
        return [one, zero], [zero, one]

    def forward(self, numbers: Numbers, x: Tensor, training: bool) -> tuple[Tensor, Any]:
        scale, shift, running_mean, running_variance = numbers
        if not training:
            factor = scale * (running_variance + EPSILON).rsqrt()
            return torch.mul(x, factor).add_(shift - running_mean * factor), None
        runs, units, nodes = x.shape
        # The nodes are the last axis, over which layer norm standardises.
        y, mean, inverse = torch.native_layer_norm(x.reshape(runs * units, nodes), [nodes], None, None, EPSILON)
        variance = inverse.view_as(scale).pow(-2).sub_(EPSILON).mul_(nodes / max(nodes - 1, 1))
        running_mean.lerp_(mean.view_as(scale), MOMENTUM)
        running_variance.lerp_(variance, MOMENTUM)
        return y.view_as(x).mul_(scale).add_(shift), (x, mean.view(-1), inverse.view(-1))

    def backward(self, numbers: Numbers, dy: Tensor, saved: Any, gradients: Numbers | None, inner: bool = True) -> Tensor | None:
        x, mean, inverse = saved
        wide = (1, x.shape[0] * x.shape[1], x.shape[2])
        dx, dscale, dshift = torch.ops.aten.native_batch_norm_backward(
            dy.reshape(wide), x.reshape(wide), numbers[0].view(-1), None, None, mean, inverse, True, EPSILON, [True, True, True]
        )
        if gradients is not None:
            gradients[0].view(-1).copy_(dscale)
            gradients[1].view(-1).copy_(dshift)
        return dx.view_as(x)


@dataclass(frozen=True)
class GroupNorm:
    """torch.nn.GroupNorm with one group: every node is standardised over its own units."""

    units: int

    def start(self, random: np.random.Generator) -> tuple[Arrays, Arrays]:
        return [np.ones((self.units, 1)), np.zeros((self.units, 1))], []

    def forward(self, numbers: Numbers, x: Tensor, training: bool) -> tuple[Tensor, Any]:
        centred = x - x.mean(1, keepdim=True)
        inverse = centred.square().mean(1, keepdim=True).add_(EPSILON).rsqrt_()
        standard = centred.mul_(inverse)
        return torch.mul(standard, numbers[0]).add_(numbers[1]), (standard, inverse)

    def backward(self, numbers: Numbers, dy: Tensor, saved: Any, gradients: Numbers | None, inner: bool = True) -> Tensor | None:
        standard, inverse = saved
        if gradients is not None:
            self.gradient(dy, saved, gradients)
        d = dy * numbers[0]
        along = (d * standard).mean(1, keepdim=True)
        return (d - d.mean(1, keepdim=True)).sub_(standard * along).mul_(inverse)

    def gradient(self, dy: Tensor, saved: Any, gradients: Numbers) -> None:
        torch.sum(dy * saved[0], 2, keepdim=True, out=gradients[0])
        torch.sum(dy, 2, keepdim=True, out=gradients[1])

    def square_norms(self, dy: Tensor, saved: Any) -> Tensor:
        return (dy * saved[0]).square_().sum(1) + dy.square().sum(1)


@dataclass(frozen=True)
class UnitLength:
    """Divides every node's vector by its L2 norm; a zero vector stays zero (torch.nn.functional.normalize)."""

    def start(self, random: np.random.Generator) -> tuple[Arrays, Arrays]:
        return [], []

    def forward(self, numbers: Numbers, x: Tensor, training: bool) -> tuple[Tensor, Any]:
        inverse = x.square().sum(1, keepdim=True).sqrt_().clamp_(min=1e-12).reciprocal_()
        y = x * inverse
        return y, (y, inverse)

    def backward(self, numbers: Numbers, dy: Tensor, saved: Any, gradients: Numbers | None, inner: bool = True) -> Tensor | None:
        y, inverse = saved
        along = (dy * y).sum(1, keepdim=True)
        return (y * along).sub_(dy).mul_(-inverse)


@dataclass(frozen=True)
class UnitLinear:
    """UnitLength, then Linear, without storing the normalised vectors. The input is the list of the branches' outputs, so that
    they need not be stacked.

    y = (W x) / ‖x‖ + b. With e = dy / ‖x‖, dx = Wᵀ e - x (dy · (y - b)) / ‖x‖².
    """

    inputs: int
    outputs: int

    def start(self, random: np.random.Generator) -> tuple[Arrays, Arrays]:
        return Linear(self.inputs, self.outputs).start(random)

    def forward(self, numbers: Numbers, x: list[Tensor], training: bool) -> tuple[Tensor, Any]:
        weights, bias = numbers[0].split([part.shape[1] for part in x], 2), numbers[1]
        squares, plain = x[0].square().sum(1, keepdim=True), torch.bmm(weights[0], x[0])
        for part, weight in zip(x[1:], weights[1:], strict=True):
            squares.add_(part.square().sum(1, keepdim=True))
            plain.baddbmm_(weight, part)
        inverse = squares.sqrt_().clamp_(min=1e-12).reciprocal_()
        plain.mul_(inverse)
        return plain + bias, (x, inverse, plain)

    def backward(self, numbers: Numbers, dy: Tensor, saved: Any, gradients: Numbers | None, inner: bool = True) -> list[Tensor]:
        x, inverse, plain = saved
        along = (dy * plain).sum(1, keepdim=True).mul_(inverse).mul_(inverse)
        if gradients is not None:
            self.gradient(dy, saved, gradients)
        e = dy * inverse
        weights = numbers[0].split([part.shape[1] for part in x], 2)
        return [torch.baddbmm(part * along, w.transpose(1, 2), e, beta=-1) for part, w in zip(x, weights, strict=True)]

    def gradient(self, dy: Tensor, saved: Any, gradients: Numbers) -> None:
        x, inverse, _ = saved
        e = dy * inverse
        first = 0
        for part in x:
            gradients[0][:, :, first : first + part.shape[1]] = torch.bmm(e, part.transpose(1, 2))
            first += part.shape[1]
        torch.sum(dy, 2, keepdim=True, out=gradients[1])

    def square_norms(self, dy: Tensor, saved: Any) -> Tensor:
        """As for Linear. The inputs of the linear map have length 1, or 0 for a zero vector."""
        x, inverse, _ = saved
        length = cast("Tensor", sum(part.square().sum(1) for part in x)) * inverse[:, 0].square()
        return dy.square().sum(1) * (length + 1)
