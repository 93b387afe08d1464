"""Two deployments behind one address: a retriever and a writer, called over HTTP and by handle.

python examples/serve/pipeline.py
"""

import json
import os
import urllib.request

import skate as ray
from skate import serve

NOTES = {
    "ray": "A ray is a fish without bones.",
    "skate": "A skate is a ray that travels light.",
}


@serve.deployment(num_replicas=2, ray_actor_options={"num_cpus": 0.1})
class Retriever:
    def search(self, question: str) -> list[str]:
        return [text for word, text in NOTES.items() if word in question.lower()]


@serve.deployment(ray_actor_options={"num_cpus": 0.1})
class Answers:
    def __init__(self, retriever: serve.handle.DeploymentHandle) -> None:
        self.retriever = retriever

    async def __call__(self, request):
        return await self.answer(request.query_params["q"])

    async def answer(self, question: str) -> dict:
        found = await self.retriever.search.remote(question)
        return {"question": question, "answer": " ".join(found) or "I do not know."}


if __name__ == "__main__":
    port = int(os.environ.get("PORT", 8123))
    handle = serve.run(Answers.bind(Retriever.bind()), port=port)
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/?q=what+is+a+skate") as answer:
        print(json.load(answer)["answer"])
    print(handle.answer.remote("and a ray?").result()["answer"])
    serve.shutdown()
    ray.shutdown()
