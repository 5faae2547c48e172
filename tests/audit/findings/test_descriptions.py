"""A description with an unknown, missing or wrong key is refused with its file, its finding and the key."""

from typing import get_args

import pytest

from gnnaudit.audit.findings import finding
from gnnaudit.audit.findings.finding import KEYS, Proof, read
from gnnaudit.audit.findings.systems.all_findings import FINDINGS

WHOLE = dict.fromkeys(KEYS, '"words"') | {"printed": "1", "proof": '"exact"'}


def written(folder, lines, head="[some-claim]\n"):
    path = folder / "system.toml"
    path.write_text(head + "".join(f"{key} = {value}\n" for key, value in lines.items()))
    return path


def test_a_whole_description_is_read_and_its_lines_are_joined(tmp_path):
    found = read(written(tmp_path, WHOLE | {"claim": '"""\nOne sentence\nover two lines."""'}))["some-claim"]
    assert (found.id, found.claim, found.printed) == ("some-claim", "One sentence over two lines.", 1.0)


@pytest.mark.parametrize("key", KEYS)
def test_a_missing_key_is_named_with_its_file(tmp_path, key):
    with pytest.raises(ValueError, match=rf"system\.toml, some-claim: missing key '{key}'"):
        read(written(tmp_path, {k: v for k, v in WHOLE.items() if k != key}))


def test_an_unknown_key_is_named_with_its_file(tmp_path):
    with pytest.raises(ValueError, match=r"system\.toml, some-claim: unknown key 'clam'"):
        read(written(tmp_path, WHOLE | {"clam": '"words"'}))


def test_a_key_outside_a_finding_is_named_with_its_file(tmp_path):
    with pytest.raises(ValueError, match=r"system\.toml: unknown key 'paper' outside a finding"):
        read(written(tmp_path, WHOLE, head=""))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("printed", '"1"'),
        ("printed", "-1"),
        ("printed", "nan"),
        ("printed", "true"),
        ("claim", "1"),
        ("claim", '" "'),
        ("proof", '"sure"'),
    ],
)
def test_a_value_of_a_wrong_kind_is_named_with_its_file(tmp_path, key, value):
    with pytest.raises(ValueError, match=rf"system\.toml, some-claim: {key} = "):
        read(written(tmp_path, WHOLE | {key: value}))


def test_a_file_that_is_no_toml_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"system\.toml: not valid TOML"):
        read(written(tmp_path, {"claim": '"no end'}))


@pytest.mark.parametrize("experiments", [{}, {"some-claim": (None, None), "other": (None, None)}])
def test_a_description_without_an_experiment_or_the_reverse_is_refused(tmp_path, experiments):
    path = written(tmp_path, WHOLE)
    with pytest.raises(ValueError, match=r"finding '(some-claim|other)' has no (experiment|description)"):
        finding.with_experiments(str(path), experiments)


def test_every_proof_of_the_schema_is_in_use():
    assert {f.proof for f in FINDINGS.values()} == set(get_args(Proof))
