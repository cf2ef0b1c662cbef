"""Where blocks live: in this process, or in Ray's actors."""
