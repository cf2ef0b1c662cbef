"""All reproductions, one after another or side by side, and one page of them."""
