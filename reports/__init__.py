"""From evidence to pages, tables and verdicts."""
