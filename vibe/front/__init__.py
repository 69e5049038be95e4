"""The words that every front end uses for events, plans, requests and results, and the slash commands."""
