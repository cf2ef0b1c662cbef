"""A search: values of keys tried one after another, each proposed from what the earlier ones gave."""
