"""Text on a terminal; a leaf below all rooms that print.

- `looks`: text for people, with what is hidden in it escaped; how wide text is, cut, padded or broken to a
  width; its colours, and whether to use any; the tables of reports
- `human_units`: times, counts and lists in words; `similar_names`: what may be meant by an unknown name
- `live_lines`: lines at the bottom about what happens now
"""
