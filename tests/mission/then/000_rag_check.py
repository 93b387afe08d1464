import concurrent.futures
import json
import urllib.parse
import urllib.request

assert asked == {"host": "0.0.0.0", "port": 8000}


def ask(question):
    query = urllib.parse.urlencode({"q": question})
    with urllib.request.urlopen(f"{address}/?{query}", timeout=30) as answer:
        return json.load(answer)["answer"]


with concurrent.futures.ThreadPoolExecutor(8) as pool:
    answers = list(pool.map(ask, ["what is a ray?"] * 40))
assert all("Question: what is a ray?" in each for each in answers)
assert all(each.startswith("meta-llama/Llama-3.1-8B-Instruct on ") for each in answers)
devices = {each.partition(" on ")[2].partition(":")[0] for each in answers}
assert devices <= {"0", "1"}, devices
states = serve.status().applications["default"].deployments["LLMDeployment"].replica_states
assert states == {"RUNNING": 2}, states
print("the pipeline answered 40 questions")
