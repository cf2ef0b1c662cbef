"""How tables are written: their encoding, what stands above their header, spreadsheets, columns that number rows."""
