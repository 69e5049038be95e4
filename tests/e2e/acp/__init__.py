"""The protocol of editors: the installed agent, and an editor that talks to it."""
