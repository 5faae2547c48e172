"""Every attack of the table says how it is fitted."""

from gnnaudit.attacks.registry import ATTACKS, BASELINES, GAMES

DIFFERENT = {
    "of_each_unit": {"lira", "lira-offline", "multi-lira", "strongest", "edge-lira", "edge-multi-lira", "edge-strongest"},
    "public": {"shadow-mlp-public"},
    "within": {"nmi-within"},
}


def test_the_attacks_that_are_not_fitted_on_all_units_of_a_pilot_are_these():
    for trait, names in DIFFERENT.items():
        for query in GAMES.values():
            assert {name for name, make in ATTACKS.items() if getattr(make(query), trait) is True} == names
        assert not any(getattr(attack, trait) for attack in BASELINES)
