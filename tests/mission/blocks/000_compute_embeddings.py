import ray

# Initialize Ray (connects to local cluster or starts one)
ray.init()

# A remote function runs as a distributed task
@ray.remote(num_gpus=1)
def compute_embeddings(texts, model_name="sentence-transformers/all-MiniLM-L6-v2"):
    from sentence_transformers import SentenceTransformer
    model = SentenceTransformer(model_name)
    return model.encode(texts, show_progress_bar=False)

# Launch 4 parallel tasks across available GPUs
text_batches = [texts[i::4] for i in range(4)]
futures = [compute_embeddings.remote(batch) for batch in text_batches]

# Collect results (blocks until all tasks complete)
all_embeddings = ray.get(futures)
print(f"Computed embeddings for {sum(len(e) for e in all_embeddings)} texts")
