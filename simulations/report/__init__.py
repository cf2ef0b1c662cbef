"""A run or a comparison as one page for a browser, with everything in it that the page shows."""
