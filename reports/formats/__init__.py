"""The output formats of a run: HTML, JUnit, a Markdown card, terminal tables and MLflow.

Used elsewhere: html, mlflow_mirror, mlflow_mirror.refuse_unknown.
"""
