from ray import serve
from ray.serve.handle import DeploymentHandle
@serve.deployment(
    num_replicas=2,
    ray_actor_options={"num_gpus": 1},
)
class LLMDeployment:
    def __init__(self, model_name: str):
        from vllm import LLM, SamplingParams
        self.llm = LLM(model=model_name, gpu_memory_utilization=0.85)
        self.default_params = SamplingParams(
            temperature=0.7, max_tokens=512
        )
    async def generate(self, prompt: str) -> str:
        outputs = self.llm.generate([prompt], self.default_params)
        return outputs[0].outputs[0].text
@serve.deployment(num_replicas=1)
class RAGPipeline:
    def __init__(self, llm_handle: DeploymentHandle):
        self.llm = llm_handle
        # Initialize retriever, reranker, etc.
    async def __call__(self, request):
        query = request.query_params["q"]
        # Step 1: Retrieve relevant documents (simplified)
        context = "Retrieved context would go here..."
        # Step 2: Generate response using the LLM
        prompt = f"Context: {context}\n\nQuestion: {query}\n\nAnswer:"
        response = await self.llm.generate.remote(prompt)
        return {"answer": response}
# Bind deployments and start serving
llm = LLMDeployment.bind(model_name="meta-llama/Llama-3.1-8B-Instruct")
app = RAGPipeline.bind(llm_handle=llm)
serve.run(app, host="0.0.0.0", port=8000)
