"""What is known of a target: its snapshot, and what is kept from one assessment to the next."""
