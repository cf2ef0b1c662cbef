"""From an experiment to a result, with what is observed on the way and what does not suit."""
