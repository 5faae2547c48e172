"""A run folder with plausible numbers of four systems, so that the reports have something to show."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from gnnaudit.accounting.claim import Claim, Unit
from gnnaudit.accounting.gaussian import epsilon_of, mu_of
from gnnaudit.accounting.lower.bounds import Bound
from gnnaudit.accounting.upper.accountants import Upper
from gnnaudit.reports import evidence, results
from gnnaudit.reports.evidence import Evidence, judge
from gnnaudit.reports.figures import style
from gnnaudit.reports.formats import html

EDGE, NODE, FEATURES = Unit.UNDIRECTED_EDGE, Unit.NODE, Unit.FEATURES
BUDGETS = (1.0, 8.0, math.inf)
SYSTEMS = {  # unit, delta, accuracy at epsilon 1, 8 and without privacy
    ("gap", "paper"): (EDGE, 1e-6, (0.77, 0.86, 0.89)),
    ("gap", "sound"): (EDGE, 1e-6, (0.73, 0.85, 0.89)),
    ("vesper", "sound"): (EDGE, 1e-6, (0.64, 0.78, 0.86)),
    ("dpar", "sound"): (NODE, 1e-4, (0.41, 0.66, 0.84)),
    ("lpgnn", "sound"): (FEATURES, 0.0, (0.55, 0.71, 0.83)),
}
ATTACKS = {"entropy": 0.01, "confidence": 0.02, "lira": 0.05, "rmia": 0.035}


def bound(claim: Claim, value: float, shape: str, refuted: bool, **others: Any) -> Bound:
    usual = {"method": "gate", "trials": (5000, 5000), "p_value": 1e-9 if refuted else 0.4, "attack": "likelihood-ratio"}
    usual |= {"audit": "game", "notices": 1.2, "reach": 1.25 * claim.epsilon, "alpha": 0.05 / 6} | others
    return Bound(epsilon=value, shape=shape, refuted=refuted, **usual)


def curves(claim: Claim, strength: float, rng: np.random.Generator) -> dict[str, Any]:
    """Trade-off curves of the Gaussian mechanism that costs exactly the claim, and of one `strength` times as leaky."""
    mu = float(mu_of(claim.epsilon, max(claim.delta, 1e-9))) if math.isfinite(claim.epsilon) else 4.0
    alpha = np.concatenate([np.logspace(-6, -1, 60), np.linspace(0.1, 0.999, 60)])
    observed = norm.cdf(-norm.ppf(alpha) - strength * mu)
    zero, one = rng.normal(0, 1, 5000), rng.normal(strength * mu, 1, 5000)
    edges = np.histogram_bin_edges(np.concatenate([zero, one]), 40)
    width = 3 * np.sqrt(observed * (1 - observed) / 5000)
    roc = {}
    for name, gain in ATTACKS.items():
        roc[name] = [alpha, norm.cdf(norm.ppf(alpha) + min(2.0, 20 * gain * strength * mu / 4))]
    return {
        "tradeoff": {
            "claimed": [alpha, norm.cdf(-norm.ppf(alpha) - mu)],
            "ledger": [alpha, norm.cdf(-norm.ppf(alpha) - 0.98 * mu)],
            "observed": [alpha, observed],
            "band": [alpha, np.clip(observed - width, 0, 1), np.clip(observed + width, 0, 1)],
        },
        "residuals": {"expected": np.linspace(-3, 3, 61), "observed": np.linspace(-3, 3, 61) / strength, "count": 40_000},
        "histograms": {"without the edge": counted(zero, edges), "with the edge": counted(one, edges)},
        "roc": roc,
    }


def counted(scores: Any, edges: Any) -> list[Any]:
    return [edges, np.histogram(scores, edges)[0]]


def told(accountant: str, epsilon: float | None, note: str = "", **others: Any) -> Upper:
    usual = {"is_upper_bound": True, "unsupported": None, "seconds": 0.02} | others
    return Upper(accountant=accountant, epsilon=epsilon, note=note, **usual)


def uppers(claim: Claim) -> tuple[Upper, ...]:
    if math.isinf(claim.epsilon):
        return (
            Upper(accountant="dp_accounting-pld", epsilon=math.inf, is_upper_bound=True, unsupported=None, seconds=0.01, note=""),
        )
    true = claim.epsilon * 0.999
    return (
        told("dp_accounting-pld", true * 1.00002, "discretised privacy loss; pessimistic"),
        told("dp_accounting-rdp", true * 1.08, "Renyi orders; valid and loose"),
        told("autodp-rdp", true * 1.081, "Renyi orders; valid and loose"),
        told("opacus-gdp", true * 0.91, "central limit approximation", is_upper_bound=False),
        told("exact", true, "closed form of the Gaussian mechanism"),
        told("opacus-prv", None, unsupported="this ledger does not sample at random"),
    )


def pieces(model: str, mode: str, epsilon: float, rng: np.random.Generator) -> Evidence:
    """The evidence on one claim: GAP as published leaks sqrt(2) times its claim, the others satisfy theirs."""
    unit, delta, _ = SYSTEMS[model, mode]
    claim = Claim(epsilon, delta, unit, exposes=("posteriors", "aggregates") if unit == EDGE else ("posteriors",))
    wrong = (model, mode) == ("gap", "paper") and math.isfinite(epsilon)
    strength = math.sqrt(2) if wrong else 1.0
    ceiling = uppers(claim)
    if math.isinf(epsilon):
        seen: tuple[Bound, ...] = (bound(claim, 9.3, "any", False, notices=math.inf, reach=math.inf),)
    else:
        kept = float(epsilon_of(0.93 * strength * mu_of(epsilon, max(delta, 1e-9)), max(delta, 1e-9)))
        weak = {"notices": 2.9, "reach": 3.4 * epsilon} if unit == NODE and epsilon > 5 else {}
        share = 0.4 if weak else 1.0
        any_shape = {"notices": 1.9, "reach": 2.2 * epsilon} | weak
        seen = (
            bound(claim, share * kept, "ledger", wrong, **weak),
            bound(claim, 0.55 * share * kept, "any", False, **any_shape),
        )
    return Evidence(
        claim=claim,
        model=model,
        mode=mode,
        game="edge" if unit == EDGE else "node",
        ledger="ComposedDpEvent([SelfComposedDpEvent(GaussianDpEvent(noise_multiplier=5.97), 2)])",
        uppers=ceiling,
        bounds=seen,
        curves=curves(claim, strength, rng) if model == "gap" and epsilon == 1 else {},
        reach="1,000 disjoint canary edges in each of 10 runs; the adversary knows all other edges",
        randomness="seeded by 256 bits",
        assumptions=("The node set and the split are public.", "Features and labels are public; only edges are protected."),
        versions={"gnnaudit": "0.1.0", "torch": "2.13.0", "dp-accounting": "0.6.0"},
        seconds=14.2,
    )


def part(auc: float) -> results.Slice:
    return results.Slice(auc=auc, auc_ci95=(auc - 0.02, auc + 0.02), members=400, non_members=400)


def account_rows(found: Evidence) -> list[results.AccountRow]:
    claim = found.claim
    where: dict[str, Any] = {"model": found.model, "mode": found.mode, "unit": claim.unit}
    where |= {"epsilon": claim.epsilon, "delta": claim.delta}
    return [
        results.AccountRow(**where, accountant=u.accountant, value=u.epsilon, is_upper_bound=u.is_upper_bound, note=u.note or "")
        for u in found.uppers
    ]


def attack_rows(found: Evidence, rng: np.random.Generator, leak: float) -> list[results.AttackRow]:
    claim = found.claim
    power = 1.0 if math.isinf(claim.epsilon) else min(1.0, claim.epsilon / 12)
    rows = []
    for name, gain in ATTACKS.items():
        auc = 0.5 + leak + power * gain * 6 + float(rng.normal(0, 0.004))
        rows.append(
            results.AttackRow(
                model=found.model, mode=found.mode, unit=claim.unit, epsilon=claim.epsilon, delta=claim.delta, attack=name,
                game=found.game, query="full", negatives="dropped" if found.game == "edge" else "held out", auc=auc,
                auc_ci95=(auc - 0.012, auc + 0.012), tpr_at_fpr={"0.001": 0.001 + power * gain, "0.01": 0.01 + 2 * power * gain},
                members=1200, non_members=1200, shadows=32, targets=16, baseline_auc=0.512,
                slices={"degree": {g: part(auc + d) for g, d in {"low": 0.03, "middle": 0.0, "high": -0.03}.items()}},
            )
        )  # fmt: skip
    return rows


def utility_rows() -> list[results.UtilityRow]:
    rows = []
    for (model, mode), (unit, delta, values) in SYSTEMS.items():
        for epsilon, value in zip(BUDGETS, values, strict=True):
            rows.append(_utility(model, mode, unit, epsilon, delta, value))
    for model, value in {"mlp": 0.53, "sage": 0.91}.items():
        rows.append(_utility(model, "", None, math.inf, None, value))
    return rows


def _utility(model: str, mode: str, unit: Unit | None, epsilon: float, delta: float | None, value: float) -> results.UtilityRow:
    return results.UtilityRow(
        model=model, mode=mode, unit=unit, epsilon=epsilon, delta=delta, metric="accuracy", split="test", value=value,
        ci95=(value - 0.011, value + 0.011), runs=10, sigma=0.0 if math.isinf(epsilon) else 6 / epsilon,
    )  # fmt: skip


def extra_rows() -> list[results.Row]:
    paper: dict[str, Any] = {"model": "gap", "mode": "paper", "unit": EDGE, "epsilon": 1.0, "delta": 1e-6}
    note = "counts a directed edge (sensitivity 1), where an undirected edge moves two rows (square root of 2)"
    finding = {"printed_epsilon": 4.0, "lower": 4.97, "confidence": 0.95, "source": "Sajadmanesh et al. 2023, Lemma 1"}
    claim = "GAP protects an undirected edge at the printed epsilon"
    reason = "attack 'direct' needs 'aggregates', which this plan does not expose"
    return [
        results.AccountRow(**paper, accountant="published", value=1.0, is_upper_bound=False, as_coded=1.02, note=note),
        results.FindingRow(**paper, id="gap-undirected", claim=claim, verdict="refuted", **finding),
        results.SkippedRow(model="dpar", mode="sound", unit=NODE, epsilon=1.0, what="attack direct", reason=reason),
    ]


def write_example(
    folder: Path, leak: float = 0.0, systems: Iterable[tuple[str, str]] = tuple(SYSTEMS), budgets: Iterable[float] = BUDGETS
) -> Path:
    """Writes results.json, spec.json, plan.toml and evidence of a run. leak: added to every AUC, to have something to compare.
    systems, budgets: the models and modes that it audits, and the epsilons that they claim.
    """
    rng = np.random.default_rng(7)
    found = [pieces(model, mode, epsilon, rng) for model, mode in systems for epsilon in budgets]
    rows: list[results.Row] = [r for r in utility_rows() if not r.mode or (r.model, r.mode) in systems]
    for piece in found:
        evidence.write(piece, folder)
        rows += [*account_rows(piece), *results.bound_rows(piece, 1.5)]
        rows += attack_rows(piece, rng, leak)
    rows += extra_rows()
    verdicts = [judge(p.claim, p.uppers, p.bounds, 1.5) for p in found]
    code = evidence.exit_code(verdicts)
    run = results.Run(
        name=folder.name, started="2026-03-01T09:30:00+00:00", seconds=212.0, seed="seeded by 256 bits; not stored",
        data={"name": "campus", "nodes": 2000, "edges": 38000, "classes": 6, "directed": False, "sha256": "0f" * 32},
        versions={"gnnaudit": "0.1.0", "torch": "2.13.0", "dp-accounting": "0.6.0"},
        machine={"processors": 2, "memory": "24 GiB"}, command="audit run --models gap,progap --mode both --epsilon 1,8,inf",
        verdict="refuted", exit_code=code,
    )  # fmt: skip
    results.write(results.Results(run=run, rows=tuple(rows)), folder)
    (folder / "spec.json").write_text('{"versions": {"gnnaudit": "0.1.0"}}')
    (folder / "plan.toml").write_text('[run]\ndata = "campus"\nepsilon = [1, 8, "inf"]\n')
    return folder


@pytest.fixture(scope="session")
def example_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Read-only; a test that writes makes its own with `write_example`."""
    return write_example(tmp_path_factory.mktemp("runs") / "demo")


@pytest.fixture(scope="session")
def rendered(example_run: Path) -> Path:
    """The same run, with its report and figures, whose PNG files have few pixels."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(style, "PNG_DPI", 40)
        html.render(example_run)
    return example_run
