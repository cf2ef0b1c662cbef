"""What parts in plain Python hand over to compiled rounds: functions made of their methods."""
