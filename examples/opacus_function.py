"""DP-SGD with Opacus at node level, as a function that `audit run` audits. The recorder finds Opacus' samples and its noise.

    audit run --model examples/opacus_function.py:model --data campus:n=120:degree=6 --attacks none

Opacus computes the sampling rate, the number of steps and the divisor of a sum from the length of the data set. So the data set
has one row for each node of the graph, also for nodes outside of `train`, whose loss has weight 0. The number of nodes is public.
"""

import dp_accounting as dp
import torch
import torch.nn.functional as F
from opacus import PrivacyEngine
from torch.utils.data import DataLoader, TensorDataset

from gnnaudit import Claim, Looped, Unit

BATCHES, EPOCHS, NOISE, CLIP = 5, 2, 1.5, 1.0


def train(graph, seed):
    torch.manual_seed(seed)
    x, y = torch.as_tensor(graph.x, dtype=torch.float32), torch.as_tensor(graph.y)
    weight = torch.as_tensor(graph.train, dtype=torch.float32)
    size = -(-graph.nodes // BATCHES)
    if -(-graph.nodes // size) != BATCHES:
        raise ValueError(f"{graph.nodes} nodes do not make {BATCHES} batches, which the ledger assumes")
    net = torch.nn.Linear(graph.dim, graph.classes)
    made = PrivacyEngine().make_private(
        module=net,
        optimizer=torch.optim.SGD(net.parameters(), lr=0.5),
        data_loader=DataLoader(TensorDataset(x, y, weight), batch_size=size),
        noise_multiplier=NOISE,
        max_grad_norm=CLIP,
    )
    model, optimizer, loader = made
    for _ in range(EPOCHS):
        for rows, labels, weights in loader:
            optimizer.zero_grad()
            (F.cross_entropy(model(rows), labels, reduction="none") * weights).mean().backward()
            optimizer.step()
    with torch.no_grad():
        return {"posteriors": F.log_softmax(model(x), dim=1).numpy()}


STEP = dp.PoissonSampledDpEvent(1 / BATCHES, dp.GaussianDpEvent(NOISE))
model = Looped(
    train, events=dp.SelfComposedDpEvent(STEP, BATCHES * EPOCHS), claim=Claim(2.52, 1e-5, Unit.NODE), name="opacus-function"
)
