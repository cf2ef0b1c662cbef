"""The streams of samples: drawn without end, or rows of files and tables that become numbers."""
