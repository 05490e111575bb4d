"""Text on a terminal: what is safe to print, how wide it is, tables, colours, live lines, times in words.

A leaf: reports, messages and displays of all rooms come from here.
"""
