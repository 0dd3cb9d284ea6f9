"""Any model a user may have, as one typed object: `heedful.models.load`."""
