"""The attack: it finds what known columns say of a hidden one, looks at nothing else, and its tree is the longest."""

from itertools import combinations
from math import log

import numpy as np

from releases.engine.disclosure import attack
from releases.engine.noise.randomness import StreamRandomness


def seeded(seed=b"attack"):
    return StreamRandomness(seed)


def rows_of(number, sizes, seed):
    rng = np.random.default_rng(seed)
    return np.stack([rng.integers(0, size, number) for size in sizes], axis=1)


def test_what_two_columns_decide_together_is_guessed_right():
    """Their sum: neither of them alone says anything of it."""
    rows = rows_of(600, (3, 3, 3, 2), seed=1)
    rows[:, 2] = (rows[:, 0] + rows[:, 1]) % 3
    targets = rows_of(300, (3, 3, 3, 2), seed=2)
    found = attack.guess(rows, targets, (3, 3, 3, 2), [2], seeded())[:, 0]
    assert (found == (targets[:, 0] + targets[:, 1]) % 3).all()


def test_rows_that_are_handed_out_are_found_again_and_others_are_not():
    """Of independent columns nothing can be guessed but of the rows themselves. Ten values: chance is right in 10 of
    100 tries, and in 25 of 100 with probability below 1e-9 of 300."""
    sizes = (30, 30, 30, 10)
    rows, others = rows_of(300, sizes, seed=3), rows_of(300, sizes, seed=4)
    own, other = (attack.guess(rows, each, sizes, [3], seeded())[:, 0] == each[:, 3] for each in (rows, others))
    assert own.mean() > 0.8
    assert other.mean() < 0.25


def test_the_hidden_answer_itself_is_not_looked_at():
    sizes = (3, 4, 5)
    rows, targets = rows_of(200, sizes, seed=5), rows_of(100, sizes, seed=6)
    hidden = targets.copy()
    hidden[:, 1] = 0
    assert (attack.guess(rows, targets, sizes, [1], seeded()) == attack.guess(rows, hidden, sizes, [1], seeded())).all()


def test_a_bin_that_no_synthetic_row_has_is_never_guessed_and_one_that_is_known_says_nothing():
    sizes = (4, 4, 4)
    rows, targets = rows_of(100, (2, 2, 2), seed=7), rows_of(100, sizes, seed=8)
    assert attack.guess(rows, targets, sizes, [0, 1, 2], seeded()).max() == 1
    said = attack._messages(rows, 0, 1, sizes)
    assert (said[2:] == 0).all()
    assert said[:2, :2].any()


def test_without_rows_the_first_bin_is_guessed():
    assert not attack.guess(
        np.empty((0, 2), dtype=np.int64), rows_of(5, (2, 2), seed=1), (2, 2), [0, 1], seeded()
    ).any()


def test_a_message_is_the_logarithm_of_how_much_likelier_the_values_are_together():
    rows = np.array([[0, 0]] * 6 + [[0, 1]] * 2 + [[1, 0]] * 1 + [[1, 1]] * 3)
    said = attack._messages(rows, 0, 1, (2, 2))
    for hidden, known, together in ((0, 0, 6), (0, 1, 2), (1, 0, 1), (1, 1, 3)):
        alone = (rows[:, 0] == hidden).sum() * (rows[:, 1] == known).sum()
        assert abs(said[known, hidden] - log(together * 12 / alone)) < 1e-4


def information(rows, one, two):
    """Entropies of both less that of the pair, by counting."""

    def entropy(values):
        shares = np.unique(values, axis=0, return_counts=True)[1] / len(values)
        return -(shares * np.log(shares)).sum()

    return entropy(rows[:, [one]]) + entropy(rows[:, [two]]) - entropy(rows[:, [one, two]])


def test_the_tree_has_the_most_mutual_information_of_all_trees():
    sizes = (3, 3, 4, 2, 3)
    for seed in range(5):
        rows = rows_of(60, sizes, seed)
        rows[:, 1] = np.where(rows[:, 0] > 0, rows[:, 1], rows[:, 0])
        found = {frozenset((one, two)) for one, beside in enumerate(attack._tree(rows, sizes)) for two in beside}
        trees = [each for each in combinations(combinations(range(5), 2), 4) if joins_all(each)]
        best = max(trees, key=lambda tree: sum(information(rows, *pair) for pair in tree))
        assert found == set(map(frozenset, best))


def joins_all(pairs):
    reached = {0}
    for _ in pairs:
        reached |= {each for pair in pairs if reached & set(pair) for each in pair}
    return len(reached) == 5


def test_a_column_of_many_bins_has_no_place_in_the_tree():
    beside = attack._tree(rows_of(50, (3, 60, 3), seed=1), (3, 60, 3))
    assert beside == [[2], [], [0]]
