"""What single heads do: induction, syntax, pronouns."""
