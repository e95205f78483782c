"""Histograms of neighbouring tables: how far they lie apart, and that noise on their cells hides it."""

import numpy as np
import pytest

from releases.engine.domain.privacy import NeighbouringRelation
from releases.engine.domain.schema import Schema
from releases.engine.mechanisms.histogram import histogram_sensitivity
from releases.engine.noise.randomness import StreamRandomness
from releases.engine.verification.privacy_loss import loss_seen
from releases.engine.verification.tables import rows_of
from tests.engine.telling import all_neighbours

TOWN = [{"name": "town", "type": "categorical", "categories": ["a", "b", "c"], "outside": "c"}]


@pytest.mark.parametrize("neighbours", NeighbouringRelation)
@pytest.mark.parametrize("rows", [1, 2])
def test_a_histogram_moves_exactly_as_far_as_its_sensitivity_says(neighbours, rows):
    """All small neighbours; a person of two rows is two rows at once, the same ones for the worst case."""
    unit = {"kind": "row"} if rows == 1 else {"kind": "person", "id": "who", "max_rows": rows}
    schema = Schema.from_json({"version": 1, "columns": TOWN, "neighbours": neighbours.value, "unit": unit})
    moves = [
        rows * (rows_of(schema.universe, one).histogram() - rows_of(schema.universe, other).histogram())
        for one, other in all_neighbours([(0,), (1,), (2,)], most_rows=3, neighbours=neighbours.value)
    ]
    declared = histogram_sensitivity(schema)
    assert max(int(np.abs(move).sum()) for move in moves) == declared.l1
    assert max(int((move**2).sum()) for move in moves) == declared.l2_squared


def test_laplace_noise_on_cells_is_not_seen_to_spend_more_than_it_claims():
    """With half of the noise it would be: 2 is spent where 1 is claimed."""
    rng = StreamRandomness(b"cells")
    seen = loss_seen("laplace-histogram", NeighbouringRelation.ADD_REMOVE, runs=2400, false_alarm=1e-6, rng=rng)
    assert seen.is_as_it_should_be
