"""The world, passed in: clock, files, network, chance and tasks. Everything above takes these as arguments."""
