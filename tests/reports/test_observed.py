"""Recorded mechanisms as a reader sees them."""

from gnnaudit.reports.observed import alike


def test_recorded_mechanisms_that_differ_in_their_numbers_alone_share_a_row():
    moved = dict.fromkeys((1, 4, 9), 0.5)
    rows = [{"number": n, "line": "a.py, line 1", "move": moved.get(n, 0.0)} for n in range(1, 11)]
    assert alike(rows) == [("1, 4, 9", rows[0]), ("2–3, 5–8, 10", rows[1])]
    assert alike(rows[1:2]) == [("2", rows[1])]
    every_second = [{**row, "move": float(row["number"] % 2)} for row in rows]
    assert alike(every_second) == [("1, 3, 5, … (5 in all)", every_second[0]), ("2, 4, 6, … (5 in all)", every_second[1])]
