"""The five contracts over one catalogue: names, arguments, defaults and answer shapes, as data."""
