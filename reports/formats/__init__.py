"""The files that a run leaves: HTML, JUnit, terminal tables and the MLflow mirror."""
