import numpy as np

assert [len(e) for e in all_embeddings] == [11, 11, 10, 10]
assert all(e.shape[1] == 384 for e in all_embeddings)
assert all(np.allclose(np.linalg.norm(e, axis=1), 1, atol=1e-5) for e in all_embeddings)
# The first text of each batch is the one that the slicing put there.
from sentence_transformers import SentenceTransformer

for batch, embeddings in zip(text_batches, all_embeddings, strict=True):
    assert np.array_equal(embeddings, SentenceTransformer("any").encode(batch))
print("embeddings are those computed in this process")
