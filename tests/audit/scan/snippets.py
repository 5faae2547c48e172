"""Snippets that were written before the rules were run on them: CAUGHT must be hit by the rule named, PASSED by none."""

CAUGHT = {
    "generator in apply_async": (
        "shared-generator",
        """
import multiprocessing
import numpy as np

def noisy(rows, rng):
    return rows + rng.laplace(0, 1.0, rows.shape)

def run(parts, rng):
    with multiprocessing.Pool(4) as pool:
        return [t.get() for t in [pool.apply_async(noisy, args=(part, rng)) for part in parts]]
""",
    ),
    "generator in submit": (
        "shared-generator",
        """
from concurrent.futures import ProcessPoolExecutor
import numpy as np

def release(parts):
    source = np.random.default_rng()
    with ProcessPoolExecutor() as workers:
        return [workers.submit(add_noise, part, source).result() for part in parts]
""",
    ),
    "weights into a fresh state_dict": (
        "state-dict-assignment",
        """
def forward(self, x):
    self.lin.state_dict()["weight"] = torch.nn.functional.normalize(self.lin.weight, dim=0)
    return self.lin(x)
""",
    ),
    "noise not times clip": (
        "noise-without-clip",
        """
def step(model, losses, max_grad_norm, noise_multiplier):
    for loss in losses:
        loss.backward(retain_graph=True)
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_grad_norm)
    for p in model.parameters():
        p.grad += noise_multiplier * torch.randn_like(p.grad)
""",
    ),
    "noise of each layer's own clip": (
        "noise-per-tensor",
        """
def privatise(model, clip, sigma):
    for name, p in model.named_parameters():
        p.grad = p.grad * min(1.0, clip / p.grad.norm().item())
        p.grad = p.grad + torch.normal(0.0, sigma * clip, p.grad.shape)
""",
    ),
    "noise with a constant seed": (
        "fixed-seed",
        """
import numpy as np

def randomised_response(adj, epsilon):
    np.random.seed(42)
    flip = 1 / (1 + np.exp(epsilon))
    return adj ^ np.random.binomial(1, flip, adj.shape)
""",
    ),
    "noise of the global generator beside one of its own": (
        "fixed-seed",
        """
def train(x, seed, epsilon):
    gen = torch.Generator().manual_seed(seed)
    torch.manual_seed(0)
    batch = torch.rand(len(x), generator=gen) < 0.2
    return x[batch].sum(0) + torch.randn(x.shape[1])
""",
    ),
    "a generator whose seed the global one draws": (
        "fixed-seed",
        """
def release(x, epsilon):
    np.random.seed(1)
    rng = np.random.default_rng(np.random.randint(2**31))
    return x + rng.laplace(0, 1 / epsilon, x.shape)
""",
    ),
    "a noise generator with a constant seed beside another": (
        "fixed-seed",
        """
def train(x, seed, epsilon):
    coins, noise_gen = torch.Generator(), torch.Generator()
    coins.manual_seed(seed)
    noise_gen.manual_seed(7)
    batch = torch.rand(len(x), generator=coins) < 0.2
    return x[batch].sum(0) + torch.randn(x.shape[1], generator=noise_gen)
""",
    ),
    "a generator handed on under another name": (
        "fixed-seed",
        """
first = np.random.default_rng(3)

def release(x, epsilon, rng):
    return x + rng.laplace(0, 1 / epsilon, x.shape)

print(release(x, 1.0, first))
""",
    ),
    "classical gaussian": (
        "classical-gaussian",
        """
def sigma(epsilon, delta, sensitivity):
    return sensitivity * math.sqrt(2 * math.log(1.25 / delta)) / epsilon
""",
    ),
    "largest private degree": (
        "private-maximum",
        """
def release(adj, epsilon):
    degrees = adj.sum(axis=1)
    sensitivity = degrees.max()
    return adj @ x + np.random.laplace(0, sensitivity / epsilon, x.shape)
""",
    ),
    "best epoch": (
        "best-on-private-data",
        """
def fit(model, data, noise_multiplier, epsilon):
    best_val_acc, best_state = 0, None
    for epoch in range(100):
        dp_step(model, data, noise_multiplier)
        val_acc = evaluate(model, data.val_mask)
        if val_acc > best_val_acc:
            best_val_acc, best_state = val_acc, copy.deepcopy(model.state_dict())
    return best_state
""",
    ),
    "shuffled batches, poisson accountant": (
        "shuffled-batches",
        """
from opacus.accountants.analysis.rdp import compute_rdp

def train(data, sigma):
    loader = DataLoader(data, batch_size=64, shuffle=True)
    for batch in loader:
        noisy_step(batch, sigma)
    return compute_rdp(q=64 / len(data), noise_multiplier=sigma, steps=len(loader), orders=ORDERS)
""",
    ),
}

PASSED = {
    "generators spawned for tasks": """
import multiprocessing
import numpy as np

def run(parts, rng):
    with multiprocessing.Pool(4) as pool:
        return pool.starmap(noisy, zip(parts, rng.spawn(len(parts))))
""",
    "state dict loaded back": """
def forward(self, x):
    state = self.lin.state_dict()
    state["weight"] = torch.nn.functional.normalize(state["weight"], dim=0)
    self.lin.load_state_dict(state)
    return self.lin(x)
""",
    "noise times clip": """
def step(model, losses, clip, noise_multiplier):
    for loss in losses:
        loss.backward(retain_graph=True)
        torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
    std = noise_multiplier * clip
    for p in model.parameters():
        p.grad += std * torch.randn_like(p.grad)
""",
    "flat clip, noise in a loop": """
def privatise(model, clip, sigma):
    total = torch.sqrt(sum(p.grad.norm() ** 2 for p in model.parameters()))
    factor = min(1.0, clip / total)
    for p in model.parameters():
        p.grad = p.grad * factor + torch.normal(0.0, sigma * clip, p.grad.shape)
""",
    "seed of a data split": """
import numpy as np

def split(nodes):
    rng = np.random.default_rng(0)
    return rng.permutation(nodes)
""",
    "seed of initial weights, noise from a generator of its own": """
def train(x, seed, epsilon):
    gen = torch.Generator().manual_seed(seed)
    torch.manual_seed(0)
    net = torch.nn.Linear(x.shape[1], 2)
    torch.nn.init.normal_(net.weight)
    batch = torch.rand(len(x), generator=gen) < 0.2
    return net, x[batch].sum(0) + torch.randn(x.shape[1], generator=gen)
""",
    "seed of a projection, noise from another generator": """
def release(x, seed, epsilon):
    fixed = np.random.default_rng(0)
    projection = fixed.permutation(x.shape[1])
    rng = np.random.default_rng(seed)
    return x[:, projection] + rng.laplace(0, 1 / epsilon, x.shape)
""",
    "exact gaussian": """
def sigma(epsilon, delta, sensitivity):
    return sensitivity / brentq(lambda mu: delta_of(mu, epsilon) - delta, 1e-6, 100)
""",
    "classical gaussian with its condition": """
def sigma(epsilon, delta, sensitivity):
    if epsilon > 1:
        raise ValueError("the formula holds for epsilon of at most 1")
    return sensitivity * math.sqrt(2 * math.log(1.25 / delta)) / epsilon
""",
    "public degree bound": """
def release(adj, x, epsilon, max_degree):
    adj = cap(adj, max_degree)
    return adj @ x + np.random.laplace(0, max_degree / epsilon, x.shape)
""",
    "best epoch without privacy": """
def fit(model, data):
    best_val_acc = 0
    for epoch in range(100):
        train(model, data)
        val_acc = evaluate(model, data.val_mask)
        if val_acc > best_val_acc:
            best_val_acc = val_acc
            torch.save(model.state_dict(), "best.pt")
""",
    "shuffled batches without an accountant": """
def train(data):
    for batch in DataLoader(data, batch_size=64, shuffle=True):
        step(batch)
""",
}
