"""The gate of the GitHub Action, run with an `audit` that ends as a test wants: which jobs pass, which fail, by which code."""

import os
import re
import stat
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
FAKE = """#!/usr/bin/env bash
echo "$@" >> calls
if [ "$1" = compare ]; then printf 'Worse: votes.\nVanished: ballots.\nBefore: a. After: b.\n'; exit {compare}; fi
echo "[1/1] train" >&2
echo "{stderr}" >&2
mkdir -p runs/ci
[ {errors} = none ] || echo '<testsuite errors="{errors}"/>' > runs/ci/junit.xml
printf '## card\n\n{card}\n' > runs/ci/card.md
exit {code}
"""


def gate(folder, code=0, errors="0", compare=0, card="The claim on votes.", stderr="", beside=(), **environment):
    """Its exit code, what it printed, and how it called `audit`. beside: files that exist."""
    for name in beside:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).touch()
    path = folder / "bin" / "audit"
    path.parent.mkdir()
    path.write_text(FAKE.format(code=code, errors=errors, compare=compare, card=card, stderr=stderr))
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    (folder / "runs" / "ci").mkdir(parents=True)
    (folder / "accepted").mkdir()
    (folder / "runs" / "ci" / "junit.xml").write_text('<testsuite errors="0"/>')  # of an earlier run
    given = {"EPSILON": "1", "MODEL": "mine.py:Mine", "GITHUB_OUTPUT": str(folder / "output")} | environment
    given |= {"PATH": f"{path.parent}:{os.environ['PATH']}", "GITHUB_STEP_SUMMARY": str(folder / "summary")}
    script = ["bash", ROOT / "examples" / "ci" / "gate.sh"]
    done = subprocess.run(script, cwd=folder, env=given, capture_output=True, text=True, check=False)
    calls = folder / "calls"
    return done.returncode, done.stdout + done.stderr, calls.read_text() if calls.exists() else ""


@pytest.mark.parametrize(
    ("run", "code", "said"),
    [
        ({"code": 0}, 0, ""),
        ({"code": 1}, 1, "::error::The claim on votes. The report says by what."),
        (
            {"code": 1, "MODEL": "", "TARGET": "x", "card": "at , line 12 (scale 1)"},
            1,
            "::error::at , line 12 (scale 1)",
        ),
        (
            {
                "code": 1,
                "MODEL": "./src/a b.py:Mine",
                "card": "refuted; 1 mechanism at a b.py, line 12 (scale 1) and a b.py, line 3",
            },
            1,
            "::error file=src/a b.py,line=12::refuted; 1 mechanism",
        ),
        (
            {
                "code": 1,
                "MODEL": "src/mine.py:Mine",
                "card": "refuted; at installed.py, line 3 and hops.py, line 7",
                "beside": ["src/mine.py", "src/hops.py"],
            },
            1,
            "::error file=src/hops.py,line=7::refuted; at",
        ),
        ({"code": 2, "errors": "none"}, 2, "::error::The audit did not finish (exit code 2). Its log says why."),
        (
            {"code": 2, "errors": "none", "stderr": "audit: unit='edge': must be one of 100% of these."},
            2,
            "::error::The audit did not finish (exit code 2). audit: unit='edge': must be one of 100%25 of these.",
        ),
        ({"code": 3}, 0, "::warning::The audit was too weak to notice a violation. The claim on votes."),
        ({"code": 3, "WEAK": "fail"}, 3, "::error::The audit was too weak to notice a violation. The claim on votes."),
        ({"code": 3, "errors": "2"}, 3, "tested by no audit"),
        ({"code": 0, "card": "This run tested no claim."}, 3, "::error::This run tested no claim. Give a finite EPSILON."),
        ({"code": 3, "errors": "none"}, 3, "did not finish"),
        ({"code": 0, "errors": "none"}, 3, "did not finish"),
        ({"code": 0, "compare": 1, "BASELINE": "accepted"}, 1, "a verdict is worse. Worse: votes. Vanished: ballots. \n"),
        ({"code": 3, "compare": 3, "BASELINE": "accepted"}, 3, "in common. Worse: votes. Vanished: ballots. \n"),
        ({"code": 0, "compare": 2, "BASELINE": "accepted"}, 2, "The comparison with accepted failed (exit code 2)"),
        ({"BASELINE": "nowhere"}, 2, "BASELINE=nowhere is no folder"),
        ({"EPSILON": ""}, 2, "Give EPSILON"),
        ({"WEAK": "Pass"}, 2, "WEAK=Pass: must be pass or fail"),
        ({"code": 0, "compare": 0, "BASELINE": "accepted"}, 0, ""),
        ({"MODEL": ""}, 2, "Give MODEL or TARGET"),
    ],
)
def test_what_passes_and_what_fails(tmp_path, run, code, said):
    ended, printed, _ = gate(tmp_path, **run)
    assert ended == code
    assert said in printed
    assert ("::" in printed) is bool(said)
    named = run.get("card", "The claim on votes.")
    assert (named in printed) is ((run.get("code") in (1, 3) or "card" in run) and run.get("errors") != "none")


def test_options_reach_the_command_and_the_action_reads_what_the_gate_writes(tmp_path):
    _, _, calls = gate(
        tmp_path, MODEL="", TARGET="python a b.py {worlds} {out}", DELTA="1e-5", UNIT="node", ARGUMENTS="--rounds 3"
    )
    assert "--target python a b.py {worlds} {out} --delta 1e-5 --unit node --rounds 3" in calls
    assert (tmp_path / "summary").read_text() == "## card\n\nThe claim on votes.\n"
    written = dict(line.split("=") for line in (tmp_path / "output").read_text().split())
    assert written == {"exit-code": "0", "folder": "runs/ci"}
    assert set(re.findall(r"steps\.audit\.outputs\.([\w-]+)", (ROOT / "action.yml").read_text())) == set(written)


def test_the_action_hands_every_input_on_and_the_example_uses_no_other():
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    steps = "".join(str(step) for step in action["runs"]["steps"])
    assert all(f"inputs.{name} " in steps for name in action["inputs"])
    (audit,) = (step for step in action["runs"]["steps"] if step.get("id") == "audit")
    read = set(re.findall(r"\$\{?([A-Z]+)\b", (ROOT / "examples" / "ci" / "gate.sh").read_text()))
    assert read == set(audit["env"]) | {"FOLDER", "PIPESTATUS"}  # the folder has a default, which the action keeps
    assert all(step.get("shell") or step.get("uses") for step in action["runs"]["steps"])
    (job,) = yaml.safe_load((ROOT / "examples" / "ci" / "privacy.yml").read_text())["jobs"].values()
    assert set(job["steps"][1]["with"]) <= set(action["inputs"])
