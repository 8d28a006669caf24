"""The answer to a what-if question as an object for JSON; docs/what-if.md lists every key."""

from agent import __version__
from agent.assessment.snapshot import Snapshot
from agent.export.capacity_sentences import doubt_sentences, why_no_prediction
from agent.export.snapshot_json import JsonObject, estimate_object, without_non_finite
from agent.what_if.current_state import current_state_of, digests_of
from agent.what_if.question import Question, to_changes
from models.trust import Trust
from models.what_if.assumption_sentences import assumptions
from models.what_if.changes import Changes
from models.what_if.current_state import CurrentState
from models.what_if.predict import Prediction, what_if


def answer(snapshot: Snapshot, asked: Question, now: float) -> JsonObject:
    """Answer a question from what is known at `now` (Unix seconds); raises `QuestionError`."""
    today = current_state_of(snapshot, now)
    load = snapshot.current_load(now)
    wanted = to_changes(asked, load, digests_of(snapshot.current_classes(now)))
    found = what_if(today, wanted)
    document: JsonObject = without_non_finite(
        {
            "version": __version__,
            "at": now,
            "target": snapshot.target,
            "load": _load_object(today),
            "today": _prediction_object(found.today),
            "then": _prediction_object(found.together),
            "changes": [
                {"change": name, "factor": _factor(wanted, name), **_prediction_object(one)}
                for name, one in found.alone
            ],
            "assumptions": list(assumptions(today, wanted)),
            "doubts": _doubts(snapshot, now),
        }
    )
    return document


def _load_object(today: CurrentState) -> JsonObject | None:
    load = today.load
    if load is None:
        return None
    return {"throughput": load.throughput, "residence_time": load.residence_time}


def _prediction_object(found: Prediction) -> JsonObject:
    return {
        "capacity": estimate_object(found.capacity),
        "gain": estimate_object(found.gain),
        "residence_time": estimate_object(found.residence_time),
        "limit": found.limit,
        "limits": dict(found.limits),
        "unknown": list(found.unknown),
    }


def _factor(wanted: Changes, name: str) -> float:
    return float(wanted.queries[name] if name in wanted.queries else getattr(wanted, name))


def _doubts(snapshot: Snapshot, now: float) -> list[str]:
    """Return why today's capacity is not trusted; this applies to the predicted one too."""
    capacity = snapshot.capacity(now)
    if capacity is None:
        return [why_no_prediction(snapshot, now)]
    return [] if capacity.trust is Trust.TRUSTED else doubt_sentences(capacity)
