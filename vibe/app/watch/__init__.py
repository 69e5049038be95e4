"""The runs of this machine as seen by a program beside them: found, followed and answered."""
