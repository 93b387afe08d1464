"""The engine that is part of Skate: models of transformers on CPUs, batched anew at each step."""
