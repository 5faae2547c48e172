"""Saved views of MLflow's page: a table of all verdicts, and for each protected unit a table and charts of its claims.

Epsilons that protect different units are different quantities, so no view has measured ones in one column.

MLflow stores a shared view as JSON in a tag of the experiment, and opens the view by a key in the address.
"""

import json
from collections.abc import Iterable
from typing import Any

TABLE = "leakage"  # the key of the view of all verdicts
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


def address(server: str, experiment: str, unit: str | None = None, charts: bool = False) -> str:
    """The address of the table of all verdicts, or of the table or the charts of the claims that protect `unit`."""
    key = TABLE if unit is None else f"{'charts' if charts else 'table'}-{unit}"
    mode = "CHART" if charts else "TABLE"
    query = f"viewStateShareKey={key}&compareRunsMode={mode}&workflowType=machine_learning"
    return f"{server}/#/experiments/{experiment}/runs?{query}"


def known_units(tags: Iterable[str]) -> set[str]:
    """The units whose charts an experiment with these tags has."""
    prefix = f"{VIEW}charts-"
    return {tag.removeprefix(prefix) for tag in tags if tag.startswith(prefix)}


def shown_with(unit: str) -> str:
    """The tag of the runs that the charts of `unit` show: the claims that protect it, and the models without a unit."""
    return f"charts.{unit}"


def saved_views(units: Iterable[str]) -> dict[str, str]:
    """All views, as JSON for MLflow's page by the tag of the experiment that holds them. The table of all verdicts has no column
    of measured numbers.
    """
    last = ["tags.`plan`", "attributes.`Description`"]
    verdicts = ["tags.`verdict`", "params.`unit`", "params.`model`", "params.`mode`", "params.`epsilon`", *last]
    columns = ["tags.`verdict`", *(f"metrics.`{name}`" for name in COLUMNS), *last]
    common = {
        "orderByAsc": True,
        "compareRunSections": [{"uuid": SECTION, "name": SECTION, "display": True, "isReordered": False, "deleted": False}],
        "runsHiddenMode": "SHOWALL",
        "isAccordionReordered": True,
    }
    by_axis = {
        "orderByKey": f"metrics.`{AXIS}`",
        "selectedColumns": columns,
        "columnOrder": columns,
        "compareRunCharts": [_chart(metric) for metric in CHARTS],
    }
    of_all = {"orderByKey": "params.`unit`", "selectedColumns": verdicts, "columnOrder": verdicts, "compareRunCharts": []}
    lines = {"aggregateFunction": "max", "groupByKeys": [{"mode": "tag", "groupByData": LINE}]}
    views: dict[str, dict[str, Any]] = {TABLE: of_all | {"searchFilter": f"tags.{LINE} != ''"}}
    for unit in units:
        views[f"table-{unit}"] = by_axis | {"searchFilter": f"tags.`{shown_with(unit)}` != ''"}
        views[f"charts-{unit}"] = views[f"table-{unit}"] | {"groupBy": lines}
    return {VIEW + key: json.dumps(common | view) for key, view in views.items()}


def _chart(metric: str) -> dict[str, Any]:
    kept = {"type": "LINE", "deleted": False, "isGenerated": False, "displayPoints": True, "lineSmoothness": 0}
    axis = {"xAxisKey": "metric", "selectedXAxisMetricKey": AXIS, "useGlobalXaxisKey": False}
    scales = {"scaleType": "linear", "xAxisScaleType": "linear", "range": {}}
    return {"uuid": metric, "metricSectionId": SECTION, "metricKey": metric, **kept, **axis, **scales}
