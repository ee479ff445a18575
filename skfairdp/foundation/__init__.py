"""Foundation of every room: parameter checks, figures in print, sentences, docstrings, tags."""
