"""Who gets how much of one capacity: tokens of a model, or GPUs of a product."""
