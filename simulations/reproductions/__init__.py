"""The papers' tables and figures: one file each, published and measured side by side."""
