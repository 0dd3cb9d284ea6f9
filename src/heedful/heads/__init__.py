"""`heedful.attention`: all heads of a model on one text, and what single heads do."""
