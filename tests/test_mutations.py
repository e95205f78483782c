"""The table of `mutations.py` is about the code as it stands."""

import pytest

from tests.mutations import MUTATIONS, ROOT, Mutation, mutated, outcomes


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda each: each.name)
def test_each_mistake_can_be_made_in_exactly_one_place_and_names_a_test_that_is_there(mutation):
    text = (ROOT / mutation.file).read_text()
    assert mutated(text, mutation) != text
    file, _, test = mutation.test.partition("::")
    assert f"def {test.split('[')[0]}(" in (ROOT / file).read_text() if test else (ROOT / file).exists()


def test_no_two_mistakes_have_one_name():
    assert len({mutation.name for mutation in MUTATIONS}) == len(MUTATIONS)


def test_a_mistake_whose_text_is_gone_is_an_error_and_one_that_nothing_notices_survives():
    harmless = Mutation(
        name="a comment",
        file="releases/engine/errors.py",
        text='"""',
        instead='"""',
        test="tests/test_mutations.py::test_no_two_mistakes_have_one_name",
    )
    with pytest.raises(ValueError, match="a comment: its text stands in"):
        next(outcomes([harmless]))
