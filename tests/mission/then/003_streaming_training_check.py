result = trainer.fit()
assert result.error is None and result.metrics is None, "the function of the text reports nothing"
print("two workers went over the rows ten times")
