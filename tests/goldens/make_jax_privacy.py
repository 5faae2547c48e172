"""Makes jax_privacy.json: bounds by jax_privacy on shared inputs. Run it where jax_privacy 2.0.0 is installed.

python -m venv jaxenv && jaxenv/bin/pip install jax_privacy==2.0.0 && jaxenv/bin/python tests/goldens/make_jax_privacy.py
"""

import json
from pathlib import Path

import numpy as np
from jax_privacy import auditing

SIGNIFICANCE, DELTA = 0.05, 1e-5


def scores(seed: int, outs: int, ins: int, mu: float) -> tuple[np.ndarray, np.ndarray]:
    """Both samples from one generator, rounded so that the JSON holds them exactly."""
    draw = np.random.default_rng(seed)
    return np.round(draw.normal(size=outs), 3), np.round(draw.normal(mu, size=ins), 3)


def thresholds() -> list[dict]:
    rows = []
    for seed, (outs, ins, mu) in enumerate([(40, 60, 1.0), (300, 300, 0.5), (500, 400, 2.0), (1000, 1000, 3.0)]):
        out_scores, in_scores = scores(seed, outs, ins, mu)
        auditor = auditing.CanaryScoreAuditor(in_scores, out_scores)
        for at in (-0.0005, 0.7505, 1.9995):
            explicit = auditing.Explicit(at)
            rows.append(
                {
                    "seed": seed, "outs": outs, "ins": ins, "mu": mu, "threshold": at,
                    "clopper_pearson": auditor.epsilon_clopper_pearson(
                        SIGNIFICANCE, DELTA, one_sided=False, threshold_strategy=explicit
                    ),
                    "hull_false_negatives": auditor._fn_counts.tolist(),
                    "hull_true_negatives": auditor._tn_counts.tolist(),
                    "gaussian": auditor.epsilon_from_gdp(SIGNIFICANCE, DELTA, eps_tol=1e-12),
                }
            )  # fmt: skip
    return rows


def guesses() -> list[dict]:
    rows = []
    for m, r, v in [
        (100, 100, 70),
        (100, 40, 38),
        (1000, 200, 170),
        (1000, 1000, 600),
        (5000, 600, 590),
        (1000, 100, 100),
        (200, 80, 41),
    ]:
        for delta in (1e-5, 1e-3):
            rows.append(
                {
                    "m": m, "guesses": r, "correct": v, "delta": delta,
                    "p_values": {e: auditing._one_run_p_value(m, r, v, float(e), delta) for e in ("0", "0.5", "2", "5")},
                    "steinke": auditing._epsilon_one_run(0.0, m, r, v, SIGNIFICANCE, delta),
                    "mahloujifar": auditing._epsilon_one_run_fdp(0.0, m, r, v, SIGNIFICANCE, delta),
                }
            )  # fmt: skip
    return rows


def plain(value: object) -> object:
    return float(value) if isinstance(value, np.floating) else value


if __name__ == "__main__":
    found = {"significance": SIGNIFICANCE, "delta": DELTA, "thresholds": thresholds(), "guesses": guesses()}
    Path(__file__).with_name("jax_privacy.json").write_text(json.dumps(found, default=plain, indent=1) + "\n")
