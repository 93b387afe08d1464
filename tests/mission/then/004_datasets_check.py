"""Continues after the conversion: rows as they were, in order."""

assert ray_datasets["train"].count() == 40
assert ray_datasets["validation"].take(1) == [
    {"sentence1": "sentence 0", "sentence2": "other 0", "label": 0, "idx": 0}
]
assert ray_datasets["train"].columns() == ["sentence1", "sentence2", "label", "idx"]
print("datasets of both parts")
