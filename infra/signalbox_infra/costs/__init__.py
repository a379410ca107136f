"""What a month costs in money: the counted operations, a measured processor time, and list prices with their dates."""
