"""HTTP on each machine of a cluster: a proxy per node keeps the listening socket there, and tunnels lead to other nodes."""
