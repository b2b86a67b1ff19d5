"""The shared truth: who the brokers are, which topics exist, who leads, what is configured. Small, durable, watched."""
