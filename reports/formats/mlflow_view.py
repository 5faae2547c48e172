"""Saved views of MLflow's page: one table of all claims, and for each protected unit charts of leakage against epsilon.

MLflow stores a shared view as JSON in a tag of the experiment, and opens the view by a key in the address.
"""

import json
from collections.abc import Iterable
from typing import Any

TABLE = "leakage"
VIEW = "mlflow.sharedViewState."  # a tag of the experiment; the key of the view follows
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
AXIS = "epsilon_axis"  # the metric that every chart has on its horizontal axis
LINE = "line"  # the tag whose runs one line of a chart connects
SECTION = "leakage against epsilon"


def address(server: str, experiment: str, unit: str | None = None) -> str:
    """The address of the table of claims, or of the charts of the claims that protect `unit`."""
    key, mode = (TABLE, "TABLE") if unit is None else (charts_of(unit), "CHART")
    query = f"viewStateShareKey={key}&compareRunsMode={mode}&workflowType=machine_learning"
    return f"{server}/#/experiments/{experiment}/runs?{query}"


def charts_of(unit: str) -> str:
    """The key of the view with the charts of the claims that protect `unit`."""
    return f"charts-{unit}"


def known_units(tags: Iterable[str]) -> set[str]:
    """The units whose charts an experiment with these tags has."""
    prefix = VIEW + charts_of("")
    return {tag.removeprefix(prefix) for tag in tags if tag.startswith(prefix)}


def shown_with(unit: str) -> str:
    """The tag of the runs that the charts of `unit` show: the claims that protect it, and the models without a unit."""
    return f"charts.{unit}"


def saved_views(units: Iterable[str]) -> dict[str, str]:
    """The table and the charts of each unit, as JSON for MLflow's page by the tag of the experiment that holds them."""
    columns = [
        "tags.`verdict`",
        "params.`unit`",
        *(f"metrics.`{name}`" for name in COLUMNS),
        "tags.`plan`",
        "attributes.`Description`",
    ]
    common = {
        "orderByKey": f"metrics.`{AXIS}`",
        "orderByAsc": True,
        "selectedColumns": columns,
        "columnOrder": columns,
        "compareRunSections": [{"uuid": SECTION, "name": SECTION, "display": True, "isReordered": False, "deleted": False}],
        "compareRunCharts": [_chart(metric) for metric in CHARTS],
        "runsHiddenMode": "SHOWALL",
        "isAccordionReordered": True,
    }
    lines = {"aggregateFunction": "max", "groupByKeys": [{"mode": "tag", "groupByData": LINE}]}
    views: dict[str, dict[str, Any]] = {TABLE: {"searchFilter": f"tags.{LINE} != ''"}}
    views |= {charts_of(u): {"searchFilter": f"tags.`{shown_with(u)}` != ''", "groupBy": lines} for u in units}
    return {VIEW + key: json.dumps(common | view) for key, view in views.items()}


def _chart(metric: str) -> dict[str, Any]:
    kept = {"type": "LINE", "deleted": False, "isGenerated": False, "displayPoints": True, "lineSmoothness": 0}
    axis = {"xAxisKey": "metric", "selectedXAxisMetricKey": AXIS, "useGlobalXaxisKey": False}
    scales = {"scaleType": "linear", "xAxisScaleType": "linear", "range": {}}
    return {"uuid": metric, "metricSectionId": SECTION, "metricKey": metric, **kept, **axis, **scales}
