"""How functions are compiled, called by address, and given arrays or plain Python."""
