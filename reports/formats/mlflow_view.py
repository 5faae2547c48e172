"""A saved view of MLflow's page: the columns of its list of runs, and charts of leakage against epsilon by system.

MLflow stores a shared view as JSON in a tag of the experiment, and opens the view by a key in the address.
"""

from __future__ import annotations

import json
from typing import Any

KEY = "leakage"
TAG = f"mlflow.sharedViewState.{KEY}"
COLUMNS = (
    "epsilon_claimed",
    "epsilon_lower",
    "epsilon_upper",
    "epsilon_detectable",
    "delta",
    "auc_best",
    "tpr_at_0.1pct_best",
    "test_accuracy",
)
CHARTS = ("epsilon_lower", "epsilon_detectable", "auc_best", "tpr_at_0.1pct_best", "test_accuracy", "epsilon_upper")
SECTION = "leakage against epsilon"


def address(server: str, experiment: str, mode: str = "TABLE") -> str:
    """The address of the view. mode: TABLE or CHART."""
    return f"{server}/#/experiments/{experiment}/runs?viewStateShareKey={KEY}&compareRunsMode={mode}"


def saved_view() -> str:
    """The view as JSON for MLflow's page: claims are grouped by system and plan. Columns: verdict, plan, COLUMNS."""
    columns = ["tags.`verdict`", "tags.`plan`", *(f"metrics.`{name}`" for name in COLUMNS), "attributes.`Description`"]
    grouped = [{"mode": "tag", "groupByData": tag} for tag in ("system", "plan")]
    view = {
        "searchFilter": "tags.system != ''",
        "orderByKey": "metrics.`epsilon_claimed`",
        "orderByAsc": True,
        "selectedColumns": columns,
        "columnOrder": columns,
        "groupBy": {"aggregateFunction": "max", "groupByKeys": grouped},
        "compareRunSections": [{"uuid": SECTION, "name": SECTION, "display": True, "isReordered": False, "deleted": False}],
        "compareRunCharts": [_chart(metric) for metric in CHARTS],
        "runsHiddenMode": "SHOWALL",
        "isAccordionReordered": True,
    }
    return json.dumps(view)


def _chart(metric: str) -> dict[str, Any]:
    kept = {"type": "LINE", "deleted": False, "isGenerated": False, "displayPoints": True, "lineSmoothness": 0}
    axes = {"xAxisKey": "step", "scaleType": "linear", "xAxisScaleType": "linear", "range": {}, "useGlobalXaxisKey": True}
    return {"uuid": metric, "metricSectionId": SECTION, "metricKey": metric, **kept, **axes}
