"""The names, parameters, metrics and tags of a run in MLflow, in the form that its compare view uses."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from ..files import plain
from ..results import AccountRow, AttackRow, Results, UtilityRow
from ..summary import BESIDE, Key, Line, budget, key, lines, name

SHORT = {"dp_accounting-pld": "pld", "dp_accounting-rdp": "rdp"}
RATES = {"0.001": "0.1pct", "0.01": "1pct", "0.1": "10pct"}


class Child(NamedTuple):
    """One MLflow run. identity: unique within its parent. files: pattern of its evidence files."""

    identity: str
    name: str
    params: dict[str, str]
    metrics: dict[str, float]
    tags: dict[str, str]
    files: str = ""


def parent(found: Results) -> Child:
    """The MLflow run of the whole plan."""
    run = found.run
    several = {
        "models": dict.fromkeys(r.model for r in found.rows if r.model),
        "modes": dict.fromkeys(r.mode for r in found.rows if r.mode),
        "epsilons": dict.fromkeys(budget(r.epsilon, "inf") for r in found.rows),
    }
    params = {"data": str(run.data.get("name", "")), "alpha": f"{run.alpha:g}", "notices": f"{run.notices:g}"}
    tags = {"verdict": run.verdict, **{k: ",".join(v)[:500] for k, v in several.items()}}
    tags |= {f"audited.{m}": "; ".join(f"{k}: {v}" for k, v in files.items())[:500] for m, files in run.audited.items()}
    return Child("", run.name, params, {"seconds": run.seconds, "exit_code": float(run.exit_code)}, tags)


def dataset(found: Results) -> dict[str, str]:
    """The fields of an MLflow Dataset for the graph; empty if the run has no facts of it."""
    data = found.run.data
    if not data:
        return {}
    text = json.dumps(plain(data), sort_keys=True, default=str)
    digest = str(data.get("digest") or hashlib.blake2b(text.encode(), digest_size=16).hexdigest())
    source = json.dumps({"name": str(data.get("name", ""))})
    return {
        "name": str(data.get("name") or "graph"),
        "digest": digest[:16],
        "source_type": "gnnaudit",
        "source": source,
        "profile": text,
    }


def children(found: Results) -> list[Child]:
    """One for each model, mode, unit, budget and game; a claim without a membership game has one child without a game."""
    claims = {line.key: line for line in lines(found)}
    games: dict[Key, dict[str, None]] = {key(r): {} for r in found.rows if isinstance(r, UtilityRow | AccountRow)}
    games |= {k: {} for k in claims}
    for row in found.of(AttackRow):
        games.setdefault(key(row), {})[row.game] = None
    return [_child(found, k, game, claims.get(k)) for k, names in games.items() for game in (names or {"": None})]


def _child(found: Results, k: Key, game: str, line: Line | None) -> Child:
    here = [r for r in found.rows if key(r) == k]
    sigma = next((r.sigma for r in here if isinstance(r, UtilityRow) and r.sigma is not None), None)
    delta = next((r.delta for r in here if r.delta is not None), None)
    params = {
        "model": k.model,
        "mode": k.mode,
        "unit": str(k.unit or ""),
        "epsilon": budget(k.epsilon, "inf"),
        "delta": "" if delta is None else f"{delta:g}",
        "sigma": "" if sigma is None else f"{sigma:g}",
        "game": game,
        "data": str(found.run.data.get("name", "")),
    }
    metrics = {
        **_utility(here),
        **_epsilons(k, line, here),
        **_attacks(r for r in here if isinstance(r, AttackRow) and r.game == game),
    }
    verdict = {"verdict": line.verdict.kind, "mlflow.note.content": line.verdict.sentence} if line else {}
    whom, which = f" per {k.unit}" if k.unit else "", f", {game} game" if game else ""
    title = f"{name(k.model, k.mode)} ε={budget(k.epsilon)}{whom}{which}"
    identity = "|".join([k.model, k.mode, params["unit"], params["epsilon"], game])
    files = "-".join([k.model, k.mode, f"{k.epsilon:g}", params["unit"], "*"]) + ".json"
    return Child(identity, title, params, {n: v for n, v in metrics.items() if math.isfinite(v)}, verdict, files)


def _utility(rows: Iterable[Any]) -> dict[str, float]:
    metrics = {}
    for row in (r for r in rows if isinstance(r, UtilityRow)):
        metrics[f"{row.split}_{row.metric}"] = row.value
        if row.ci95:
            metrics |= {f"{row.split}_{row.metric}_low": row.ci95[0], f"{row.split}_{row.metric}_high": row.ci95[1]}
    return metrics


def _epsilons(k: Key, line: Line | None, rows: Iterable[Any]) -> dict[str, float]:
    metrics = {"epsilon_claimed": k.epsilon}
    if line and line.lower:
        metrics["epsilon_lower"] = line.lower.value
        if 0 < k.epsilon < math.inf:
            metrics["tightness"] = line.lower.value / k.epsilon
    if line and line.upper:
        metrics["epsilon_upper"] = line.upper[0]
    for row in rows:
        if not isinstance(row, AccountRow) or row.value is None:
            continue
        side = "published" if row.accountant == "published" else ("upper" if row.is_upper_bound else "estimate")
        metrics[_word("epsilon", side, "" if side == "published" else SHORT.get(row.accountant, row.accountant))] = row.value
    return metrics


def _attacks(rows: Iterable[AttackRow]) -> dict[str, float]:
    """auc_<attack> and tpr_at_1pct_<attack>; for random and 2-hop non-edges, the name contains the kind of non-member."""
    metrics: dict[str, float] = {}
    for row in rows:
        beside = row.negatives if row.negatives in BESIDE else ""
        suffix = (
            _word(row.attack, beside)
            if _word("auc", row.attack, beside) not in metrics
            else _word(row.attack, row.query, row.negatives)
        )
        metrics[f"auc_{suffix}"] = row.auc
        metrics |= {f"tpr_at_{RATES.get(rate, rate)}_{suffix}": value for rate, value in row.tpr_at_fpr.items()}
        if not beside and not row.baseline:
            metrics["auc_best"] = max(row.auc, metrics.get("auc_best", 0.0))
    return metrics


def _word(*parts: str) -> str:
    """A metric's name: letters, digits, dots, dashes and underscores."""
    return "_".join(re.sub(r"[^\w.]+", "_", p).strip("_") for p in parts if p)
