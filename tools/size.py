"""Compares the size of src/jobflow with the limits in pyproject.toml, [tool.jobflow.size].

`make lint` runs this script. The limits make growth a decision: a change that needs more lines
raises them in the same commit.
"""

import ast
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def count_lines(text: str) -> Counter[str]:
    """Return the number of lines of a module by what they hold: code, import, docstring, comment,
    blank."""
    docstrings, imports = set[int](), set[int]()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, _DOCUMENTED) and ast.get_docstring(node) is not None:
            first = node.body[0]
            docstrings.update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
        elif isinstance(node, ast.Import | ast.ImportFrom):
            imports.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    lines: Counter[str] = Counter()
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            lines["blank"] += 1
        elif number in docstrings:
            lines["docstring"] += 1
        elif number in imports:
            lines["import"] += 1
        else:
            lines["comment" if line.lstrip().startswith("#") else "code"] += 1
    return lines


def find_excess(lines: Mapping[str, int], limits: Mapping[str, float]) -> Iterator[str]:
    """Yield a sentence for each limit that the lines break."""
    total = sum(lines.values())
    for name, count in (("lines", total), ("code", lines.get("code", 0))):
        if count > limits[name]:
            kind = "lines of code" if name == "code" else "lines"
            yield (
                f"src/jobflow has {count:,} {kind}; at most {limits[name]:,} are allowed. Say it "
                f"in fewer, or raise `{name}` below [tool.jobflow.size] in pyproject.toml and say "
                "why in the commit."
            )
    share = 100 * lines.get("comment", 0) / total
    if share < limits["comments"]:
        yield (
            f"{share:.2f} % of the lines of src/jobflow are comments; at least "
            f"{limits['comments']} % are needed. Write the reason at the line where a reader asks."
        )


def main() -> int:
    """Print the size and each limit that it breaks. Return 1 if it breaks any."""
    lines: Counter[str] = Counter()
    for path in (ROOT / "src" / "jobflow").rglob("*.py"):
        lines += count_lines(path.read_text())
    print(f"{sum(lines.values()):,} lines:", *(f"{n:,} {kind}" for kind, n in lines.most_common()))
    limits = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["jobflow"]["size"]
    excess = list(find_excess(lines, limits))
    for sentence in excess:
        print(sentence, file=sys.stderr)
    return 1 if excess else 0


if __name__ == "__main__":
    sys.exit(main())
