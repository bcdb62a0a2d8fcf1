"""Colours, hatches and names that every figure shares, drawn or interactive."""

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Okabe and Ito's palette, without its yellow (too pale in print)."""
RIGHT = ("right", "#0072B2", "", "")
ERRORS = {
    "error_misbinding": ("another key's value", "#D55E00", "//", "/"),
    "error_stale_value": ("stale value", "#CC79A7", "..", "."),
    "error_out_of_row_value": ("value from outside the row", "#E69F00", "xx", "x"),
    "error_key_token": ("a key", "#56B4E9", "--", "-"),
    "error_other": ("other token", "#999999", "++", "+"),
}
"""Error column: name, colour, hatch in matplotlib and in plotly (for print without colour)."""
