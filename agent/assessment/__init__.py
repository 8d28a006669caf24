"""The results for a target: its snapshot, and the state kept from one assessment to the next."""
