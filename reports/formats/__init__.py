"""The output formats of a run: HTML, JUnit, terminal tables and the MLflow mirror."""
