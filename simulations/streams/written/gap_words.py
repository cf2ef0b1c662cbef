"""Text that stands for a value that is not there."""

WRITTEN = (
    *("", "?", "NA", "<NA>", "N/A", "n/a", "#N/A", "#N/A N/A", "#NA", "NULL", "null", "None"),
    *("NaN", "nan", "-NaN", "-nan", "1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN"),
)
"""What pandas takes for it, and a question mark."""
