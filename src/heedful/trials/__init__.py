"""`heedful.trial`: is attention explanation, on this model?"""
