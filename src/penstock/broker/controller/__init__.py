"""The controller: decides what the cluster's metadata becomes, and writes it. The planners are pure."""
