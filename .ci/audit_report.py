"""Report pip-audit's JSON from standard input: 1 where a vulnerability is known, 2 where it failed.

The argument is the file with its standard error.
"""

import json
import re
import sys
from pathlib import Path

UNREACHABLE = re.compile(r"could not connect|connection|timed? ?out|max retries", re.IGNORECASE)


def main() -> int:
    """Print each vulnerability, or how many libraries have none; a skipped one does not count."""
    try:
        libraries = json.load(sys.stdin)["dependencies"]
    except (ValueError, KeyError):
        error = Path(sys.argv[1]).read_text(encoding="utf-8", errors="replace").strip()
        if not UNREACHABLE.search(error):
            reason = error.splitlines()[-1] if error else "no output"
            print(f"audit: pip-audit failed: {reason}", file=sys.stderr)
            return 2
        libraries = []
    audited = [library for library in libraries if "skip_reason" not in library]
    found = [(library, flaw) for library in audited for flaw in library["vulns"]]
    for library, flaw in found:
        fixed = ", ".join(flaw["fix_versions"]) or "no version"
        place = f"{library['name']} {library['version']}"
        print(f"audit: {place} has {flaw['id']} (mended in {fixed})", file=sys.stderr)
    if not audited:
        reason = "no service that knows them can be reached"
        print(f"audit: the audit of known vulnerabilities was not run: {reason}", file=sys.stderr)
    elif not found:
        summary = f"{len(audited)} of {len(libraries)} libraries audited"
        print(f"audit: {summary}, no vulnerability known", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
