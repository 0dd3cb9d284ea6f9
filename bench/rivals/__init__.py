"""What people use or write today, set up as its documentation says."""
