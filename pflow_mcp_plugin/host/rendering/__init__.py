"""Workflows and runs as pictures, pages and programs; nothing here runs a node.

- `drawn_workflow`: what is drawn of a workflow, including those written in its nodes
- `mermaid`: a workflow as a Mermaid flowchart
- `svg_drawing`: a workflow as an SVG drawing
- `timeline`: a trace as an HTML page
- `html_page`: the common frame of every HTML page: one file, no scripts, nothing loaded from elsewhere
- `python_export`: a workflow as a Python program
"""
