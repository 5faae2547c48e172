"""The output formats of a run: HTML, JUnit, a Markdown card, terminal tables and MLflow."""
