"""The pictures; every function draws into axes it is given, and plots.py makes and saves them."""
