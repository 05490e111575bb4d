"""Workflows and runs as pictures, pages and programs; nothing here runs a node.

- `drawn_workflow`: what is drawn of a workflow, with those that are written in its nodes
- `mermaid`: a workflow as a Mermaid flowchart
- `svg_drawing`: a workflow as an SVG drawing
- `timeline`: a trace as an HTML page
- `html_page`: what every HTML page shares: one file, no scripts, nothing loaded from elsewhere
- `python_export`: a workflow as a Python program
"""
