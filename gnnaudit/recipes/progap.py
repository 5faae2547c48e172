"""Trains the official ProGAP (Sajadmanesh and Gatica-Perez 2024) from a checkout of its repository, without any of its code here.

    python progap.py WORLDS OUT CHECKOUT EPSILON [posteriors]

This program needs the packages that the checkout imports; docs/recipes.md lists versions. With `posteriors`, it releases only the
posteriors.
"""

import sys
from pathlib import Path
from types import ModuleType

sys.path[:0] = [sys.argv[3], str(Path(__file__).parents[1])]

import torch
import torch_geometric  # noqa: F401  imported before the stand-ins, which PyG must not take for the packages
from target import target

for name, imported in {"torch_sparse": "SparseTensor", "pyg_lib": "", "pyg_lib.sampler": "neighbor_sample"}.items():
    try:  # methods that this program does not use import these names
        __import__(name)
    except ImportError:
        sys.modules[name] = ModuleType(name)
        setattr(sys.modules[name], imported or "__path__", object if imported else [])

from core.methods.progap.edge import EdgeLevelProGAP
from torch_geometric.transforms import ToSparseTensor

torch.set_num_threads(1)
with target() as runs:
    for run in runs:
        run.seed_everything()
        method = EdgeLevelProGAP(run.classes, epsilon=float(sys.argv[4]), device="cpu", verbose=False)
        inputs, sums, sound = [], [], method.nap.mechanism.perturb

        def watched(clean, sensitivity, sums=sums, sound=sound):
            sums.append(sound(clean, sensitivity))
            return sums[-1]

        method.nap.mechanism.perturb = watched
        method.nap.register_forward_pre_hook(
            lambda _, given, inputs=inputs: inputs.append(torch.nn.functional.normalize(given[0], dim=-1))
        )
        method.setup(ToSparseTensor(layout=torch.sparse_csr)(run.data()))
        method.fit()
        scores = method.predict()
        found = (scores[1] if isinstance(scores, tuple) else scores).softmax(-1)
        alone = sys.argv[5:] == ["posteriors"]
        run.release(found) if alone else run.release(found, aggregates=sums, inputs=inputs, noise_std=method.noise_scale)
