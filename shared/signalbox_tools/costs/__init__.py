"""Compute a month's bill from counted operations, a measured processor time, and dated list prices."""
