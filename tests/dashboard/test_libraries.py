"""The routes about libraries, each with a program that runs."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import skate
from skate import serve, train, tune
from skate.client.session import keyvalue
from skate.dashboard.app import guarded
from skate.dashboard.guard import Guard
from skate.train.trainer import DataParallelTrainer
from skate.tune.schedulers import AsyncHyperBandScheduler
from skate.util import announcements
from skate.util.announcements import announce
from tests.conformance.waiting import wait_for
from tests.dashboard.asking import access, ask, bearer


@pytest.fixture(scope="module")
def app() -> Iterator[Guard]:
    skate.init(num_cpus=4, object_store_memory=10**8, log_to_driver=False)
    yield guarded(access())
    skate.shutdown()


def get(app: Guard, path: str) -> Any:
    answer = ask(app, path, headers=[bearer("read")])
    assert answer.status == 200, answer
    return answer.json


class Gate:
    """Lets the pieces of work of a dataset pass once a file exists."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        while not self.path.exists():
            threading.Event().wait(0.01)
        return batch


def test_a_dataset_that_is_held_back_and_its_end(app: Guard, tmp_path: Path) -> None:
    pool = skate.data.ActorPoolStrategy(size=1)
    dataset = skate.data.range(3000, override_num_blocks=30).map_batches(lambda batch: batch, num_cpus=0.5)
    dataset = dataset.map_batches(
        Gate, fn_constructor_args=(tmp_path / "open",), compute=pool, batch_size=100, num_cpus=0.5
    )
    dataset.set_name("gated")
    thread = threading.Thread(target=dataset.materialize)
    thread.start()

    def found() -> dict[str, Any]:
        return next(
            (each for each in get(app, "/api/skate/data")["datasets"] if each["dataset"] == "gated"),
            {"operators": []},
        )

    wait_for(lambda: any(row["rule"] == "actors" for row in found()["operators"]))
    seen = found()
    gated = seen["operators"][-1]
    assert seen["state"] == "running" and gated["in_actors"] and gated["why"] == "All of its actors are busy."
    assert gated["queued"] > 0 and gated["rows_out"] == 0 and seen["held_back"] == [gated["name"]]
    assert [row["target"] for row in seen["operators"]] == [1, None]
    (tmp_path / "open").touch()
    thread.join()
    wait_for(lambda: found()["state"] == "ended")
    ended = get(app, f"/api/skate/data?key={seen['key']}")["datasets"]
    assert len(ended) == 1 and ended[0]["rows"] == 3000 and ended[0]["ended"] > ended[0]["began"]
    assert [row["state"] for row in ended[0]["operators"]] == ["done", "done"]
    assert ended[0]["readings"][0]["at"], "it was looked at while it ran"


def test_a_dataset_that_fails_says_why(app: Guard) -> None:
    with pytest.raises(Exception, match="division"):
        skate.data.range(3).map(lambda row: {"x": 1 // 0}).take_all()

    def first() -> dict[str, Any]:
        return dict(get(app, "/api/skate/data")["datasets"][0])

    wait_for(lambda: first()["state"] == "failed")
    assert "ZeroDivisionError" in first()["error"]


def in_ray_shape(app: Guard, status: str, attempts: list[str]) -> None:
    """Check what Ray's route says about the run "seen"."""
    (run,) = (each for each in get(app, "/api/train/v2/runs/v1")["train_runs"] if each["name"] == "seen")
    assert (run["status"], [each["status"] for each in run["attempts"]]) == (status, attempts)
    assert run["job_id"] and run["job_details"]["job_id"] == run["job_id"]
    assert run["start_time_ns"] > 1e18 and (run["end_time_ns"] is None) == (status == "RUNNING")
    first, last = run["attempts"]
    assert "no column 'label'" in first["status_detail"] and last["status_detail"] is None
    assert [each["world_rank"] for each in last["workers"]] == [0, 1] and last["workers"][1][
        "local_rank"
    ] == 1
    assert {each["status"] for each in last["workers"]} == {"ALIVE" if status == "RUNNING" else "DEAD"}
    settings = run["run_settings"]
    assert settings["scaling_config"]["num_workers"] == 2 and settings["backend_config"]["framework"] is None
    assert settings["run_config"]["failure_config"]["max_failures"] == 1
    assert settings["train_loop_config"]["failed"].endswith("failed")


def test_a_run_with_a_failure_a_late_rank_and_its_journal(app: Guard, tmp_path: Path) -> None:
    def function(config: dict[str, Any]) -> None:
        rank = train.get_context().get_world_rank()
        failed = Path(config["failed"])
        for step in range(4):
            if step == 2 and rank == 1 and not failed.exists():
                failed.touch()
                raise ValueError("no column 'label'")
            if step == 3 and rank == 1:
                while not Path(config["open"]).exists():
                    threading.Event().wait(0.01)
            folder = Path(config["folder"]) / f"{rank}-{step}"
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "weights").write_bytes(b"w" * 1000)
            checkpoint = train.Checkpoint.from_directory(str(folder)) if step == 1 else None
            train.report({"loss": 1.0 / (step + 1), "odd": float("nan")}, checkpoint=checkpoint)

    config = {
        "failed": str(tmp_path / "failed"),
        "open": str(tmp_path / "open"),
        "folder": str(tmp_path / "made"),
    }
    run_config = train.RunConfig(
        name="seen", storage_path=str(tmp_path), failure_config=train.FailureConfig(max_failures=1)
    )
    scaling = train.ScalingConfig(num_workers=2)
    trainer = DataParallelTrainer(
        function, train_loop_config=config, scaling_config=scaling, run_config=run_config
    )
    thread = threading.Thread(target=trainer.fit)
    thread.start()

    def found() -> dict[str, Any]:
        return next((each for each in get(app, "/api/skate/train")["runs"] if each["name"] == "seen"), {})

    def is_late() -> dict[str, Any] | None:
        one = found()  # what is announced may be half a second older than the journal
        return one if (one.get("late"), one.get("reports"), one.get("state")) == ([1], 5, "RUNNING") else None

    seen = wait_for(is_late)
    assert seen is not None and seen["failures_count"] == 1
    run = get(app, f"/api/skate/train?key={seen['key']}")["runs"][0]
    assert [rank["waits_for_others"] for rank in run["ranks"]] == [True, False]
    assert run["ranks"][1]["pid"] > 0 and run["ranks"][1]["lag_s"] >= 0
    in_ray_shape(app, "RUNNING", ["ERRORED", "RUNNING"])
    Path(config["open"]).touch()
    thread.join()
    wait_for(lambda: found()["state"] == "FINISHED")
    in_ray_shape(app, "FINISHED", ["ERRORED", "FINISHED"])
    run = get(app, f"/api/skate/train?key={seen['key']}")["runs"][0]
    journal = [json.loads(line) for line in (tmp_path / "seen" / "journal.jsonl").read_text().splitlines()]
    reports = [entry for entry in journal if entry["event"] == "report"]
    assert run["curves"]["metrics"]["loss"] == [entry["metrics"]["loss"] for entry in reports]
    assert run["curves"]["x"] == [entry["index"] for entry in reports]
    assert "odd" not in run["curves"]["metrics"] and run["last"]["odd"] == "nan", "JSON has no NaN"
    assert run["late"] == []
    assert [each["attempt"] for each in run["attempts"]] == [1, 2]
    assert run["failures"][0]["ranks"][0] == 1 and "no column 'label'" in run["failures"][0]["error"]
    kept = run["checkpoints"][0]
    assert kept["bytes"] >= 1000 and kept["upload_s"] >= 0 and not kept["deleted"]


def test_a_search_with_its_trials_and_why_they_ended(app: Guard, tmp_path: Path) -> None:
    def trainable(config: dict[str, Any]) -> None:
        if config["rate"] == 3:
            raise ValueError("diverged")
        for _ in range(4):
            tune.report({"loss": float(config["rate"])})

    space = {"rate": tune.grid_search([1, 2, 3]), "rule": lambda: None}
    scheduler = AsyncHyperBandScheduler(grace_period=1, max_t=10, reduction_factor=2)
    tune.Tuner(
        tune.with_resources(trainable, {"CPU": 1}),
        param_space=space,
        tune_config=tune.TuneConfig(metric="loss", mode="min", scheduler=scheduler, max_concurrent_trials=1),
        run_config=tune.RunConfig(name="searched", storage_path=str(tmp_path), verbose=0),
    ).fit()

    def found() -> dict[str, Any]:
        return next(
            (each for each in get(app, "/api/skate/tune")["searches"] if each["name"] == "searched"), {}
        )

    wait_for(lambda: found().get("state") == "ended")
    seen = found()
    assert seen["name"] == "searched" and seen["best"]["value"] == 1.0 and seen["state"] == "ended"
    assert seen["states"] == {"TERMINATED": 2, "ERROR": 1} and seen["metrics"] == ["loss"]
    search = get(app, f"/api/skate/tune?key={seen['key']}")["searches"][0]
    trials = {each["config"]["rate"]: each for each in search["trials"]}
    # The dashboard does not unpickle configurations; the parameters that were drawn are in the journal as well.
    assert trials[1]["config"] == {"rate": 1} and trials[1]["why"] == ""
    assert trials[2]["why"] == "AsyncHyperBandScheduler has stopped it" and trials[2]["iterations"] < 4
    assert "diverged" in trials[3]["error"] and trials[3]["state"] == "ERROR"
    assert {each["id"]: each["value"] for each in search["curves"]}[trials[1]["id"]] == [1.0] * 4
    again = get(app, f"/api/skate/tune?key={seen['key']}&version={search['version']}")["searches"][0]
    assert again["version"] == search["version"] and "trials" not in again, "nothing is told twice"


def test_a_journal_is_read_after_its_process_has_ended(app: Guard, tmp_path: Path) -> None:
    @skate.remote
    class Other:
        def go(self, journal: str) -> None:
            announce(
                "train", "elsewhere", {"journal": journal, "path": os.path.dirname(journal)}, remember=True
            )

    journal = tmp_path / "journal.jsonl"
    journal.write_text(
        '{"event": "begin"}\n{"event": "report", "index": 0, "metrics": {"loss": 2.0}}\n{"event": "fini'
    )
    other = Other.remote()
    skate.get(other.go.remote(str(journal)))
    skate.kill(other)

    def all_found() -> list[dict[str, Any]]:
        return [each for each in get(app, "/api/skate/train")["runs"] if each["name"] == "elsewhere"]

    def found() -> dict[str, Any]:
        (one,) = all_found()
        return one

    # An answer is used again for half a second, so the run is not there at once.
    wait_for(lambda: [each["is_reachable"] for each in all_found()] == [False])
    assert found()["state"] == "LOST" and found()["last"] == {"loss": 2.0}
    with journal.open("a") as file:
        file.write('shed"}\n{"event": "finished"}\n')
    assert found()["state"] == "FINISHED"


@serve.deployment(max_ongoing_requests=3)
class Shop:
    async def __call__(self, request: Any) -> dict[str, Any]:
        body = (await request.body()).decode()
        if body == "bad":
            raise ValueError("no such product")
        return {"body": body, "path": request.url.path, "method": request.method}


def test_an_application_and_a_request_to_it(app: Guard) -> None:
    serve.start(http_options={"host": "127.0.0.1", "port": 0})
    serve.run(Shop.bind(), name="shop", route_prefix="/shop")  # type: ignore[attr-defined]
    get(app, "/api/skate/serve")
    answer = attempt(app, application="shop", method="POST", path="/a?b=c", body="two")
    assert answer["status"] == 200 and json.loads(answer["answer"]) == {
        "body": "two", "path": "/shop/a", "method": "POST"
    }  # fmt: skip
    assert attempt(app, application="shop", method="POST", body="bad")["status"] == 500

    def deployment() -> dict[str, Any]:
        shop = next(each for each in get(app, "/api/skate/serve")["applications"] if each["name"] == "shop")
        return dict(shop["deployments"][0], http=shop["http"])

    wait_for(lambda: deployment()["requests"] == 2 and deployment()["errors_per_s"] is not None)
    found = deployment()
    assert found["errors"] == 1 and found["replicas_running"] == 1 and found["max_ongoing_requests"] == 3
    assert found["replicas"][0]["pid"] > 0 and found["p95_ms"] >= found["p50_ms"] > 0
    assert {(each["method"], each["status_code"]): each["count"] for each in found["http"]} == {
        ("POST", "200"): 1, ("POST", "500"): 1
    }  # fmt: skip
    more = get(app, "/api/skate/serve?key=shop/Shop")
    assert len(more["readings"]["at"]) >= 2 and len(more["heat"]["counts"]) >= 1
    serve.shutdown()
    assert get(app, "/api/skate/serve")["applications"] == []


def attempt(app: Guard, **given: str) -> Any:
    answer = post(app, given)
    assert answer.status == 200, answer
    return answer.json


def post(app: Guard, given: Any, scope: str = "control") -> Any:
    kind = ("content-type", "application/json")
    return ask(app, "/api/skate/serve/try", "POST", [bearer(scope), kind], body=json.dumps(given).encode())


@pytest.mark.parametrize(
    "given",
    [
        [],
        {},
        {"application": "none"},
        {"application": "http://evil.test/"},
    ],
)
def test_requests_go_to_applications_only(app: Guard, given: Any) -> None:
    assert post(app, given).status == 400


@pytest.mark.parametrize(
    "given",
    [
        {"path": "@evil.test/"},
        {"path": "/a b"},
        {"path": "/a\r\nhost: evil.test"},
        {"path": "/é"},
        {"path": 3},
        {"method": "CONNECT"},
        {"method": "GET /x HTTP/1.1\r\n"},
        {"body": "x" * 70_000},
        {"content_type": "text/plain\r\nx: y"},
    ],
)
def test_requests_that_are_not_sent(given: dict[str, Any]) -> None:
    from skate.dashboard.own_api.serve import checked

    assert checked({"path": "/a%20b?x=1", "method": "POST", "body": "é"}) == (
        "POST",
        "/a%20b?x=1",
        "é",
        "application/json",
    )
    with pytest.raises(ValueError, match="must"):
        checked(given)


def test_a_model_by_its_announcement(app: Guard) -> None:
    counts = {
        "prompt_tokens_total": 10.0,
        "generated_tokens_total": 5.0,
        "requests_running": 2.0,
        "requests_total:ok": 3.0,
    }
    ttft = {"bounds": [0.1, 1.0], "counts": [1.0, 1.0, 0.0]}
    requests: dict[str, Any] = {**counts, "ttft_engine_seconds": ttft}
    engine = {
        "slots": 4,
        "slots_used": 3,
        "waiting": 7,
        "prompt_tokens_asked": 100,
        "prompt_tokens_cached": 25,
    }
    facts = {"model": "tiny", "engine": "embedded", "weights": "/w", "max_model_len": 64}
    said = announce("llm", "tiny", facts, lambda: {"requests": requests, "engine": engine})
    first = get(app, "/api/skate/llm")["models"][0]
    assert (first["running"], first["waiting"], first["cache_share"]) == (2, 7, 0.75)
    assert first["prompts_found_in_cache"] == 0.25 and first["request_ends"] == {"ok": 3}
    assert first["ttft_p50_s"] == pytest.approx(0.1) and first["engine_name"] == "embedded"
    requests["generated_tokens_total"] = 105.0

    def now() -> dict[str, Any]:
        return dict(get(app, f"/api/skate/llm?key={first['key']}")["models"][0])

    wait_for(lambda: now()["tokens_out_per_s"])
    assert now()["tokens_out"] == 105 and len(now()["readings"]["at"]) >= 2
    said.end()


def test_announcements_that_fail_or_hang_do_not_harm_the_others(app: Guard) -> None:
    hold = threading.Event()
    broken = announce("data", "broken", {"dataset": "broken"}, lambda: {"x": 1 // 0})
    stuck = announce("data", "stuck", {"dataset": "stuck"}, lambda: {"done": hold.wait()})

    def found(name: str) -> dict[str, Any]:
        return next((each for each in get(app, "/api/skate/data")["datasets"] if each["dataset"] == name), {})

    get(app, "/api/skate/data")  # the first reading waits for the one that hangs
    assert skate.get(skate.put(1)) == 1, "the session does not wait"
    hold.set()
    wait_for(lambda: "ZeroDivisionError" in found("broken").get("problem", ""))
    broken.end()
    stuck.end()
    wait_for(lambda: found("stuck").get("ended", 0) > 0)


def test_what_a_program_of_the_user_announces(app: Guard) -> None:
    figures = {"rows": 3, "state": "loading", "tables": {"a": 1.5, "password": "hidden"}, "done": False}
    said = announce("imports/daily", "orders", {"source": "orders.csv", "api_key": "hidden"}, lambda: figures)
    hidden = announce("data", "not shown here", {}, None)
    try:
        row = next(each for each in get(app, "/api/skate/programs")["programs"] if each["name"] == "orders")
        assert (row["kind"], row["state"]) == ("imports/daily", "running")
        assert row["facts"] == {"source": "orders.csv", "api_key": "***"}
        assert row["values"] == {
            "rows": 3,
            "state": "loading",
            "tables.a": 1.5,
            "tables.password": "***",
            "done": False,
        }
        assert "not shown here" not in str(get(app, "/api/skate/programs"))
        figures["rows"] = 4

        def readings() -> Any:
            return get(app, f"/api/skate/programs?key={row['key']}")["programs"][0]["readings"]

        wait_for(lambda: readings()["rows"][-1] == 4, what="the number is read again")
        assert readings()["rows"][0] == 3 and set(readings()) == {"at", "rows", "tables.a"}
    finally:
        said.end(outcome="stored")
        hidden.end()
    wait_for(
        lambda: get(app, f"/api/skate/programs?key={row['key']}")["programs"][0]["state"] == "ended",
        what="the end is seen",
    )
    after = get(app, f"/api/skate/programs?key={row['key']}")["programs"][0]
    assert after["facts"]["outcome"] == "stored" and after["values"]["rows"] == 4


def test_remembered_announcements_of_any_kind(app: Guard) -> None:
    remembered = announce("a/kind", "name/with/slashes", {"fact": 1}, remember=True)
    keys = keyvalue.keys("a/kind/", announcements.NAMESPACE)
    assert len(keys) == 1
    remembered.end()
    rows = announcements.collect("", without=["data"])
    assert [(each.library, each.id) for each in rows if each.library == "a/kind"] == [
        ("a/kind", "name/with/slashes")
    ]
    assert announcements.collect("a") == [], "another library, whose name is the beginning"
    keyvalue.delete(keys[0], namespace=announcements.NAMESPACE)
