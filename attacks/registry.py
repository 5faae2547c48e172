"""The membership attacks by name, and which secrets each game keeps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from .links.link_stealing import LinkClassifier, ReferenceGap
from .links.linkteller import LinkTeller
from .links.model_free import EDGE_FREE, FEATURES
from .links.similarity import LinkStealing
from .membership.g_base import GraphBase
from .membership.label_only import NeighbourhoodLabels
from .membership.lira import Lira
from .membership.multi_lira import MultiLira, Together, strongest
from .membership.rmia import Relative
from .membership.shadow_classifier import ShadowMlp
from .membership.threshold import Confidence, Entropy, LabelOnly, ModifiedEntropy

DEPLOYED, ALONE, WHOLE = "posteriors", "posteriors@0-hop", "posteriors@full"

# How everybody is asked in each game, members and others alike. A node that is absent has no edges, so that only models which
# answer for a node on its own can be asked about it fairly.
GAMES = {"label": DEPLOYED, "node": ALONE, "edge": DEPLOYED}
QUERIES = {DEPLOYED: "full", ALONE: "0-hop", "posteriors@half": "half", WHOLE: "union"}
QUERIES |= {"queries": "features", "graph queries": "graphs"}
UNITS = {"label": "unlabelled", "node": "absent", "edge": "dropped"}  # non-members that are units of the game

GUESSES = 2  # of the rest of the graph, by G-BASE, which answers for each with a forward pass around every node
PAIRS_LEARNT = 4000  # by each perceptron of link stealing: as many as Planetoid's graphs give in its source


def _steps(attack: ShadowMlp) -> ShadowMlp:
    """As many steps on a pool of runs as the sources take on one shadow model."""
    return replace(attack, batch=128, epochs=30)


def _together(query: str = DEPLOYED) -> Together:
    return strongest() if query == ALONE else strongest("node", query)


# Each makes an attack that reads the answers to one query.
ATTACKS: dict[str, Callable[..., Any]] = {
    "label-only": LabelOnly,
    "label-only-neighbours": lambda query=DEPLOYED: NeighbourhoodLabels((WHOLE, ALONE)),
    "confidence": Confidence,
    "entropy": Entropy,
    "modified-entropy": ModifiedEntropy,
    "shadow-mlp": lambda query=DEPLOYED: _steps(ShadowMlp((query,))),
    "shadow-mlp-public": lambda query=DEPLOYED: _steps(replace(ShadowMlp((query,)), public=True, name="shadow-mlp-public")),
    "shadow-mlp-ranked": lambda query=DEPLOYED: _steps(ShadowMlp.he((query,))),
    "shadow-mlp-combined": lambda query=DEPLOYED: _steps(ShadowMlp.he((ALONE, WHOLE))),
    "shadow-mlp-2-hop": lambda query=DEPLOYED: _steps(replace(ShadowMlp.he((WHOLE,)), name="shadow-mlp-2-hop", kinds=("node",))),
    "nmi": lambda query=DEPLOYED: _steps(ShadowMlp.gap(query)),
    "nmi-within": lambda query=DEPLOYED: replace(ShadowMlp.gap(query), within=True, name="nmi-within"),
    "lira": lambda query=DEPLOYED: Lira(query=query),
    "lira-offline": lambda query=DEPLOYED: Lira(query=query, online=False),
    "rmia": lambda query=DEPLOYED: Relative(gamma=1.0, query=query),
    "rmia-offline": lambda query=DEPLOYED: Relative(gamma=1.0, query=query, online=False),
    "base": lambda query=DEPLOYED: Relative(query=query),
    "g-base": lambda query=DEPLOYED: GraphBase(samples=GUESSES),
    "multi-lira": lambda query=DEPLOYED: MultiLira("node", (query,), (query,)),
    "strongest": _together,
    "link-stealing": lambda query=DEPLOYED: LinkStealing(query=query),
    **{f"link-stealing-{n}": lambda query=DEPLOYED, n=n: LinkClassifier(n, query, PAIRS_LEARNT) for n in (1, 3, 4, 5, 6, 7)},
    "link-stealing-2": lambda query=DEPLOYED: ReferenceGap(query=query),
    "linkteller": lambda query=DEPLOYED: LinkTeller(normalised=False),
    "linkteller-normalised": lambda query=DEPLOYED: LinkTeller(),
    "edge-lira": lambda query=DEPLOYED: Lira("ends", query),
    "edge-multi-lira": lambda query=DEPLOYED: MultiLira("edge", (query,), (query,)),
    "edge-strongest": lambda query=DEPLOYED: strongest("edge", query),
}
ABOUT = {  # of those that share their class with others
    "shadow-mlp": "A perceptron on posteriors, taught by shadow models (TSTS, Olatunji et al. 2021; PrivGNN's Attack-1).",
    "shadow-mlp-public": "The same perceptron, taught by shadow models of public nodes alone (PrivGNN's Attack-2).",
    "shadow-mlp-ranked": "A perceptron on sorted posteriors of the game's own query (He et al. 2021).",
    "shadow-mlp-combined": "A perceptron on sorted posteriors of both queries (He et al. 2021).",
    "shadow-mlp-2-hop": "The same of the query with neighbours, where nodes are else asked alone.",
    "nmi": "GAP's perceptron on posterior and label, taught by shadow models and tried on others, unlike its code.",
    "nmi-within": "The same perceptron as GAP's code has it: taught and tried on nodes of the very run under attack.",
    "lira-offline": "How far the logit of a node's label stands above those of shadow models without it (Carlini et al. 2022).",
    "rmia": "The share of other nodes over which a node's likelihood ratio prevails (Zarifzadeh et al. 2024).",
    "rmia-offline": "The same, from shadow models without the node.",
    "edge-lira": "LiRA on the distance between the two ends of an edge.",
    "edge-multi-lira": "LiRA on all logits of the two ends of an edge and their distance.",
    "strongest": "The sum of two likelihood ratios, on logits and on their scalars.",
    "edge-strongest": "The same sum, for the two ends of an edge.",
    "linkteller": "How far one end's answer moves when the other's features are moved (Wu et al. 2022).",
    "linkteller-normalised": "The same, relative to how far the moved end's own answer moves.",
}
BASELINES = (FEATURES, EDGE_FREE)  # see no model: what they gain against non-edges is homophily


def how_asked(attack: Any) -> str:
    """The queries that an attack reads, for the column of that name."""
    return "+".join(QUERIES.get(n, n) for n in attack.needs)
