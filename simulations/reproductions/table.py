"""The names of the reproductions: the one table."""

# name -> "module:function". A new reproduction is one file and one line here; nothing is imported until it is named.
REPRODUCTIONS: dict[str, str] = {}
