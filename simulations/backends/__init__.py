"""The backends, which hold blocks in this process or in Ray's actors."""
