"""The `serve` command and the REST API with a standing node, as real processes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("yaml")
pytest.importorskip("uvicorn")

from skate.serve.schema import ServeInstanceDetails
from tests.conformance.waiting import wait_for
from tests.serve.standing import Site, get

PARTS = """
from skate import serve
import words

@serve.deployment(ray_actor_options={"num_cpus": 0}, user_config={"mark": "?"})
class Ingress:
    def __init__(self, teller):
        self.teller = teller

    def reconfigure(self, said):
        self.mark = said["mark"]

    async def __call__(self, request):
        return await self.teller.tell.remote() + self.mark
"""
TELLER = """
import other_words
from skate import serve

@serve.deployment(ray_actor_options={"num_cpus": 0})
class Teller:
    def tell(self):
        return other_words.TEXT
"""
PROGRAM = """
from parts import Ingress
from teller import Teller

app = Ingress.bind(Teller.bind())
number = 5
unbound = Teller
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    made = Site(tmp_path_factory.mktemp("site"))
    made.write("parts.py", PARTS)
    made.write("teller.py", TELLER)
    made.write("program.py", PROGRAM)
    made.write("words.py", "TEXT = 'a'\n")
    made.write("other_words.py", "TEXT = 'one'\n")
    assert "none runs there" in made.serve("status", code=1)
    assert "none runs there" in made.serve("deploy", "program:app", code=1)
    made.node.start()
    assert "applications: {}" in made.serve("status")
    assert "No configuration was found" in made.serve("config")
    assert "Serve does not run on this node" in made.serve("controller-health", code=1)
    output = made.serve("start", "--http-port", str(made.port), "--rest-port", str(made.rest_port))
    assert f"127.0.0.1:{made.port}" in output and "made up" not in output
    health = json.loads(made.serve("controller-health", "--json"))
    assert health["num_control_loops"] > 0 and f"uptime_s: {health['uptime_s']}"[:9] in made.serve(
        "controller-health"
    )
    yield made
    assert "standard input is not a terminal" in made.serve("shutdown", code=1)
    assert made.ask()[0] == 200
    made.serve("shutdown", "-y")
    assert made.ask()[1]["applications"] == {} and get(made.port) == (0, "")
    made.end()


@pytest.fixture(autouse=True)
def nothing_left_by_the_test(nothing_left_by_the_module: None) -> None:
    """Skip the check after each test, because the tests share a node. The check for the whole module remains."""


def config(**deployments: Any) -> dict[str, Any]:
    listed = [{"name": name, **output} for name, output in deployments.items()]
    return {"applications": [{"name": "a", "import_path": "program:app", "deployments": listed}]}


def test_build_deploy_status_and_config(site: Site) -> None:
    site.serve("build", "program:app", "-o", "built.yaml")
    text = (site.folder / "built.yaml").read_text()
    assert "import_path: program:app" in text and "name: Teller" in text
    text = text.replace("port: 8000", f"port: {site.port}").replace("0.0.0.0", "127.0.0.1")
    site.write("built.yaml", text.replace("mark: '?'", "mark: '!'"))
    assert "Deploying app1" in site.serve("deploy", "built.yaml", "--address", site.rest)
    site.running("app1")
    assert get(site.port) == (200, "one!")
    output = site.serve("status", "--name", "app1")
    assert "status: RUNNING" in output and "RUNNING: 1" in output and "Teller" in output
    assert "The applications are: app1" in site.serve("status", "-n", "nobody", code=1)
    assert "import_path: program:app" in site.serve("config", "-n", "app1")
    assert "Applications with a config: app1" in site.serve("config", "-n", "nobody", code=1)
    ServeInstanceDetails.model_validate(site.ask()[1])


def test_what_is_unchanged_keeps_running(site: Site) -> None:
    assert site.ask("PUT", config()) == (200, {})
    first = site.pids("a")
    wait_for(lambda: set(site.ask()[1]["applications"]) == {"a"}, 20, "the end of what the file has no more")
    assert site.ask("PUT", config()) == (200, {})
    assert site.pids("a") == first, "nothing has changed"
    assert site.ask("PUT", config(Ingress={"user_config": {"mark": "!!"}}))[0] == 200
    wait_for(lambda: get(site.port) == (200, "one!!"), 20, "the new user_config")
    assert site.pids("a") == first, "a user_config is told to those that run"
    site.write("other_words.py", "TEXT = 'two'\n")
    assert site.ask("PUT", config(Ingress={"user_config": {"mark": "!!"}}))[0] == 200
    wait_for(lambda: get(site.port) == (200, "two!!"), 20, "the changed module")
    now = site.pids("a")
    assert now["Ingress"] == first["Ingress"] and not now["Teller"] & first["Teller"]
    site.serve("deploy", "program:app", "--name", "a")
    assert site.pids("a")["Teller"] == now["Teller"], "the code is the same, whoever imports it"


def test_a_program_in_another_folder(site: Site, tmp_path: Path) -> None:
    """The node and Serve were started from other folders; modules of the same name do not mix."""
    (tmp_path / "program.py").write_text(
        "import os\nimport words\nfrom skate import serve\n"
        "@serve.deployment(ray_actor_options={'num_cpus': 0})\ndef where(request):\n"
        "    import late\n    return words.TEXT + late.TEXT + os.getcwd()\n"
        "app = where.bind()\n"
    )
    (tmp_path / "words.py").write_text("TEXT = 'other '\n")
    (tmp_path / "late.py").write_text("TEXT = 'late '\n")
    site.serve("deploy", "program:app", "--name", "other", folder=tmp_path)
    site.running("other")
    wait_for(lambda: get(site.port) == (200, f"other late {tmp_path}"), 20, "the other program's words")


def test_runtime_environment(site: Site, tmp_path: Path) -> None:
    (tmp_path / "flavoured.py").write_text(
        "import os\nfrom skate import serve\n"
        "@serve.deployment(ray_actor_options={'num_cpus': 0, 'runtime_env': {'env_vars': {'B': 'own'}}})\n"
        "def flavour(request):\n    return os.environ['A'] + os.environ['B']\n"
        "app = flavour.bind()\n"
    )
    environment = '{"env_vars": {"A": "said ", "B": "not this"}}'
    words = ["deploy", "flavoured:app", "--runtime-env-json", environment, "--working-dir", str(tmp_path)]
    site.serve(*words, "--address", site.rest)
    wait_for(lambda: get(site.port) == (200, "said own"), 30, "the environment")
    assert "is not JSON" in site.serve("deploy", "flavoured:app", "--runtime-env-json", "{", code=1)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("applications:\n- name: a\n  import_path: p:app\n  route: /x\n", "line 4: applications[0].route: "),
        (
            "applications:\n- import_path: p:app\n  deployments:\n  - name: A\n    autoscaling_config:\n"
            "      max_replica: 3\n",
            "line 6: applications[0].deployments[0].autoscaling_config.max_replica: AutoscalingConfig has no field "
            "'max_replica'; did you mean 'max_replicas'?",
        ),
        (
            "applications:\n- {name: a, import_path: 'p:app'}\n- {name: b, import_path: 'p:app'}\n",
            "line 3: applications[1].route_prefix: Found duplicate applications for route prefix",
        ),
        ("http_options:\n  port: many\napplications: []\n", "line 2: http_options.port: "),
        ("applications: [\n", "is not valid YAML"),
        ("- 1\n", "line 1: ServeDeploySchema must be a dict"),
    ],
)
def test_files_with_mistakes(site: Site, text: str, complaint: str) -> None:
    from skate.serve.config_loader import read

    path = site.write("wrong.yaml", text)
    with pytest.raises(ValueError) as caught:
        read(str(path))
    assert complaint in str(caught.value) and str(path) in str(caught.value)


def test_mistakes_are_told_and_change_nothing(site: Site) -> None:
    site.ask("PUT", config())
    before = site.pids("a")
    site.write("wrong.yaml", "applications:\n- {name: a, import_path: 'program:app', route_prefx: /}\n")
    assert "did you mean 'route_prefix'" in site.serve("deploy", "wrong.yaml", code=1)
    assert "there is no module 'nowhere'" in site.serve("deploy", "nowhere:app", code=1)
    assert "applications there: app" in site.serve("deploy", "program:ap", code=1)
    assert "Expected a built Serve application" in site.serve("deploy", "program:number", code=1)
    assert "call .bind(...) on it" in site.serve("deploy", "program:unbound", code=1)
    assert "cannot be read" in site.serve("deploy", "missing.yaml", code=1)
    site.write("broken.py", "import program\n1 / 0\n")
    output = site.serve("deploy", "broken:app", code=1)
    assert "division by zero" in output and "broken.py, line 2" in output
    assert site.serve("deploy", code=2)
    apps = site.ask()[1]["applications"]
    assert set(apps) == {"a", "default"}
    failed = apps["default"]
    assert (failed["status"], failed["deployments"]) == ("DEPLOY_FAILED", {})
    assert "broken.py" in failed["message"] and "ZeroDivisionError: division by zero" in failed["message"]
    wrong = {**config(), "applications": [{"name": "a", "import_path": "broken:app"}]}
    code, answer = site.ask("PUT", wrong)
    assert code == 500 and "division by zero" in answer["error"]
    output = site.serve("status", "--name", "a")
    assert "status: DEPLOY_FAILED" in output and "ZeroDivisionError" in output
    assert get(site.port)[0] == 200, "the earlier version is served on"
    assert site.ask("PUT", config()) == (200, {})
    assert site.pids("a") == before
    assert set(site.ask()[1]["applications"]) == {"a"}


def test_a_prefix_that_is_taken(site: Site) -> None:
    site.ask("PUT", config())
    before = site.pids("a")
    words = ["run", "program:app", "--name", "b", "--address", "auto", "--non-blocking"]
    assert "is taken by application 'a'" in site.serve(*words, code=1)
    site.serve(*words, "--route-prefix", "/b")
    assert get(site.port, "/b")[0] == 200, "it outlives the command that ran it"
    wrong = {"name": "c", "route_prefix": "/b", "import_path": "program:app"}
    status, answer = site.ask("PUT", {"applications": [wrong]})
    assert status in (400, 500) and "'b'" in answer["error"]
    assert site.pids("a") == before, "what is refused changes nothing"
    assert site.ask("PUT", config())[0] == 200
    assert get(site.port, "/b")[0] == 200, "what was run from Python is not a file's to end"


def test_the_rest_api_refuses(site: Site) -> None:
    assert site.ask(token="wrong")[0] == 401
    assert "SKATE_SERVE_TOKEN" in site.serve("status", "-a", site.rest, code=1, SKATE_SERVE_TOKEN="wrong")
    assert "nothing answers" in site.serve("status", "-a", "http://127.0.0.1:1", code=1)
    status, answer = site.ask(
        "PUT", {"applications": [{"name": "a", "import_path": "p:a", "deployments": [{"nme": 1}]}]}
    )
    assert status == 400 and answer["field"] == "applications[0].deployments[0].nme", answer
    status, answer = site.ask("PUT", {"applications": [{"import_path": "nowhere:app"}]})
    assert status == 500 and "there is no module 'nowhere'" in answer["error"]
    assert site.ask("PATCH")[0] == 405
    assert site.ask(path="/api/nothing")[0] == 404


def test_scaling_from_outside(site: Site) -> None:
    scale = "/api/v1/applications/a/deployments/Teller/scale"
    site.ask("PUT", config())
    site.running("a")
    status, answer = site.ask("POST", {"target_num_replicas": 2}, path=scale)
    assert status == 412 and "external_scaler_enabled" in answer["error"]
    enabled = config()
    enabled["applications"][0]["external_scaler_enabled"] = True
    assert site.ask("PUT", enabled)[0] == 200
    assert site.ask("POST", {"target_num_replicas": -1}, path=scale)[0] == 400
    assert site.ask("POST", {"target_num_replicas": 2}, path=scale.replace("Teller", "No"))[0] == 404
    assert site.ask("POST", {"target_num_replicas": 2}, path=scale)[0] == 200
    wait_for(lambda: len(site.pids("a")["Teller"]) == 2, 20, "two replicas")


def test_a_program_that_joins_the_node_itself(site: Site) -> None:
    site.write("joins.py", 'import skate\nskate.init(address="auto")\nfrom program import app\n')
    words = [
        "run",
        "joins:app",
        "--name",
        "joined",
        "--route-prefix",
        "/joined",
        "--non-blocking",
        "--address",
    ]
    warning = "the imported module also connected to Ray at a different address"
    assert warning not in site.serve(*words, "auto")
    assert warning in site.serve(*words, "ray://123.45.67.89:50005")
    assert get(site.port, "/joined")[0] == 200
