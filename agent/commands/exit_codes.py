"""Exit codes of the commands; 0 is success."""

FAILED = 1
"""What was asked for could not be done."""
USAGE_ERROR = 2
"""An option or an input file is wrong."""
