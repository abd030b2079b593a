"""`forebay share`: who would get how much of a model, before anything is applied."""
