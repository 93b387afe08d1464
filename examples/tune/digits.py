"""Search for the best small network for handwritten digits (scikit-learn's, 1,797 images of 8 x 8 points).

    python examples/tune/digits.py [--trials 24] [--out digits.png]

Optuna proposes, ASHA ends unpromising trials, every trial saves its weights, and a plot shows the search: one
line per trial, the best in colour. Needs scikit-learn and Optuna, and matplotlib for the picture.
"""

from __future__ import annotations

import argparse
import pickle
import tempfile
import warnings
from pathlib import Path
from typing import Any

import skate as ray
from skate import tune
from skate.tune.schedulers import ASHAScheduler
from skate.tune.search.optuna import OptunaSearch

EPOCHS = 16


def train(config: dict[str, Any], data: tuple[Any, ...]) -> None:
    """Train a network for some epochs; after each, report its accuracy with a checkpoint."""
    from sklearn.neural_network import MLPClassifier

    images, labels, test_images, test_labels = data
    model = MLPClassifier(
        hidden_layer_sizes=(config["width"],) * config["layers"],
        learning_rate_init=config["lr"],
        alpha=config["decay"],
        activation=config["activation"],
        random_state=0,
    )
    first = 0
    checkpoint = tune.get_checkpoint()
    if checkpoint is not None:  # the search was interrupted, and resumes
        with checkpoint.as_directory() as folder:
            first, model = pickle.loads(Path(folder, "model.pkl").read_bytes())
    for epoch in range(first, EPOCHS):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.partial_fit(images, labels, classes=range(10))
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "model.pkl").write_bytes(pickle.dumps((epoch + 1, model)))
            tune.report(
                {"accuracy": model.score(test_images, test_labels), "loss": model.loss_},
                checkpoint=tune.Checkpoint.from_directory(folder),
            )


def load() -> tuple[Any, ...]:
    """Return images and labels for training and for testing."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    images, labels = load_digits(return_X_y=True)
    images, test_images, labels, test_labels = train_test_split(
        images / 16.0, labels, test_size=0.3, random_state=0
    )
    return images, labels, test_images, test_labels


def draw(results: tune.ResultGrid, out: str) -> None:
    """Plot one line per trial: its accuracy after each epoch."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    best = results.get_best_result()
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 4))
    for result in results:
        table = result.metrics_dataframe
        chosen = result is best
        left.plot(
            table["training_iteration"],
            table["accuracy"],
            color="tab:orange" if chosen else "0.7",
            zorder=2 if chosen else 1,
            marker="" if len(table) > 1 else ".",
        )
        right.scatter(
            result.config["lr"],
            result.metrics["accuracy"],
            s=4 * len(table),
            color="tab:orange" if chosen else "tab:blue",
        )
    left.set(xlabel="epoch", ylabel="accuracy", title="every trial, the best in colour")
    right.set(xlabel="learning rate", xscale="log", title="larger: trained for longer")
    figure.tight_layout()
    figure.savefig(out, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--trials", type=int, default=24)
    parser.add_argument("--out", default="digits.png")
    args = parser.parse_args()
    ray.init()
    with tempfile.TemporaryDirectory() as storage:
        tuner = tune.Tuner(
            tune.with_parameters(train, data=load()),
            param_space={
                "lr": tune.loguniform(1e-4, 1e-1),
                "width": tune.qrandint(8, 64, 8),
                "layers": tune.randint(1, 3),
                "decay": tune.loguniform(1e-6, 1e-2),
                "activation": tune.choice(["relu", "tanh"]),
            },
            tune_config=tune.TuneConfig(
                metric="accuracy",
                mode="max",
                num_samples=args.trials,
                search_alg=OptunaSearch(seed=0),
                scheduler=ASHAScheduler(max_t=EPOCHS, grace_period=2, reduction_factor=3),
            ),
            run_config=tune.RunConfig(
                name="digits", storage_path=storage, checkpoint_config=tune.CheckpointConfig(num_to_keep=1)
            ),
        )
        results = tuner.fit()
        best = results.get_best_result()
        steps = sum(result.metrics["training_iteration"] for result in results)
        print(f"best accuracy {best.metrics['accuracy']:.3f} with {best.config}")
        print(f"{len(results)} trials took {steps} epochs of {len(results) * EPOCHS}")
        draw(results, args.out)
        print(f"the search is drawn in {args.out}")


if __name__ == "__main__":
    main()
