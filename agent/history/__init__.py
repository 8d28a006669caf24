"""The history file: intervals, assessments and samples that the agent keeps over restarts."""
