"""The membership attacks by name, and the query that each game uses."""

from collections.abc import Callable
from dataclasses import replace

from .base import Attack
from .links.link_stealing import LinkClassifier
from .links.linkteller import LinkTeller
from .links.model_free import EDGE_FREE, FEATURES
from .links.similarity import LinkStealing, ReferenceGap
from .membership.g_base import GraphBase
from .membership.label_only import NeighbourhoodLabels
from .membership.lira import Lira
from .membership.multi_lira import MultiLira, strongest
from .membership.rmia import Relative
from .membership.shadow_classifier import ShadowMlp
from .membership.threshold import Confidence, Entropy, LabelOnly, ModifiedEntropy

DEPLOYED, ALONE, WHOLE = "posteriors", "posteriors@0-hop", "posteriors@full"

# The query of each game, which is the same for members and non-members. A node that is absent from a world has no edges there. So
# in a fair node game, the model must answer for every challenge node as if that node had no edges.
GAMES = {"label": DEPLOYED, "node": ALONE, "edge": DEPLOYED}
QUERIES = {DEPLOYED: "full", ALONE: "0-hop", "posteriors@half": "half", WHOLE: "union"}
QUERIES |= {"queries": "features", "graph queries": "graphs"}
# the name of the non-members that are units of the game
UNITS = {"label": "unlabelled", "node": "absent", "edge": "dropped"}

GUESSES = 2  # how often G-BASE samples the members; each sample costs a forward pass around every node
PAIRS_LEARNT = 4000  # how many training pairs each perceptron of link stealing has, as in its paper on Planetoid's graphs


def _steps(attack: ShadowMlp) -> ShadowMlp:
    """The attack with another batch size and number of epochs. On the whole pool of shadow models, it then takes about as many
    steps of the optimiser as its paper takes on one shadow model.
    """
    return replace(attack, batch=128, epochs=30)


# name -> a function that makes the attack for a query
ATTACKS: dict[str, Callable[..., Attack]] = {
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
    "strongest": lambda query=DEPLOYED: strongest() if query == ALONE else strongest("node", query),
    "link-stealing": lambda query=DEPLOYED: LinkStealing(query=query),
    **{f"link-stealing-{n}": lambda query=DEPLOYED, n=n: LinkClassifier(n, query, PAIRS_LEARNT) for n in (1, 3, 4, 5, 6, 7)},
    "link-stealing-2": lambda query=DEPLOYED: ReferenceGap(query=query),
    "linkteller": lambda query=DEPLOYED: LinkTeller(normalised=False),
    "linkteller-normalised": lambda query=DEPLOYED: LinkTeller(),
    "edge-lira": lambda query=DEPLOYED: Lira("ends", query),
    "edge-multi-lira": lambda query=DEPLOYED: MultiLira("edge", (query,), (query,)),
    "edge-strongest": lambda query=DEPLOYED: strongest("edge", query),
}
ABOUT = {  # descriptions of attacks that share a class; docstrings describe the others
    "shadow-mlp": "A perceptron on posteriors, trained on shadow models (TSTS, Olatunji et al. 2021; PrivGNN's Attack-1).",
    "shadow-mlp-public": "A perceptron on posteriors, trained on shadow models of public nodes only (PrivGNN's Attack-2).",
    "shadow-mlp-ranked": "A perceptron on sorted posteriors of the game's own query (He et al. 2021).",
    "shadow-mlp-combined": "A perceptron on sorted posteriors of both queries (He et al. 2021).",
    "shadow-mlp-2-hop": "A perceptron on sorted posteriors of nodes that are queried with their neighbours (He et al. 2021).",
    "nmi": "GAP's perceptron on posterior and label, but trained on shadow models and tested on other runs.",
    "nmi-within": "GAP's perceptron on posterior and label, as in its code: trained and tested on the run under attack.",
    "lira-offline": "The logit of a node's label, in standard deviations above shadow models without it (Carlini et al. 2022).",
    "rmia": "The share of other nodes whose likelihood ratio is smaller than the node's (Zarifzadeh et al. 2024).",
    "rmia-offline": "RMIA with shadow models that were trained without the node.",
    "edge-lira": "LiRA on the distance between the two ends of an edge.",
    "edge-multi-lira": "LiRA on all logits of the two ends of an edge and their distance.",
    "strongest": "The sum of two likelihood ratios, on logits and on their scalars.",
    "edge-strongest": "The sum of two likelihood ratios, on logits and on their scalars, for the two ends of an edge.",
    "linkteller": "The change of one end's posterior when the other end's features change (Wu et al. 2022).",
    "linkteller-normalised": "LinkTeller, divided by the change of the other end's own posterior.",
}
BASELINES = (FEATURES, EDGE_FREE)  # attacks that read no model: their AUC against non-edges measures homophily


def how_asked(attack: Attack) -> str:
    """The queries that an attack reads, joined by "+", for the column `query` of the report."""
    return "+".join(QUERIES.get(n, n) for n in attack.needs)
