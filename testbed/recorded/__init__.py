"""Recordings of real servers: samples, and loads below and past the peak."""
