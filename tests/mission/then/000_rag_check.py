import concurrent.futures
import json
import os
import urllib.parse
import urllib.request

assert asked == {"host": "0.0.0.0", "port": 8000}


def ask(question):
    query = urllib.parse.urlencode({"q": question})
    with urllib.request.urlopen(f"{address}/?{query}", timeout=60) as answer:
        return json.load(answer)["answer"]


questions = ["what is a ray?", "and a skate?"] * 2
with concurrent.futures.ThreadPoolExecutor(4) as pool:
    answers = list(pool.map(ask, questions))

# The same model, asked here, says the same.
os.environ["CUDA_VISIBLE_DEVICES"] = "here"
from vllm import LLM, SamplingParams

here = LLM(model="meta-llama/Llama-3.1-8B-Instruct", gpu_memory_utilization=0.5)
for question, answer in zip(questions[:2], answers[:2], strict=True):
    prompt = f"Context: Retrieved context would go here...\n\nQuestion: {question}\n\nAnswer:"
    said = here.generate([prompt], SamplingParams(temperature=0.7, max_tokens=512))[0].outputs[0].text
    assert said and said == answer, (said, answer)
assert answers[0] != answers[1] and answers == answers[:2] * 2
states = serve.status().applications["default"].deployments["LLMDeployment"].replica_states
assert states == {"RUNNING": 2}, states
print("the pipeline answered 4 questions")
