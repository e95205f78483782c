"""Reading questions from their JSON format (version 1): counts, or one statistic."""

from __future__ import annotations

from releases.engine.domain.schema import check_version
from releases.engine.domain.universe import Universe
from releases.engine.errors import InvalidInput
from releases.engine.metering import meter, unmetered
from releases.engine.workload.queries import WORKLOAD_VERSION, Workload
from releases.engine.workload.questions import Inquiry, Question, universe_asked
from releases.engine.workload.statistic import Statistic, statistics_by_word


def read_question(value: object, universe: Universe) -> Question:
    """Read what a release is to answer: counts, or one statistic, in the workload format of version 1.

    Raises:
        InvalidInput: naming the field, the value and the rule.
    """
    meter()
    question = _read(value, universe)
    if universe.counts_apart and isinstance(question, Inquiry):
        # Refuses one of rows and of persons.
        _ = universe_asked(question).is_of_persons
    return question


def read_answered(value: object, universe: Universe) -> Question:
    """Read what a finished release has answered. Reading it needs no leave: nobody can make it longer, and a public
    release has many readers at once.

    Raises:
        InvalidInput: as of `read_question`.
    """
    with unmetered():
        return _read(value, universe)


def _read(value: object, universe: Universe) -> Question:
    queries = value.get("queries") if isinstance(value, dict) else None
    words = (
        [word for query in queries if isinstance(query, dict) for word in query] if isinstance(queries, list) else []
    )
    asked = [word for word in words if word in statistics_by_word()]
    if not asked or not isinstance(value, dict) or not isinstance(queries, list):
        return Workload.from_json(value, universe)
    check_version(value, WORKLOAD_VERSION, what="workload")
    if "states" in value:
        raise InvalidInput("states", value["states"], "goes with counts only")
    if len(queries) != 1 or len(words) != 1:
        raise InvalidInput(
            "queries", ", ".join(words), "must be counts, or one statistic alone: each has its own noise"
        )
    try:
        statistic = read_statistic(asked[0], queries[0][asked[0]], universe)
    except InvalidInput as error:
        raise InvalidInput(f"queries[0].{error.field}", error.value, error.rule) from None
    return Inquiry(universe=universe, statistic=statistic)


def read_statistic(word: str, value: object, universe: Universe) -> Statistic:
    """Read one statistic of the workload format.

    Raises:
        InvalidInput: naming the field, the value and the rule.
    """
    kind = statistics_by_word()[word]
    return kind.read(word, value, universe.ordered(universe.names) if kind.needs_numbers else universe)
