"""Routing by prefix and by session: requests go to the replica with their prompt, sessions stay at one replica."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from skate.llm.openai.requests import ChatCompletionRequest
from skate.serve.llm.affinity import Prefixes, by_prefix, by_session, text_of

SYSTEM = "You are a helpful assistant who knows the whole of the manual. " * 4
names = st.sampled_from(["a", "b", "c", "d"])


def test_a_prompt_goes_where_most_of_it_has_been() -> None:
    prefixes = Prefixes()
    prefixes.add(SYSTEM + "first question", "a")
    prefixes.add("something else entirely", "b")
    loads = {"a": 3, "b": 0, "c": 1}
    assert by_prefix(SYSTEM + "second question", loads, prefixes)[0] == "a"
    assert by_prefix("something else entirely", loads, prefixes)[0] == "b"
    assert by_prefix("never seen", loads, prefixes) == ["b"]
    assert by_prefix(SYSTEM, loads, prefixes, imbalanced_threshold=2) == []
    assert by_prefix(SYSTEM + "x" * 10_000, loads, prefixes) == ["b"]  # too small a share of it
    assert by_prefix(None, loads, prefixes) == []
    assert by_prefix("x", {}, prefixes) == []
    prefixes.drop("a")
    assert by_prefix(SYSTEM, loads, prefixes) == ["b"]


def test_the_oldest_is_forgotten() -> None:
    prefixes = Prefixes(most=4)
    prefixes.add("x" * 64 * 3, "a")
    prefixes.add("y" * 64 * 3, "b")
    assert len(prefixes) == 4
    assert prefixes.longest("y" * 64 * 3, ["a", "b"]) == (1.0, ["b"])
    assert prefixes.longest("x" * 64 * 3, ["a", "b"])[0] < 1


@given(
    st.lists(st.tuples(st.text("ab", min_size=1, max_size=400), names), max_size=8),
    st.text("ab", min_size=1, max_size=400),
)
def test_the_share_is_what_was_there(had: list[tuple[str, str]], text: str) -> None:
    prefixes = Prefixes()
    for each, replica in had:
        prefixes.add(each, replica)
    share, best = prefixes.longest(text, ["a", "b", "c"])

    def common(other: str) -> int:
        return next((at for at, (x, y) in enumerate(zip(text, other)) if x != y), min(len(text), len(other)))  # noqa: B905

    for replica in ("a", "b", "c"):
        most = max((common(each) for each, at in had if at == replica), default=0)
        pieces = -(-len(text) // 64)
        whole = (
            pieces if most == len(text) and any(e == text for e, at in had if at == replica) else most // 64
        )
        if replica in best:
            assert share <= max(whole, most // 64) / pieces + 1e-9
        else:
            assert share >= (most // 64) / pieces - 1e-9 or not best


@given(st.text(), st.lists(st.text(min_size=1), min_size=2, max_size=8, unique=True), st.integers(0, 7))
def test_a_session_moves_only_when_its_replica_goes(session: str, replicas: list[str], gone: int) -> None:
    order = by_session(session, replicas)
    assert sorted(order) == sorted(replicas)
    left = [each for each in replicas if each != replicas[gone % len(replicas)]]
    assert by_session(session, left) == [each for each in order if each in left]
    assert by_session(None, replicas) == []


def test_sessions_are_spread() -> None:
    counts = dict.fromkeys("abcd", 0)
    for number in range(400):
        counts[by_session(f"session {number}", "abcd")[0]] += 1
    assert min(counts.values()) > 60


def test_what_a_request_begins_with() -> None:
    request = ChatCompletionRequest.model_validate(
        {
            "messages": [
                {"role": "system", "content": "S"},
                {"role": "user", "content": [{"type": "text", "text": "U"}]},
            ]
        }
    )
    assert text_of([request]) == "system\nS\nuser\nU"
    assert text_of([{"prompt": "P"}]) == "P"
    assert text_of([{"prompt": [1, 2]}]) == "1 2"
    assert text_of([3, {"other": 1}]) is None
