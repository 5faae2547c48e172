"""The teachers of PrivGNN and PATE: many GraphSAGE networks, trained together, each on its own small graph."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..engine.adam import Adam
from ..engine.dropout import Dropout
from ..engine.gnn_layers import Values, sage
from ..kernels.compiler import compiled
from . import compiled_teachers
from .graphsage_recipe import Recipe
from .public_part import Public
from .small_graphs import Columns, Graphs, Prepared, arcs_within

EPSILON, MOMENTUM = 1e-5, 0.1  # constants of batch norm, as in PyTorch
CACHE = 32 << 20  # most bytes of the first layers' weights of all teachers that train together
HIDDEN = 1 << 20  # most bytes of one hidden layer's activations of all teachers that train together; more do not fit the cache


def start(
    recipe: Recipe, randoms: list[np.random.Generator], width: int, columns: Columns | None, device: str = "cpu"
) -> list[Values]:
    """The initial parameters of every layer, as in PyTorch Geometric's SAGEConv and PyTorch's BatchNorm1d. width: 2 dim.

    Layers before a batch norm have no bias, because the norm would remove it.
    """
    first, units = recipe.hidden[0], (*recipe.hidden, recipe.classes)
    whole = np.stack([uniform(r, (width, first), width // 2) for r in randoms])
    weight = whole if columns is None else whole.reshape(-1, first)[columns.ids][None]
    layers = [{"weight": weight}]
    for inputs, outputs in zip(recipe.hidden, units[1:], strict=True):
        pairs = [{n: uniform(r, (inputs, outputs), inputs) for n in ("neighbours", "own")} for r in randoms]
        layers.append({n: np.stack([p[n] for p in pairs]) for n in ("neighbours", "own")})
    layers[-1]["bias"] = np.stack([uniform(r, (1, recipe.classes), recipe.hidden[-1]) for r in randoms])
    values: list[Values] = [{n: torch.from_numpy(v).to(device).requires_grad_() for n, v in layer.items()} for layer in layers]
    for layer, outputs in zip(values[:-1], recipe.hidden, strict=True):
        shape = (len(randoms), 1, outputs)
        layer |= {n: torch.full(shape, v, device=device) for n, v in (("mean", 0.0), ("variance", 1.0))}
        layer |= {n: torch.full(shape, v, device=device, requires_grad=True) for n, v in (("scale", 1.0), ("shift", 0.0))}
        layer["bias"] = torch.zeros(1, device=device)
    return values


def uniform(random: np.random.Generator, shape: tuple[int, int], inputs: int) -> NDArray[np.float32]:
    """Numbers drawn uniformly from ±1/√inputs, float32."""
    drawn = random.random(shape, dtype=np.float32)
    drawn -= 0.5
    drawn *= 2 / np.sqrt(np.float32(inputs))
    return drawn


def trained(values: list[Values]) -> list[Tensor]:
    return [v for layer in values for v in layer.values() if v.requires_grad]


def adams_of(recipe: Recipe, values: list[Values], before: list[Adam] | None = None) -> list[Adam]:
    """One optimiser for each trained tensor. before: optimisers whose moments and step counts the new ones copy."""
    fresh = [Adam(v.detach(), recipe.learning_rate) for v in trained(values)]
    for new, old in zip(fresh, before or fresh, strict=True):
        new.mean, new.square, new.steps = old.mean.clone(), old.square.clone(), old.steps
    return fresh


def train(
    recipe: Recipe,
    values: list[Values],
    graphs: Prepared,
    target: NDArray[np.float32],
    randoms: list[np.random.Generator],
    adams: list[Adam],
) -> None:
    """Minimises -sum(target * log softmax), and changes the networks in place. target: (graphs, classes, size), the label
    distribution of each row times the weight of the row.
    """
    if compiled_teachers.expressible(graphs):
        compiled_teachers.train(recipe, values, trained(values), graphs, target, randoms, adams)
        return
    on_cpu = graphs.real.device.type == "cpu"
    compiled.in_torch(f"teachers: {f'more than {compiled_teachers.DENSE} dense features' if on_cpu else 'on an accelerator'}")
    rows = [int(n) for n in graphs.real.sum((1, 2))]
    wanted = torch.from_numpy(target).to(graphs.real.device)
    dropouts = [Dropout(recipe.dropout, rows, randoms, str(graphs.real.device)) for _ in recipe.hidden]
    for _ in range(recipe.epochs):
        logits = forward(values, graphs, dropouts)
        loss = (logits.transpose(1, 2).log_softmax(1) * wanted).sum().neg()
        for adam, gradient in zip(adams, torch.autograd.grad(loss, trained(values)), strict=True):
            adam.step(gradient)


def ask(values: list[Values], graphs: Prepared) -> NDArray[np.float32]:
    """The networks' answers for all rows of their graphs: log-probabilities (B, size, classes) float32."""
    with torch.no_grad():
        answer: NDArray[np.float32] = forward(values, graphs, None).log_softmax(2).cpu().numpy()
    return answer


def forward(values: list[Values], graphs: Prepared, dropouts: list[Dropout] | None) -> Tensor:
    """Logits (B, size, classes). With `dropouts`, batch norm and dropout work as in training, else as in prediction."""
    weight, blocks = values[0]["weight"], graphs.blocks
    if isinstance(graphs.inputs, Tensor):
        x = torch.bmm(graphs.inputs, weight)
    else:
        x = (graphs.inputs @ weight).view(blocks.runs, blocks.size, -1)
    for i, layer in enumerate(values[:-1]):
        x = x if i == 0 else sage(layer, x, blocks)
        if dropouts is None:
            slope = layer["scale"] * (layer["variance"] + EPSILON).rsqrt()
            x = torch.relu_((x - layer["mean"]) * slope + layer["shift"])
        else:
            kept = dropouts[i].mask(x.shape) if dropouts[i].share else graphs.real
            x = Activated.apply(x, layer, layer["scale"], layer["shift"], graphs, kept, 1 / (1 - dropouts[i].share))
    return sage(values[-1], x, blocks)


def learned(
    recipe: Recipe,
    graphs: tuple[Graphs, Graphs],
    columns: Columns | None,
    target: NDArray[np.float32],
    randoms: list[np.random.Generator],
    device: str,
    before: list[Adam] | None = None,
) -> tuple[NDArray[np.float32], list[Adam]]:
    """Trains fresh networks on the first of `graphs`. Returns their answers in the second, see `ask`, and their optimisers.
    target: as in `train`. before: as in `adams_of`.
    """
    learnt, asked = graphs
    values = start(recipe, randoms, learnt.inputs.shape[1], columns, device)
    adams = adams_of(recipe, values, before)
    train(recipe, values, Prepared.of(learnt, columns, device), target, randoms, adams)
    return ask(values, Prepared.of(asked, columns, device)), adams


class Activated(torch.autograd.Function):
    """Batch norm of each graph separately, over its real rows, then ReLU and dropout. The backward pass is written by hand,
    because autograd is slower.

    Padding rows are zero before and after. kept: 0 for dropped units, `factor` for kept ones. The running moments of `layer` are
    updated as in PyTorch.
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, layer: Values, scale: Tensor, shift: Tensor, graphs: Prepared, kept: Tensor, factor: float
    ) -> Tensor:
        mean = x.sum(1, keepdim=True) / graphs.counts
        centred = (x - mean).mul_(graphs.real)
        variance = centred.square().sum(1, keepdim=True) / graphs.counts
        layer["mean"].lerp_(mean, MOMENTUM)
        layer["variance"].lerp_(variance * (graphs.counts / (graphs.counts - 1).clamp_(min=1)), MOMENTUM)
        inverse = (variance + EPSILON).rsqrt()
        unit = centred.mul_(inverse)
        y = torch.addcmul(shift, unit, scale).relu_().mul_(kept)
        ctx.save_for_backward(unit, y, scale * inverse)
        ctx.graphs, ctx.factor = graphs, factor
        return y

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        unit, y, slope = ctx.saved_tensors
        slant = torch.ops.aten.threshold_backward(grads[0], y, 0).mul_(ctx.factor)
        shift = slant.sum(1, keepdim=True)
        scale = (slant * unit).sum(1, keepdim=True)
        slant.sub_(shift / ctx.graphs.counts).addcmul_(unit, scale / ctx.graphs.counts, value=-1)
        return slant.mul_(slope).mul_(ctx.graphs.real), None, scale, shift, None, None, None


def labels_as_target(y: NDArray[np.int64], members: list[NDArray[np.int64]], classes: int, size: int) -> NDArray[np.float32]:
    """(B, classes, size) float32: 1 / (number of the graph's members) at the label of each member, else 0."""
    target = np.zeros((len(members), classes, size), dtype=np.float32)
    for b, rows in enumerate(members):
        target[b, y[rows], np.arange(len(rows))] = 1 / max(1, len(rows))
    return target


@dataclass(frozen=True, eq=False)
class Lesson:
    """The task of one teacher. run: the index of its run. random: the generator of its training. members: ids of the private
    nodes from which it learns. asked: ids of the public nodes that it labels.
    """

    run: int
    random: np.random.Generator
    members: NDArray[np.int64]
    asked: NDArray[np.int64]


def taught(public: Public, arcs: sp.csr_array, recipe: Recipe, lessons: list[Lesson], device: str = "cpu") -> NDArray[np.float32]:
    """Trains a fresh teacher for every lesson, and returns the teachers' answers in the public graph: log-probabilities (lessons,
    asked, classes) float32.

    arcs: the arcs between private nodes, see `between`; a teacher sees those between its members. Teachers do not depend on one
    another or on noise, so the answers are the same at all noise levels.
    """
    inputs, answers = public.inputs(), []
    width = inputs[0].shape[1]
    if hasattr(inputs[0], "nnz"):  # there are at most as many columns as stored values
        width = min(width, 2 * int(inputs[0].nnz / inputs[0].shape[0] * max(len(s.members) + len(s.asked) for s in lessons)))
    rows = max(1, *(len(s.members) for s in lessons))
    step = max(1, min(HIDDEN // (4 * rows * max(recipe.hidden)), CACHE // (4 * width * recipe.hidden[0])))
    present = public.private_present()
    for first in range(0, len(lessons), step):
        part = lessons[first : first + step]
        graphs, target, randoms = drawn(public, arcs, inputs, present, recipe, part)
        found, _ = learned(recipe, graphs, Columns.read(*graphs), target, randoms, device)
        answers.append(found[:, : part[0].asked.size])
    return np.concatenate(answers)


def taught_in_turn(
    public: Public, arcs: sp.csr_array, recipe: Recipe, turns: list[list[Lesson]], device: str = "cpu"
) -> tuple[NDArray[np.float32], list[Adam]]:
    """Trains as the released code of PrivGNN does: each run has one network, which is reset for every lesson, and optimisers that
    are never reset.

    turns: for each turn, one lesson for each run. Returns log-probabilities (K, turns, classes) of the first queried node, and
    the optimisers after the last turn.
    """
    inputs, present, answers = public.inputs(), public.private_present(), []
    adams: list[Adam] | None = None
    for turn in turns:
        graphs, target, randoms = drawn(public, arcs, inputs, present, recipe, turn)
        found, adams = learned(recipe, graphs, Columns.every(graphs[0]), target, randoms, device, adams)
        answers.append(found[:, 0])
    assert adams is not None
    return np.stack(answers, axis=1), adams


def drawn(
    public: Public, arcs: sp.csr_array, inputs: Any, present: NDArray[np.bool_] | None, recipe: Recipe, lessons: list[Lesson]
) -> tuple[tuple[Graphs, Graphs], NDArray[np.float32], list[np.random.Generator]]:
    """The graphs on which some teachers learn and those in which they are queried; their targets; and their generators."""
    rows, begins = inputs
    runs = np.array([s.run for s in lessons])
    members = [s.members for s in lessons]
    balls = [public.ball(s.run, s.asked, len(recipe.hidden)) for s in lessons]
    asked = [ball + begins[s.run] for ball, s in zip(balls, lessons, strict=True)]
    own = Graphs.induced(public.x, members, arcs_within(arcs, members, None if present is None else present[runs]))
    whole = Graphs.cut_out(rows, asked, arcs_within(public.arcs, balls, public.usable(runs)))
    target = labels_as_target(public.worlds.graph.y, members, recipe.classes, own.size)
    return (own, whole), target, [s.random for s in lessons]
