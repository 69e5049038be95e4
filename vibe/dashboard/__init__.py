"""The web dashboard: a server for this machine alone, which sends its page rows and then patches of them."""
