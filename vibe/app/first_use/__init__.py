"""The first use: a provider, its key, a model and a first answer, with the same steps for every front end."""
