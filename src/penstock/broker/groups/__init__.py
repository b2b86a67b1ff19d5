"""Groups of consumers and their committed offsets: pure machines, and the coordinator that runs them."""
