"""A trained policy over a websocket, in the protocol that openpi's clients speak."""
