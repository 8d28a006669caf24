"""What other hardware, another load or a cheaper query would change."""
