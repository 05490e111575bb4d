"""Text on a terminal; a leaf below all rooms that print.

- `printable_text`: text for people, with what is hidden in it escaped
- `text_width`: how wide text is, cut or padded to a width
- `tables`: the tables of reports; `human_units`: times and counts in words
- `looks`: colours, and whether to use any; `live_lines`: lines at the bottom about what happens now
"""
