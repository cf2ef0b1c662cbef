"""How tables are written: encodings, headers, spreadsheets, and columns that number rows."""
