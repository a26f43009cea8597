"""The page at /docs: the OpenAPI document as plain HTML, without any script or any other site."""

import json
from collections.abc import Mapping
from html import escape
from typing import Any

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""The page loads nothing; the browser is told to hold it to that."""

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; color: #1b1f24 }
h1 small { font-weight: normal; color: #57606a } section { border-top: 1px solid #d0d7de; padding: .6rem 0 }
code, pre { font-family: ui-monospace, monospace; font-size: .9em }
pre { background: #f6f8fa; padding: .6rem; overflow: auto }
table { border-collapse: collapse; width: 100% }
td { text-align: left; vertical-align: top; padding: .2rem .8rem .2rem 0 }
.method { display: inline-block; min-width: 4.5rem; font-weight: bold; color: #0550ae }
@media (prefers-color-scheme: dark) { body { background: #0d1117; color: #e6edf3 } pre { background: #161b22 }
  section { border-color: #30363d } a, .method { color: #79b8ff } h1 small { color: #9da7b3 } }
"""

_Node = Mapping[str, Any]


def docs_page(openapi: _Node) -> str:
    """The whole page; every text of the document is escaped."""
    info = openapi["info"]
    operations = "".join(
        _operation(method, path, operation)
        for path, methods in openapi["paths"].items()
        for method, operation in methods.items()
    )
    schemas = "".join(_schema(name, node) for name, node in sorted(openapi["components"]["schemas"].items()))
    title, version = escape(info["title"]), escape(info["version"])
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title} API</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head><body>'
        f"<h1>{title} API <small>{version}</small></h1><p>{escape(info['description'])}</p>"
        '<p>For programs: <a href="/openapi.json">/openapi.json</a>. This page loads nothing from elsewhere.</p>'
        f"<h2>Paths</h2>{operations}<h2>Types</h2>{schemas}</body></html>"
    )


def _operation(method: str, path: str, operation: _Node) -> str:
    parts = [
        f'<section><h3><span class="method">{escape(method.upper())}</span> <code>{escape(path)}</code></h3>',
        f"<p>{escape(operation.get('summary', ''))}</p>",
    ]
    if parameters := operation.get("parameters"):
        rows = (
            (p["name"], f"in {p['in']}, {_type(p['schema'])}{_default(p['schema'])}", p.get("description", ""))
            for p in parameters
        )
        parts.append(_table(rows))
    if body := operation.get("requestBody"):
        parts.append(f"<p>Body: {_content(body)}</p>")
    answers = (
        (status, _content(answer), answer["description"]) for status, answer in sorted(operation["responses"].items())
    )
    parts.append(_table(answers))
    return "".join(parts) + "</section>"


def _schema(name: str, node: _Node) -> str:
    text = escape(node.get("description", ""))
    head = f'<section id="{escape(name)}"><h3>{escape(name)}</h3><p>{text}</p>'
    if "enum" in node:
        return f"{head}<p>{' · '.join(f'<code>{escape(str(value))}</code>' for value in node['enum'])}</p></section>"
    needed = node.get("required", ())
    rows = (
        (field, _type(of) + ("" if field in needed else _default(of) or ", optional"), of.get("description", ""))
        for field, of in node.get("properties", {}).items()
    )
    examples = "".join(
        f"<pre>{escape(json.dumps(each, indent=2, ensure_ascii=False))}</pre>" for each in node.get("examples", ())
    )
    return f"{head}{_table(rows)}{examples}</section>"


def _table(rows: Any) -> str:
    cells = "".join(f"<tr><td><code>{escape(a)}</code></td><td>{b}</td><td>{escape(c)}</td></tr>" for a, b, c in rows)
    return f"<table>{cells}</table>"


def _content(node: _Node) -> str:
    return ", ".join(
        _type(of["schema"]) if of.get("schema") else escape(kind) for kind, of in node.get("content", {}).items()
    )


def _default(schema: _Node) -> str:
    if schema.get("default") in (None, ""):
        return ""
    return f", {escape(json.dumps(schema['default'], ensure_ascii=False))} if absent"


def _type(schema: _Node) -> str:
    """A schema in a few words of HTML, with links to the types below."""
    if ref := schema.get("$ref"):
        name = escape(ref.rpartition("/")[2])
        return f'<a href="#{name}">{name}</a>'
    if options := schema.get("anyOf"):
        return " or ".join(_type(option) for option in options)
    if schema.get("type") == "array":
        return f"list of {_type(schema['items'])}" if "items" in schema else "list"
    if "const" in schema or "enum" in schema:
        return " · ".join(f"<code>{escape(str(v))}</code>" for v in schema.get("enum", [schema.get("const")]))
    limits = [f"{word} {schema[key]}" for key, word in _LIMITS.items() if key in schema]
    return escape(" ".join([str(schema.get("format", schema.get("type", "any"))), *limits]))


_LIMITS: Mapping[str, str] = {
    "minimum": "≥",
    "exclusiveMinimum": ">",
    "maximum": "≤",
    "minLength": "at least",
    "maxLength": "at most",
}
