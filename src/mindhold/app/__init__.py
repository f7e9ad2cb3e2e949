"""The composition root: settings in, running application out."""
