"""DQN in torch."""
