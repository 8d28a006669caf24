"""What was recorded on real servers: samples, loads below and past the peak."""
