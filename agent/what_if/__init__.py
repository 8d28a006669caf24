"""What-if questions about a target, and SLA headrooms: parsing, answering, JSON."""
