"""Finding, reading and writing files for the file tools."""
