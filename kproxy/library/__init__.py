"""The Python library: what `import kproxy` offers (docs/library.md).

kproxy/__init__.py lists the public names; each is imported from here when it is first used.
"""
