"""Write which public names of PyTorch packages use, and how many of them, to tools/used_names.txt.

    python tools/record_used_names.py SITE_PACKAGES...

Every package in these folders that imports torch counts once for each name in its source. Only
needed to look at other packages; docs/compatibility.md weighs what is missing by the list.
"""

import argparse
import ast
import warnings
from collections import Counter
from pathlib import Path

TOOLS = Path(__file__).resolve().parent
TARGET = TOOLS / "used_names.txt"


def recorded_names():
    """Every recorded public name, with its namespace."""
    lines = (TOOLS / "pytorch_names.txt").read_text().splitlines()[1:]
    split = (line.partition(": ") for line in lines)
    return {f"{namespace}.{name}" for namespace, _, names in split for name in names.split()}


def dotted(node):
    """An attribute chain as a dotted name; "" for anything else."""
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""


def names_in(source):
    """The dotted names of torch that a file mentions, through the aliases that it imports."""
    aliases, found = {}, set()
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.partition(".")[0] == "torch":
                    full = alias.name if alias.asname else "torch"
                    aliases[alias.asname or "torch"] = full
        elif isinstance(node, ast.ImportFrom) and not node.level:
            if (node.module or "").partition(".")[0] == "torch":
                for alias in node.names:
                    aliases[alias.asname or alias.name] = f"{node.module}.{alias.name}"
                    found.add(f"{node.module}.{alias.name}")
    for node in ast.walk(tree) if aliases else ():
        first, _, rest = dotted(node).partition(".")
        if first in aliases:
            found.add(f"{aliases[first]}.{rest}" if rest else aliases[first])
    return found


def names_of(package):
    """The names that the files of one package mention."""
    found = set()
    for path in package.rglob("*.py"):
        source = path.read_text(errors="ignore")
        if "torch" in source:
            try:
                found |= names_in(source)
            except (SyntaxError, ValueError):
                continue
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="+", type=Path)
    warnings.simplefilter("ignore")
    known, counts, packages = recorded_names(), Counter(), 0
    for folder in parser.parse_args().folders:
        for package in sorted(path for path in folder.iterdir() if path.is_dir()):
            if package.name.partition(".")[0] in ("torch", "ember") or "-info" in package.name:
                continue
            used = names_of(package) & known
            packages += bool(used)
            counts.update(used)
    lines = [f"# Public names of PyTorch in the source of {packages} packages: how many use each"]
    lines += [f"{name} {count}" for name, count in sorted(counts.items())]
    TARGET.write_text("\n".join(lines) + "\n")
    print(f"{TARGET}: {len(counts)} names of {packages} packages")


if __name__ == "__main__":
    main()
