"""Count what the code consists of: folders, files, lines, imports, syntax nodes and words; list the longest functions.

The report fails nothing: no limit decides where code lives. Syntax nodes are counted beside lines, since lines can be
made fewer without making the code simpler.

    make house
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("agents", "graphs", "protocols", "simulations", "kernelswarm")
OTHERS = ("tests", "benchmarks", "examples")
PAGES = {
    "pages": ["README.md", "CHANGELOG.md", "docs/*.md", "docs/reproductions/*.md"],
    "decisions": ["docs/decisions/*.md"],
}


def files(folder: str) -> list[Path]:
    top = ROOT / folder
    return [path for path in sorted(top.rglob("*.py")) if not any(p.is_symlink() for p in path.parents if p != top)]


def code_lines(tree: ast.Module, text: str) -> int:
    """Lines that are not blank, comments or docstrings."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    strings = set()
    for node in ast.walk(tree):
        if isinstance(node, documented) and ast.get_docstring(node, clean=False) is not None:
            first = node.body[0]
            strings |= set(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    return sum(
        bool(line.strip()) and not line.lstrip().startswith("#") and number not in strings
        for number, line in enumerate(text.splitlines(), 1)
    )


def main() -> None:
    functions = []
    print(f"{'folder':<14}{'folders':>8}{'files':>7}{'lines':>9}{'code':>9}{'imports':>9}{'nodes':>10}")
    total = [0] * 6
    for folder in (*PACKAGES, *OTHERS):
        row = [0] * 6
        paths = files(folder)
        row[0] = len({path.parent for path in paths})
        for path in paths:
            text = path.read_text(encoding="utf-8")
            tree = ast.parse(text)
            row[1] += 1
            row[2] += len(text.splitlines())
            row[3] += code_lines(tree, text)
            for node in ast.walk(tree):
                row[5] += 1
                if isinstance(node, (ast.Import, ast.ImportFrom)):
                    row[4] += (node.end_lineno or node.lineno) - node.lineno + 1
                elif isinstance(node, ast.FunctionDef) and folder in PACKAGES:
                    length = (node.end_lineno or node.lineno) - node.lineno + 1
                    functions.append((length, f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"))
        print(f"{folder:<14}{row[0]:>8}{row[1]:>7}{row[2]:>9,}{row[3]:>9,}{row[4] / row[3]:>9.1%}{row[5]:>10,}")
        if folder in PACKAGES:
            total = [a + b for a, b in zip(total, row, strict=True)]
    row = total
    print(f"{'packages':<14}{row[0]:>8}{row[1]:>7}{row[2]:>9,}{row[3]:>9,}{row[4] / row[3]:>9.1%}{row[5]:>10,}\n")
    print("longest functions of the packages")
    for length, place in sorted(functions, reverse=True)[:10]:
        print(f"{length:>6} lines  {place}")
    print()
    for name, patterns in PAGES.items():
        texts = [path.read_text(encoding="utf-8") for pattern in patterns for path in sorted(ROOT.glob(pattern))]
        words = sum(len(re.findall(r"\S+", text)) for text in texts)
        print(f"{name}: {len(texts)} files, {words:,} words")


if __name__ == "__main__":
    main()
