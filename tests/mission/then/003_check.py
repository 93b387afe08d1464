import os

before = os.environ.get("HF_TOKEN")


@ray.remote
def seen():
    import os

    return os.environ.get("HF_TOKEN"), os.environ.get("CUDA_VISIBLE_DEVICES")


print("worker sees", ray.get(seen.remote()))
assert before is None and os.environ.get("HF_TOKEN") is None, "the driver's own environment is left alone"
