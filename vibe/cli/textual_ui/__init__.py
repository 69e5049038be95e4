"""The screen: chat, plans, requests and all that runs, on Textual."""
