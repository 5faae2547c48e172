"""The names, parameters, metrics and tags of a run in MLflow, in the form that its list, charts and compare page use."""

import hashlib
import json
import math
import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from ..evidence import stem
from ..files import plain
from ..results import AccountRow, AttackRow, Results, UtilityRow
from ..rounding import down, up
from ..summary import BESIDE, COVERED, Key, Line, as_text, budget, key, lines, name, shows_leakage
from .mlflow_view import AXIS, LINE, shown_with

SHORT = {"dp_accounting-pld": "pld", "dp_accounting-rdp": "rdp"}
RATES = {"0.001": "0.1pct", "0.01": "1pct", "0.1": "10pct"}
DIGITS = 4  # significant digits of metrics
FINE = 1000  # number of MLflow's steps in a nat if some budget is not a whole number, because steps are whole numbers


class Child(NamedTuple):
    """One MLflow run. identity: unique within the run folder. files: glob pattern of its evidence files. step: the step of all
    its metrics. seconds: duration of the audits of its claim; None stands for the duration of the whole run.
    """

    identity: str
    name: str
    params: dict[str, str]
    metrics: dict[str, float]
    tags: dict[str, str]
    files: str = ""
    step: int = 0
    seconds: float | None = None


def parent(found: Results) -> Child:
    """The `Child` for the whole plan."""
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
    """The fields of an MLflow Dataset for the graph; empty if the run does not describe its graph."""
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
    """One `Child` for each combination of model, mode, unit and budget.

    MLflow's compare page draws the first three parameters that differ, by name. So delta is a metric only: as a parameter, it
    would push the model off the page.
    """
    claims = {line.key: line for line in lines(found)}
    known = dict.fromkeys([*(key(r) for r in found.rows if isinstance(r, UtilityRow | AccountRow | AttackRow)), *claims])
    budgets = [k.epsilon for k in known if math.isfinite(k.epsilon)]
    units = [*dict.fromkeys(str(k.unit) for k in known if k.unit)]
    return [_child(found, k, claims.get(k), *place(k.epsilon, budgets), units) for k in known]


def place(epsilon: float, budgets: Iterable[float]) -> tuple[float, int]:
    """Where the charts draw a claim: its budget in nats, and the step of its metrics, which is the same number if all budgets are
    whole, else a number of thousandths of a nat.

    A model without noise gets twice the largest budget, so that its point is at the right end of the chart.
    """
    finite = [*budgets]
    at = epsilon if math.isfinite(epsilon) else 2 * max(finite, default=0.5)
    return at, round((1 if all(b == int(b) for b in finite) else FINE) * at)


def _child(found: Results, k: Key, line: Line | None, at: float, step: int, units: list[str]) -> Child:
    here = [r for r in found.rows if key(r) == k]
    sigma = next((r.sigma for r in here if isinstance(r, UtilityRow) and r.sigma is not None), None)
    delta = next((r.delta for r in here if r.delta is not None), None)
    params = {
        "model": k.model,
        "mode": k.mode,
        "unit": str(k.unit or ""),
        "epsilon": budget(k.epsilon, "inf"),
        "sigma": "" if sigma is None else f"{sigma:g}",
        "data": str(found.run.data.get("name", "")),
    }
    attacks = [r for r in here if isinstance(r, AttackRow)]
    metrics = {**_epsilons(k, line, here), **_best(k, attacks), **_utility(here), **_attacks(attacks), AXIS: at}
    if delta is not None:
        metrics["delta"] = delta
    noise = "" if math.isfinite(k.epsilon) else " without noise"
    tags = {LINE: f"{name(k.model, k.mode)}{noise}, {found.run.name}", "plan": found.run.name}
    tags |= {shown_with(unit): "yes" for unit in ([str(k.unit)] if k.unit else units)}
    if line:
        tags |= {
            "verdict": line.verdict.kind if math.isfinite(k.epsilon) else "no claim",
            "mlflow.note.content": as_text(line.verdict.sentence),
        }
    spent = sum({b.audit: b.seconds for b in line.bounds}.values()) if line else 0.0
    # MLflow's list cuts names after about 20 letters, so what tells claims apart comes first
    title = " ".join(w for w in (k.model, f"ε={budget(k.epsilon)}", k.mode, f"per {k.unit}" if k.unit else "") if w)
    identity = "|".join([k.model, k.mode, params["unit"], params["epsilon"]])
    files = stem(k.model, k.mode, f"{k.epsilon:g}", params["unit"]) + "-*.json"
    rounded = {n: _rounded(n, v) for n, v in metrics.items() if math.isfinite(v)}
    return Child(identity, title, params, rounded, tags, files, step, spent)


def _rounded(metric: str, value: float) -> float:
    """The value as the report rounds it: MLflow shows all digits. Upper bounds and reaches are rounded up, lower bounds down."""
    if metric == "epsilon_lower":
        return float(down(value, DIGITS))
    if "epsilon_upper" in metric or metric == "epsilon_detectable":
        return float(up(value, DIGITS))
    return value if metric in ("epsilon_claimed", AXIS, "delta") else float(f"{value:.{DIGITS}g}")


def _utility(rows: Iterable[Any]) -> dict[str, float]:
    metrics = {}
    for row in (r for r in rows if isinstance(r, UtilityRow)):
        name = f"{row.split}_{row.metric}"
        metrics[name] = row.value
        if row.ci95:
            metrics |= {f"interval/{name}_low": row.ci95[0], f"interval/{name}_high": row.ci95[1]}
    return metrics


def _epsilons(k: Key, line: Line | None, rows: Iterable[Any]) -> dict[str, float]:
    """The epsilons of a claim. MLflow's compare page draws the first metric that the compared runs share."""
    metrics = {"epsilon_lower": line.lower.value} if line and line.lower else {}
    metrics["epsilon_claimed"] = k.epsilon
    if line and line.upper:
        metrics["epsilon_upper"] = line.upper[0]
    if line and line.noticing:
        found = line.noticing
        detectable = {"epsilon_detectable": found.detectable_epsilon or found.reach, "accounting/noise_factor": found.notices}
        metrics |= {n: v for n, v in detectable.items() if v is not None}
    for row in rows:
        if not isinstance(row, AccountRow) or row.value is None:
            continue
        side = "published" if row.accountant == "published" else ("upper" if row.is_upper_bound else "estimate")
        of = "" if side == "published" else SHORT.get(row.accountant, row.accountant)
        metrics[f"accounting/{_word('epsilon', side, of)}"] = row.value
    return metrics


def _best(k: Key, rows: Iterable[AttackRow]) -> dict[str, float]:
    """auc_best and tpr_at_0.1pct_best: the largest values of the attacks on the unit that the claim protects,
    without baselines and without random and 2-hop non-edges.
    """
    protected = [r for r in rows if r.game in COVERED[k.unit] and shows_leakage(r)]
    if not protected:
        return {}
    rates = [r.tpr_at_fpr["0.001"] for r in protected if "0.001" in r.tpr_at_fpr]
    return {"auc_best": max(r.auc for r in protected)} | ({"tpr_at_0.1pct_best": max(rates)} if rates else {})


def _attacks(rows: Iterable[AttackRow]) -> dict[str, float]:
    """Metrics named "GAME game/auc_ATTACK" and "GAME game/tpr_at_1pct_ATTACK"; MLflow shows a section for each game. For random
    and 2-hop non-edges, the name also contains the kind of non-member.
    """
    metrics: dict[str, float] = {}
    for row in rows:
        beside = row.negatives if row.negatives in BESIDE else ""
        section = f"{_word(row.game)} game"
        first = f"{section}/auc_{_word(row.attack, beside)}" not in metrics
        suffix = _word(row.attack, beside) if first else _word(row.attack, row.query, row.negatives)
        metrics[f"{section}/auc_{suffix}"] = row.auc
        metrics |= {f"{section}/tpr_at_{RATES.get(rate, rate)}_{suffix}": value for rate, value in row.tpr_at_fpr.items()}
    return metrics


def _word(*parts: str) -> str:
    """The parts joined by "_", as a metric's name: only letters, digits, dots and underscores."""
    return "_".join(re.sub(r"[^\w.]+", "_", p).strip("_") for p in parts if p)
