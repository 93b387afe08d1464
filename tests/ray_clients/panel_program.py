"""The program whose metrics Ray's panels show, on Ray and on Skate: tasks, actors, objects, a group, Data, Train and Serve.

It repeats its rounds until its standard input is closed, and prints a line after each. Its tasks, batches and steps sleep:
work has to take a good part of the second between two scrapes, or no scrape would see anything run.
"""

from __future__ import annotations

TEXT = """
import json, os, sys, tempfile, threading, time, urllib.error, urllib.request

if sys.argv[2] == "skate":
    import skate.compat
    skate.compat.install()
import ray
from ray import serve
from ray.train import Checkpoint, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer

ray.init(num_cpus=4, log_to_driver=False, object_store_memory=200_000_000, **json.loads(sys.argv[1]))
ray.data.DataContext.get_current().enable_progress_bars = False
port = int(sys.argv[3])
folder = sys.argv[4]
closed = threading.Event()

def watch():
    sys.stdin.read()
    closed.set()

threading.Thread(target=watch, daemon=True).start()

@ray.remote
def work(seconds):
    time.sleep(seconds)
    return b"x" * 200_000

@ray.remote(max_retries=2, retry_exceptions=True)
def flaky(path):
    if not os.path.exists(path):
        open(path, "w").close()
        raise ValueError("the first attempt fails")
    time.sleep(1.5)

@ray.remote(max_retries=1)
def lost(path):
    if not os.path.exists(path):
        open(path, "w").close()
        os._exit(3)

@ray.remote(num_cpus=0)
class Counter:
    def add(self, seconds):
        time.sleep(seconds)
        return 1

@serve.deployment(ray_actor_options={"num_cpus": 0.1})
class Greeter:
    @serve.multiplexed(max_num_models_per_replica=1)
    async def model(self, name):
        return name

    async def __call__(self, request):
        if request.query_params.get("fail"):
            raise ValueError("a failing request")
        name = await self.model(serve.get_multiplexed_model_id() or "a")
        return "hello " + name

def train(config):
    data = ray.train.get_dataset_shard("train")
    for epoch in range(3):
        for batch in data.iter_batches(batch_size=50):
            time.sleep(0.4)  # several scrapes have to see the run, or a rate has no value
        with tempfile.TemporaryDirectory() as there:
            with open(os.path.join(there, "weights"), "w") as file:
                file.write("1")
            ray.train.report({"epoch": epoch}, checkpoint=Checkpoint.from_directory(there))

def slow(batch):
    time.sleep(0.2)
    return batch

def ask(model="", query=""):
    request = urllib.request.Request(f"http://127.0.0.1:{port}/hello{query}", headers={"serve_multiplexed_model_id": model})
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            answer.read()
    except urllib.error.HTTPError as error:
        error.close()

counter = Counter.remote()
group = ray.util.placement_group([{"CPU": 0.5}])
ray.get(group.ready())
kept = [ray.put(b"x" * 1_000_000) for _ in range(5)]
serve.start(http_options={"host": "127.0.0.1", "port": port})
serve.run(Greeter.bind(), name="greeter", route_prefix="/hello")

round = 0
while not closed.is_set():
    round += 1
    path = os.path.join(folder, f"{round}-")
    refs = [work.remote(0.1) for _ in range(20)] + [counter.add.remote(0.05) for _ in range(10)]
    refs += [flaky.remote(path + "flaky"), lost.remote(path + "lost")]
    for number in range(10):
        ask("ab"[number % 2], "?fail=1" if number % 4 == 3 else "")
    ray.get(refs)
    made = ray.data.range(400, override_num_blocks=8).map_batches(slow, batch_size=25)
    made = made.map_batches(slow, batch_size=50, num_cpus=0.5)
    for batch in made.iter_batches(batch_size=50):
        pass
    if round <= 2:
        trainer = TorchTrainer(
            train,
            scaling_config=ScalingConfig(num_workers=1, resources_per_worker={"CPU": 0.5}),
            run_config=RunConfig(name=f"run{round}", storage_path=folder),
            datasets={"train": ray.data.range(400, override_num_blocks=4)},
        )
        trainer.fit()
    print("round", round, flush=True)
"""
