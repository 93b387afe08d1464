assert result.metrics["step"] == 2 and result.error is None
print("trained to a loss of", round(result.metrics["loss"], 3))
