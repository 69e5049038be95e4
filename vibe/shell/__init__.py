"""The policy for command lines and their confined execution. Nothing here knows about agents."""
