"""The bottom of the screen: the prompt, or in its place a request to the person or a proposed plan."""
