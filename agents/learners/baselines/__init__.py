"""The budgeted and mistake-driven learners that the papers compare with."""
