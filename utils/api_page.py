#!/usr/bin/env python3
"""Writes docs/api.md, the reference of the Python package, from its docstrings: api_page.py, or api_page.py --check

Needs the library (FLASHC_LIBRARY). With --check, the script writes nothing, and fails if the page differs from the
docstrings.
"""

import argparse
import ast
import inspect
import pathlib
import re
import sys
import textwrap
import types

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "api.md"
WIDTH = 120
INTRODUCTION = """# API reference

What `help()` says about every public name, in one page. `utils/api_page.py` makes it from the docstrings of
`python/flashc`: change these, and run it. [python/README.md](../python/README.md) is the way in, and
[recipes.md](recipes.md) has examples.

q, k, v and other arrays are typed `ArrayLike`: objects of any framework with `__dlpack__`, `__cuda_array_interface__`,
`__array_interface__` or Python's buffer protocol. Lengths, offsets and tables are `IntegersLike`: such an array of
integers, a list, or a list of lists. `Window` is None, a number w for (w, 0), or (left, right).
"""
SECTIONS = ("Args", "Returns", "Raises", "Attributes")


# --- Signatures -------------------------------------------------------------------------------------------------------

def parameter_text(parameter):
    text = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "") + parameter.name
    has_type = parameter.annotation is not parameter.empty
    if has_type:
        annotation = parameter.annotation
        text += f": {annotation if isinstance(annotation, str) else annotation.__name__}"
    if parameter.default is not parameter.empty:
        text += f"{' = ' if has_type else '='}{parameter.default!r}"
    return text


def signature_text(name, function, is_method=False):
    signature = inspect.signature(function)
    texts, is_starred = [], False
    for parameter in list(signature.parameters.values())[int(is_method):]:
        if parameter.kind == parameter.KEYWORD_ONLY and not is_starred:
            texts.append("*")
        is_starred = is_starred or parameter.kind in (parameter.KEYWORD_ONLY, parameter.VAR_POSITIONAL)
        texts.append(parameter_text(parameter))
    result = signature.return_annotation
    end = f") -> {result}" if isinstance(result, str) and result != "None" else ")"
    lines, head = [], f"{name}("
    for number, text in enumerate(texts):
        text += "," if number < len(texts) - 1 else ""
        if lines and len(lines[-1]) + 1 + len(text) <= WIDTH - len(end):
            lines[-1] += f" {text}"
        else:
            lines.append((head if not lines else " " * len(head)) + text)
    return "\n".join(lines or [head]) + end


# --- Docstrings -------------------------------------------------------------------------------------------------------

def section_items(lines):
    """Returns the entries of a section, each with its continuation lines."""
    items = []
    for line in lines:
        if line and not line.startswith(" "):
            items.append([line])
        elif items:
            items[-1].append(line.strip())
    return [" ".join(line for line in item if line) for item in items]


def section_text(title, lines):
    lines = textwrap.dedent("\n".join(lines)).split("\n")
    if title == "Returns":
        return [f"**Returns** {' '.join(line.strip() for line in lines if line.strip())}"]
    marked = [re.sub(r"^([\w., ()]+?): ", lambda match: f"`{match.group(1)}`: ", item) for item in section_items(lines)]
    return [f"**{title}**", "", *(f"- {item}" for item in marked)]


def wrapped(line):
    """Returns a paragraph or an entry of a list, wrapped to the width of a page."""
    indent = "  " if line.startswith("- ") else ""
    return textwrap.wrap(line, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False) or [""]


def docstring_text(text):
    """Returns a docstring in Markdown: sections become lists, other text stays as it is."""
    output, lines = [], text.split("\n")
    while lines:
        line = lines.pop(0)
        if line.rstrip(":") not in SECTIONS or not line.endswith(":"):
            output.append(line)
            continue
        body = []
        while lines and (not lines[0] or lines[0].startswith(" ")):
            body.append(lines.pop(0))
        for one in section_text(line.rstrip(":"), body):
            output += wrapped(one)
        output.append("")
    return "\n".join(output).strip() + "\n"


# --- Modules and classes ----------------------------------------------------------------------------------------------

def members(kind):
    """Returns the documented public methods and properties of a class, in the order of their definition."""
    for name, value in vars(kind).items():
        is_callable = inspect.isfunction(value) and (name == "__call__" or not name.startswith("_"))
        if (is_callable or isinstance(value, property)) and value.__doc__:
            yield name, value


def entry(name, value, level="##"):
    if inspect.isfunction(value):
        signature = signature_text(name, value)
    elif inspect.isclass(value) and value.__init__ is not object.__init__ and not issubclass(value, (Exception, tuple)):
        signature = signature_text(name, value.__init__, is_method=True)
    else:
        signature = None
    text = f"{level} {name}\n\n" + (f"```text\n{signature}\n```\n\n" if signature else "")
    text += docstring_text(inspect.getdoc(value) or "")
    if inspect.isclass(value) and not issubclass(value, Exception):
        for member, of in members(value):
            is_property = isinstance(of, property)
            heading = member if is_property else signature_text(member, of, is_method=True)
            text += f"\n{level}# {name.split('.')[-1]}.{heading.splitlines()[0] if is_property else member}\n\n"
            text += "" if is_property else f"```text\n{heading}\n```\n\n"
            text += docstring_text(inspect.getdoc(of))
    return text


def without_bodies(path, title):
    """Returns a module that has only the signatures and docstrings of a file's public functions, because flashc.torch
    cannot be imported without a recent PyTorch."""
    tree = ast.parse(path.read_text())
    names = next(ast.literal_eval(node.value) for node in tree.body
                 if isinstance(node, ast.Assign) and node.targets[0].id == "__all__")
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name in names]
    for function in functions:
        function.body, function.decorator_list = function.body[:1], []
    future = ast.parse("from __future__ import annotations").body
    module = types.ModuleType(title, ast.get_docstring(tree))
    exec(compile(ast.Module(future + functions, []), str(path), "exec"), vars(module))
    return module, names


def module_page(module, names):
    """Returns the page of a module: its docstring, then its names."""
    title = module.__name__
    parts = [f"# {title}\n\n{docstring_text(inspect.getdoc(module))}"]
    return parts + [entry(f"{title}.{name}", getattr(module, name)) for name in names]


def table_of_operations(ops):
    rows = [f"| `{name}` | {' '.join((inspect.getdoc(getattr(ops, name)) or '').split())} |" for name in ops.__all__]
    return f"# flashc.ops\n\n{docstring_text(inspect.getdoc(ops))}\n| | |\n|---|---|\n" + "\n".join(rows) + "\n"


def page():
    import flashc
    functions = [name for name in flashc.__all__ if inspect.isfunction(getattr(flashc, name))]
    classes = [name for name in flashc.__all__ if inspect.isclass(getattr(flashc, name))]
    parts = [INTRODUCTION, "# flashc\n"]
    parts += [entry(f"flashc.{name}", getattr(flashc, name)) for name in functions + classes]
    parts += module_page(flashc.masks, flashc.masks.__all__)
    parts += module_page(flashc.scores, flashc.scores.__all__)
    parts.append(table_of_operations(flashc.ops))
    parts += module_page(*without_bodies(ROOT / "python" / "flashc" / "torch.py", "flashc.torch"))
    return "\n".join(parts)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="fail if the page is not up to date")
    arguments = parser.parse_args()
    sys.path.insert(0, str(ROOT / "python"))
    text = page()
    if arguments.check:
        sys.exit(0 if PAGE.exists() and PAGE.read_text() == text else
                 "expected docs/api.md to be what the docstrings say, got another text: run utils/api_page.py")
    PAGE.write_text(text)


if __name__ == "__main__":
    main()
