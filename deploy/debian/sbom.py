"""The software bill of materials of installed libraries, CycloneDX 1.6: sbom.py FOLDER VERSION.

https://cyclonedx.org/docs/1.6/json/; without a serial number or a time, so that the same libraries
give the same bytes.
"""

import json
import sys
from importlib.metadata import Distribution, distributions
from typing import Any

OURS = "mysql-headroom"


def component(library: Distribution) -> dict[str, Any]:
    """One library: its name, version, licence and package URL."""
    name = library.name.lower().replace("_", "-")
    found = {"type": "library", "name": name, "version": library.version, **licence(library)}
    url = f"pkg:pypi/{name}@{library.version}"
    return {**found, "bom-ref": url, "purl": url}


def licence(library: Distribution) -> dict[str, Any]:
    """As it says in its metadata: an expression, else a line of free text, else the classifiers."""
    says = library.metadata
    if expression := says.get("License-Expression"):
        return {"licenses": [{"expression": expression}]}
    names = [c.rpartition(" :: ")[2] for c in says.get_all("Classifier", []) if "License ::" in c]
    free = says.get("License", "")
    if free and "\n" not in free:
        names = [free]
    return {"licenses": [{"license": {"name": name}} for name in names]} if names else {}


def bill(folder: str, version: str) -> dict[str, Any]:
    """All libraries in a site-packages folder but ourselves, which they belong to."""
    ours = f"pkg:generic/{OURS}@{version}"
    about = {"type": "application", "name": OURS, "version": version, "bom-ref": ours, "purl": ours}
    libraries = [component(found) for found in distributions(path=[folder]) if found.name != OURS]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": about},
        "components": sorted(libraries, key=lambda library: str(library["name"])),
    }


if __name__ == "__main__":
    json.dump(bill(*sys.argv[1:3]), sys.stdout, indent=1)
    print()
