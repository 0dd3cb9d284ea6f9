"""What labs measure."""
