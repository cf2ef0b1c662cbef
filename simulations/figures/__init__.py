"""The pictures, one idea per file; every function draws into axes it is given, and plots.py makes and saves them."""
