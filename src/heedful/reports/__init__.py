"""Terminal, page and notebook views of results. No torch here."""
