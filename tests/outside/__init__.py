"""References from outside: figures that other packages print, beside the ones printed here."""
