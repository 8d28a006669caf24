"""Colours of the page's charts and bars: of Carbon, IBM's palette, the grades 50 and 60.

https://carbondesignsystem.com/elements/color/overview/. These grades have a contrast of at least
3:1 against the page's background, light or dark, as WCAG 2.2 asks of graphics (criterion 1.4.11).
"""

BLUE_60 = "#0f62fe"
CYAN_50 = "#1192e8"
ORANGE_60 = "#ba4e00"
ORANGE_50 = "#eb6200"
GREEN_50 = "#24a148"
MAGENTA_50 = "#ee5396"
RED_60 = "#da1e28"
GRAY_60 = "#6f6f6f"
