"""What-if questions about a target: asked, answered and written down."""
