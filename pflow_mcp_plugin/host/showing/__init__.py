"""Workflows and runs as pictures, pages and programs; nothing here runs a node.

- `mermaid`: a workflow as a Mermaid flowchart
- `drawing`: a workflow as an SVG drawing
- `page`: what every page has: one file, no script, nothing loaded from elsewhere
- `timeline`: a trace as a page
- `script`: a workflow as a Python program
"""
